"""The query of a request for events, read strictly: what is wrong is refused by name, nothing is guessed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from urllib.parse import unquote_plus

from flower_http.errors import bad_parameter
from flower_http.pages import MAX_PAGE_EVENTS
from flower_http.parsing import clamped, natural

DEFAULT_LIMIT: Final = 100
MAX_WAIT_S: Final = 25.0
MAX_EPOCH_CHARS: Final = 64
#: More fields than any valid query has; beyond that it is not even taken apart.
_MAX_FIELDS: Final = 32
_NAMES: Final = ("after", "limit", "wait", "tail", "epoch", "on_gap")
_SECONDS = re.compile(r"(0|[1-9][0-9]*)(\.[0-9]{1,3})?", re.ASCII)


@dataclass(frozen=True)
class EventsQuery:
    """What a reader asks for. With ``tail`` the cursor is that many events before the end, else ``after``.

    ``limit`` is 1 to 1000, ``wait`` 0 to 25 seconds; ``epoch`` and ``run`` are None when left out.
    """

    after: int = 0
    limit: int = DEFAULT_LIMIT
    wait: float = 0.0
    tail: int | None = None
    epoch: str | None = None
    skip_gap: bool = False
    run: str | None = None


@lru_cache(maxsize=256)  # who finds nothing asks the same again, and who follows the same run asks the same, too
def parse_query(query: str, *, root: bool) -> EventsQuery:
    """The query string of a request for events; ``root`` also takes ``run``, as ``GET /events`` does.

    Raises :class:`Problem` 400 ``bad-parameter`` for a parameter that is unknown, repeated or malformed.
    """
    if not query:
        return EventsQuery()
    found = _fields(query, (*_NAMES, "run") if root else _NAMES)
    if "tail" in found and "after" in found:
        raise bad_parameter("tail", "use either tail or after, not both")
    if found.get("on_gap", "skip") != "skip":
        raise bad_parameter("on_gap", "must be 'skip' or left out")
    if not 0 < len(found.get("epoch", "-")) <= MAX_EPOCH_CHARS:
        raise bad_parameter("epoch", f"must be 1 to {MAX_EPOCH_CHARS} characters, as an earlier reply gave it")
    return EventsQuery(
        after=_number(found, "after", 0),
        limit=_limit(found),
        wait=_wait(found),
        tail=_number(found, "tail", 0) if "tail" in found else None,
        epoch=found.get("epoch"),
        skip_gap="on_gap" in found,
        run=found.get("run"),
    )


def _fields(query: str, names: tuple[str, ...]) -> dict[str, str]:
    fields = query.split("&")
    if len(fields) > _MAX_FIELDS:
        raise bad_parameter("", f"more than {_MAX_FIELDS} parameters")
    found: dict[str, str] = {}
    for field in filter(None, fields):
        quoted_name, _, quoted_value = field.partition("=")
        name, value = unquote_plus(quoted_name), unquote_plus(quoted_value)
        if name not in names:
            raise bad_parameter(name, f"unknown; there are {', '.join(names)}")
        if name in found:
            raise bad_parameter(name, "given more than once")
        found[name] = value
    return found


def _number(found: dict[str, str], name: str, default: int) -> int:
    if name not in found:
        return default
    try:
        return natural(found[name])
    except ValueError as error:
        raise bad_parameter(name, str(error)) from error


def _limit(found: dict[str, str]) -> int:
    if "limit" not in found:
        return DEFAULT_LIMIT
    try:
        return clamped(found["limit"], 1, MAX_PAGE_EVENTS)
    except ValueError as error:
        raise bad_parameter("limit", str(error)) from error


def _wait(found: dict[str, str]) -> float:
    text = found.get("wait", "0")
    if not _SECONDS.fullmatch(text):
        raise bad_parameter("wait", f"must be seconds from 0 to {MAX_WAIT_S:g}, such as 20 or 0.5")
    return min(float(text), MAX_WAIT_S)
