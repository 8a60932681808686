"""Text to value, strictly: what flags, variables and query parameters hold.

Each function takes the text and returns the value, or raises ValueError saying what would have been right.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

FLOW_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}", re.ASCII)
#: The flows every server has; a registered one cannot take their names.
BUILT_IN_FLOWS = ("starter", "once")

_NATURAL = re.compile(r"0|[1-9][0-9]{0,15}", re.ASCII)
_ANY_LENGTH = re.compile(r"0|[1-9][0-9]*", re.ASCII)
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,252})|[0-9A-Fa-f:.]{2,45}", re.ASCII)
_USER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}\$?", re.ASCII)
_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]{1,512}", re.ASCII)
_TARGET = re.compile(r"([A-Za-z_][\w.]*|.+\.py):[A-Za-z_]\w*", re.ASCII)
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off", "")


def natural(text: str) -> int:
    """A whole number from 0, at most 16 ASCII digits, without sign, padding or separators."""
    if not _NATURAL.fullmatch(text):
        raise ValueError(f"{text[:40]!r} is not a whole number")
    return int(text)


def clamped(text: str, low: int, high: int) -> int:
    """A whole number as :func:`natural` reads it, of any length; what is above ``high`` means ``high``."""
    if not _ANY_LENGTH.fullmatch(text):
        raise ValueError(f"{text[:40]!r} is not a whole number")
    number = high if len(text) > len(str(high)) else min(int(text), high)
    if number < low:
        raise ValueError(f"must be at least {low}")
    return number


def between(low: int, high: int) -> Callable[[str], int]:
    """A parser of whole numbers from ``low`` to ``high``, both included."""

    def parse(text: str) -> int:
        if not _NATURAL.fullmatch(text) or not low <= int(text) <= high:
            raise ValueError(f"{text[:40]!r} is not a whole number from {low} to {high}")
        return int(text)

    return parse


def one_of(choices: Sequence[str]) -> Callable[[str], str]:
    """A parser that takes ``choices`` and nothing else."""

    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(f"{text[:40]!r} is not one of {', '.join(choices)}")
        return text

    return parse


def boolean(text: str) -> bool:
    """1, true, yes, on; 0, false, no, off."""
    if text.lower() not in _TRUE + _FALSE:
        raise ValueError(f"{text[:40]!r} is neither yes nor no (1, true, yes, on; 0, false, no, off)")
    return text.lower() in _TRUE


def host(text: str) -> str:
    """A host name or an IP address without port or brackets."""
    if not _HOST.fullmatch(text):
        raise ValueError(f"{text[:80]!r} is neither a host name nor an IP address")
    return text


def directory(text: str) -> Path:
    """An absolute path; ``~`` is the home directory, a relative path starts at the working directory."""
    if not text or "\0" in text:
        raise ValueError("a directory is needed")
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError as error:
        raise ValueError(f"{text[:80]!r}: {error}") from error


def user_name(text: str) -> str:
    """The name of a system user."""
    if not _USER.fullmatch(text):
        raise ValueError(f"{text[:40]!r} is not the name of a user")
    return text


def token(text: str) -> str:
    """A bearer token: 1 to 512 characters of the set RFC 6750 allows."""
    if not _TOKEN.fullmatch(text):
        raise ValueError("use 1 to 512 of A-Z a-z 0-9 . _ ~ + / = - (the value is not shown here)")
    return text


def rehearse(text: str) -> str:
    """The play to rehearse: its name or file; yes means ``starter``, no means none (empty)."""
    lowered = text.lower()
    return "starter" if lowered in _TRUE else "" if lowered in _FALSE else text


def flows(text: str) -> dict[str, str]:
    """``NAME=target`` pairs separated by semicolons; a target is ``module:attr`` or ``file.py:attr``."""
    found: dict[str, str] = {}
    for pair in filter(None, (part.strip() for part in text.split(";"))):
        name, equals, target = pair.partition("=")
        if not equals or not FLOW_NAME.fullmatch(name) or not _TARGET.fullmatch(target):
            raise ValueError(f"{pair[:80]!r} is not NAME=module:attr or NAME=file.py:attr")
        if name in BUILT_IN_FLOWS or name in found:
            raise ValueError(f"the name {name!r} is taken")
        found[name] = target
    return found
