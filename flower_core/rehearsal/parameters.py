"""The parameters of a play: what whoever loads it may say, as ``NAME,PARAMETER=VALUE,…``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flower_core.rehearsal import checks
from flower_core.rehearsal.checks import PlayError
from flower_core.rehearsal.conversation import VALUE_NAMES

#: The parameter every play has.
PACE = "pace"
_MOST_PACE = 100.0
_NUMBER = re.compile("[0-9]{1,9}", re.ASCII)


def split_name(text: str) -> tuple[str, dict[str, str]]:
    """The name or file of a play, and the parameters that follow it. Raises PlayError."""
    if Path(text).is_file():  # a file's name may have commas, too
        return text, {}
    name, *pairs = text.split(",")
    given: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise PlayError(name, f"parameters are written as NAME=VALUE, not {pair!r}")
        if key in given:
            raise PlayError(f"parameters.{key}", "stands twice")
        given[key] = value
    return name, given


def read_pace(text: str) -> float:
    """What all pauses are multiplied by. Raises PlayError."""
    try:
        pace = float(text)
    except ValueError:
        pace = -1.0
    if not 0 <= pace <= _MOST_PACE:
        raise PlayError(f"parameters.{PACE}", f"must be a number from 0 to {_MOST_PACE:g}, not {text!r}")
    return pace


def read_parameters(data: Any, given: Mapping[str, str]) -> dict[str, str]:
    """The play's own parameters: what ``given`` says, else what stands in its table. Raises PlayError."""
    table = checks.table(data, "parameters")
    if unknown := next((key for key in given if key not in table), ""):
        known = ", ".join((PACE, *table))
        raise PlayError(f"parameters.{unknown}", f"this play has no such parameter; there are: {known}")
    return {name: _value(name, usual, given.get(name)) for name, usual in table.items()}


def _value(name: str, usual: Any, given: str | None) -> str:
    where = f"parameters.{name}"
    checks.placeholder(name, where, (*VALUE_NAMES, PACE))
    if isinstance(usual, str):
        return usual if given is None else given
    if given is None:
        return str(checks.whole(usual, where, 1))
    return str(checks.whole(int(given) if _NUMBER.fullmatch(given) else given, where, 1))
