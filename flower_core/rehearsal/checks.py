"""Checking a play as it is loaded: what is wrong is said with the key it stands under."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any


class PlayError(ValueError):
    """A play that cannot be performed; the message starts with the play's key, such as ``coordinator[2].tools``."""

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(f"{where}: {problem}")
        self.where = where


def table(value: Any, where: str, known: Collection[str] | None = None) -> Mapping[str, Any]:
    """``value`` as a table with text keys, all of them among ``known``. Raises PlayError."""
    if not isinstance(value, Mapping):
        raise PlayError(where, f"must be a table, not {kind(value)}")
    for key in value:
        if not isinstance(key, str):
            raise PlayError(where, f"keys are text, not {kind(key)}")
        if known is not None and key not in known:
            raise PlayError(f"{where}.{key}", f"no such key; there are: {', '.join(sorted(known))}")
    return value


def array(value: Any, where: str, length: int | None = None) -> list[Any]:
    """``value`` as a list, of exactly ``length`` entries where given. Raises PlayError."""
    if not isinstance(value, list | tuple):
        raise PlayError(where, f"must be a list, not {kind(value)}")
    if length is not None and len(value) != length:
        raise PlayError(where, f"must have {length} entries, not {len(value)}")
    return list(value)


def text(value: Any, where: str) -> str:
    """``value`` as text. Raises PlayError."""
    if not isinstance(value, str):
        raise PlayError(where, f"must be text, not {kind(value)}")
    return value


def names(value: Any, where: str) -> tuple[str, ...]:
    """``value``, a text or a list of texts, as a tuple. Raises PlayError."""
    if isinstance(value, str):
        return (value,)
    return tuple(text(item, f"{where}[{index}]") for index, item in enumerate(array(value, where)))


def whole(value: Any, where: str, least: int = 0) -> int:
    """``value`` as a whole number of at least ``least``. Raises PlayError."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise PlayError(where, f"must be a whole number of at least {least}, not {value!r}")
    return value


def seconds(value: Any, where: str) -> float:
    """``value`` as a span of 0 to 3600 seconds. Raises PlayError."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 3600:
        raise PlayError(where, f"must be seconds, 0 to 3600, not {value!r}")
    return float(value)


def placeholder(name: str, where: str, taken: Collection[str]) -> str:
    """``name`` as that of a new placeholder, beside those ``taken``. Raises PlayError."""
    if not re.fullmatch("[a-z_]+", name):
        raise PlayError(where, "a name consists of small letters and _")
    if name in taken:
        raise PlayError(where, "is a placeholder already; choose another name")
    return name


def regex(value: Any, where: str) -> re.Pattern[str]:
    """``value`` compiled as a regular expression whose dot matches newlines too. Raises PlayError."""
    try:
        return re.compile(text(value, where), re.DOTALL | re.MULTILINE)
    except re.error as error:
        raise PlayError(where, f"is no regular expression: {error}") from None


def kind(value: Any) -> str:
    """What sort of thing ``value`` is, for an error message."""
    return {"str": "text", "dict": "a table", "list": "a list", "bool": "true/false"}.get(
        type(value).__name__, f"{type(value).__name__} {value!r}"
    )
