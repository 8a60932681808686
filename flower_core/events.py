"""What happens during a run, as one flat structure, and how it is handed on without risk.

The interaction layer knows :class:`Event` and nothing else; no SDK type crosses this line.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

EventKind = Literal[
    "text",
    "thinking",
    "prompt",
    "tool_call",
    "tool_result",
    "result",
    "error",
    "reset",
    "task",
    "system",
    "unknown",
    "ask",
    "retry",
    "step",
    "handoff",
]
EVENT_KINDS: tuple[str, ...] = get_args(EventKind)

#: Integers beyond this cannot be held exactly by a JSON reader that uses doubles (RFC 8259, section 6).
MAX_SAFE_INTEGER = 2**53 - 1
#: A broken sink may say something new at every event of a long run; nobody reads more lines than this.
MAX_NOTES = 100
_MAX_DEPTH = 40


@dataclass
class Event:
    """One thing that happened.

    ``payload`` is JSON-serialisable. ``raw`` is the object the event was made from (an SDK message or an
    ``Ask``); it is for code in the same process and is never sent anywhere.
    """

    kind: EventKind
    text: str = ""
    tool: str = ""
    payload: dict[str, Any] = field(default_factory=dict)
    raw: Any = None

    def __str__(self) -> str:
        if self.kind == "tool_call":
            return f"[{self.tool}] {self.text}"
        return self.text or f"<{self.kind}>"


EventSink = Callable[[Event], None]


def clean_text(text: str) -> str:
    """``text`` with lone surrogates replaced, so that it can always be encoded as UTF-8."""
    return text.encode("utf-8", "replace").decode("utf-8") if not text.isascii() else text


def jsonable(value: Any, _depth: int = 0) -> Any:
    """``value`` in a form every JSON reader takes: what has no JSON form becomes text.

    NaN and infinities, integers beyond 2^53-1, bytes, sets, unknown objects and nesting deeper than 40
    levels all turn into strings; mapping keys too.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, int):
        return int(value) if abs(value) <= MAX_SAFE_INTEGER else _big(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(value)
    if _depth >= _MAX_DEPTH:
        return "…"
    if isinstance(value, Mapping):
        return {clean_text(str(key)): jsonable(item, _depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [jsonable(item, _depth + 1) for item in value]
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).decode("utf-8", "replace")
    return clean_text(str(value))


def _big(value: int) -> str:
    # str() of an integer beyond 4300 digits raises; hexadecimal has no such limit.
    return hex(value) if value.bit_length() > 10_000 else str(value)


class SafeSink:
    """Hands events to a sink that may be broken without ever harming the run.

    What the sink raises goes into ``errors``, once per distinct error. Calling it with no sink does nothing.
    """

    def __init__(self, sink: EventSink | None, errors: list[str]) -> None:
        self.sink = sink
        self.errors = errors

    def __call__(self, event: Event) -> None:
        """Hand ``event`` on. Never raises."""
        sink = self.sink  # another thread may take it away between a look and a call
        if sink is None:
            return
        try:
            sink(event)
        except Exception as error:  # whatever a front end raises must not end hours of work
            self.report(error)

    def report(self, error: BaseException) -> None:
        """Put ``error`` into ``errors``."""
        note(error, self.errors)


def note(error: BaseException, errors: list[str]) -> None:
    """Append ``error`` as one line to ``errors`` unless the same line, or enough of them, stand there already."""
    line = f"{type(error).__name__}: {error}"
    if len(errors) < MAX_NOTES and line not in errors:
        errors.append(line)
