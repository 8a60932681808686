"""Turning an event into the bytes every reader gets: once, bounded in size, always valid JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from flower_core.events import Event, jsonable

#: The most one encoded event may take, in bytes.
MAX_EVENT_BYTES = 256 * 1024
#: Room left for ``{"seq":9007199254740991,"at":"2026-01-01T00:00:00.000Z",`` in front of the rest.
_HEAD_ROOM = 96
_CUT_MARK = "…"
_SHORTEST_CUT = 64
#: Where events name a file: the file words were added to, the handoff that was kept.
_FILES = {"ask": "amended", "handoff": "path"}


def rfc3339(seconds: float) -> str:
    """``seconds`` since the epoch as RFC 3339 in UTC with milliseconds: ``2026-01-31T12:00:00.250Z``."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def dumps(value: Any) -> bytes:
    """``value`` as compact UTF-8 JSON. Raises ValueError for what JSON does not know (use ``jsonable`` first)."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def encode_event(
    kind: str, text: str = "", tool: str = "", payload: Mapping[str, Any] | None = None
) -> tuple[dict[str, Any], bytes]:
    """An event without its number and time: as the mapping that is folded, and encoded without the opening brace.

    What would take more than 256 KiB is cut: long strings first, and ``payload.truncated`` says so. Both
    results show the same content, so what is derived from an event never says more than what was sent.
    """
    fields = {
        "kind": str(jsonable(kind)),
        "text": str(jsonable(text[:MAX_EVENT_BYTES])),
        "tool": str(jsonable(tool)),
        "payload": jsonable(payload or {}),
    }
    body = dumps(fields)
    if len(body) > MAX_EVENT_BYTES - _HEAD_ROOM or len(text) > MAX_EVENT_BYTES:
        fields, body = _cut(fields)
    return fields, body[1:]


def complete(seq: int, at: str, rest: bytes) -> bytes:
    """The whole encoded event from its number, its time and what :func:`encode_event` made."""
    return b'{"seq":%d,"at":"%s",%s' % (seq, at.encode(), rest)


def _cut(fields: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """The event with strings shortened, evenly and only as far as needed, until it fits."""
    longest = min(MAX_EVENT_BYTES // 2, _longest(fields))
    while longest >= _SHORTEST_CUT:
        cut = {
            "kind": fields["kind"],
            "text": _shorten(fields["text"], longest),
            "tool": _shorten(fields["tool"], longest),
            "payload": {**_shorten(fields["payload"], longest), "truncated": True},
        }
        body = dumps(cut)
        if len(body) <= MAX_EVENT_BYTES - _HEAD_ROOM:
            return cut, body
        longest //= 2
    return _bare(fields)


def _bare(fields: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """What is left of an event that is large without long strings: its words and the first plain payload fields."""
    kept: dict[str, Any] = {}
    for key, value in fields["payload"].items():
        if len(kept) == 32:
            break
        if len(key) <= _SHORTEST_CUT and not isinstance(value, (dict, list)):
            kept[key] = _shorten(value, _SHORTEST_CUT)
    cut = {
        "kind": _shorten(fields["kind"], _SHORTEST_CUT),
        "text": _shorten(fields["text"], 1024),
        "tool": _shorten(fields["tool"], _SHORTEST_CUT),
        "payload": {**kept, "truncated": True},
    }
    return cut, dumps(cut)


def _longest(value: Any) -> int:
    """The length of the longest string in ``value``: cutting at more than that changes nothing."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return max(map(_longest, value.values()), default=0)
    return max(map(_longest, value), default=0) if isinstance(value, list) else 0


def _shorten(value: Any, longest: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= longest else value[:longest] + _CUT_MARK
    if isinstance(value, dict):
        return {key: _shorten(item, longest) for key, item in value.items()}
    if isinstance(value, list):
        return [_shorten(item, longest) for item in value]
    return value


def shown_payload(event: Event, workspace: Path) -> Mapping[str, Any]:
    """The payload of ``event``, with the file it is about named as clients know it: in the workspace, else by name."""
    field = _FILES.get(event.kind, "")
    given = event.payload.get(field)
    if not given or not Path(given).is_absolute():
        return event.payload
    path = Path(given)
    inside = path.is_relative_to(workspace)
    return {**event.payload, field: path.relative_to(workspace).as_posix() if inside else path.name}
