"""Reading one field of what the API answers with: strictly what the client relies on, leniently all else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flower_client.errors import BadReply

Json = dict[str, Any]


def as_object(data: Any, what: str) -> Json:
    """``data`` when it is a JSON object. Raises BadReply, naming ``what`` was expected."""
    if not isinstance(data, dict):
        raise BadReply(f"expected {what}, got {type(data).__name__}")
    return data


def as_count(data: Mapping[str, Any], key: str) -> int:
    """A whole number from 0 up to 2^53-1. Raises BadReply when it is anything else, a bool included."""
    value = data.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**53:
        raise BadReply(f"{key} is not a whole number")
    return value


def text_of(data: Mapping[str, Any], key: str) -> str:
    """A string, "" when it is anything else."""
    value = data.get(key)
    return value if isinstance(value, str) else ""


def object_of(data: Mapping[str, Any], key: str) -> Json:
    """A JSON object, an empty one when it is anything else."""
    value = data.get(key)
    return value if isinstance(value, dict) else {}


def number_of(data: Mapping[str, Any], key: str) -> float:
    """A number that a float can hold, 0 when it is anything else, a bool included."""
    value = data.get(key)
    try:
        return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else 0.0
    except OverflowError:
        return 0.0


def integer_of(data: Mapping[str, Any], key: str, default: int = 0) -> int:
    """A whole number, ``default`` when it is anything else, a bool included."""
    value = data.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else default
