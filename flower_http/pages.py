"""What a reader gets: the newest events kept in memory as bytes, and a page put together from them by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from flower_http.encode import dumps
from flower_http.errors import Problem
from flower_http.projection import RunView

#: A page holds about this much, and never less than one event.
MAX_PAGE_BYTES: Final = 1024 * 1024
MAX_PAGE_EVENTS: Final = 1000


class Ring:
    """The newest encoded events of a run, at most ``max_count`` of them and ``max_bytes`` in all (at least one).

    Their numbers are dense and end at ``last``. Not thread-safe: its log guards it.
    """

    def __init__(self, max_count: int, max_bytes: int, last: int = 0) -> None:
        self._max_count = max_count
        self._max_bytes = max_bytes
        self._events: list[bytes] = []
        self._bytes = 0
        self.last = last

    @property
    def first(self) -> int:
        """The number of the oldest event held; ``last + 1`` when none is."""
        return self.last - len(self._events) + 1

    @property
    def size(self) -> int:
        """Bytes held."""
        return self._bytes

    def extend(self, events: Sequence[bytes]) -> None:
        """Add the events that follow ``last``, letting go of the oldest beyond the bounds."""
        self._events += events
        self.last += len(events)
        self._bytes += sum(map(len, events))
        count = len(self._events)
        gone = max(0, count - self._max_count)
        size = self._bytes - sum(map(len, islice(self._events, gone)))
        while size > self._max_bytes and gone < count - 1:
            size -= len(self._events[gone])
            gone += 1
        if gone:
            del self._events[:gone]
            self._bytes = size

    def after(self, after: int, limit: int) -> list[bytes] | None:
        """At most ``limit`` events after number ``after``, bounded as a page is; None when they are no longer here."""
        start = after - self.first + 1
        if start < 0:
            return None
        events = self._events[start : start + limit]
        if sum(map(len, events)) + len(events) > MAX_PAGE_BYTES:
            return _bounded(events)
        return events


def _bounded(events: list[bytes]) -> list[bytes]:
    size = 0
    for place, event in enumerate(events):
        size += len(event) + 1
        if size > MAX_PAGE_BYTES and place:
            return events[:place]
    return events


@dataclass(frozen=True)
class Gap:
    """Events a reader asked for that are no longer kept: from ``first`` to ``last``, both included."""

    first: int
    last: int


def find_gap(view: RunView, first_seq: int, after: int, *, skip: bool) -> Gap | None:
    """What is missing between a reader's cursor and the oldest event kept; None when nothing is.

    Raises :class:`Problem`: 409 ``cursor-ahead`` for a cursor beyond the last event, 410 ``cursor-expired`` for a gap
    unless it may be skipped.
    """
    known: dict[str, Any] = {"epoch": view.epoch, "first_seq": first_seq, "last_seq": view.last_seq}
    if after > view.last_seq:
        detail = f"after={after}, but the last event is {view.last_seq}; check run and epoch, then read from there"
        raise Problem(409, "cursor-ahead", detail, run=view.id, **known)
    if after >= first_seq - 1:
        return None
    gap = Gap(after + 1, first_seq - 1)
    if skip:
        return gap
    lost = {"from": gap.first, "to": gap.last, "count": gap.last - gap.first + 1}
    detail = f"events {gap.first} to {gap.last} have been dropped; go on with after={gap.last}, or ask with on_gap=skip"
    raise Problem(410, "cursor-expired", detail, run=view.id, lost=lost, resume_after=gap.last, **known)


class Frame:
    """The part of a page that is the same for every page of a run."""

    def __init__(self, run_id: str, epoch: str) -> None:
        self._start = b'{"run":%b,"epoch":%b,"state":"' % (dumps(run_id), dumps(epoch))

    def page(
        self, view: RunView, first_seq: int, after: int, gap: Gap | None, events: Sequence[bytes], idle_ms: int
    ) -> bytes:
        """The body of a reply. ``idle_ms`` is what a reader should wait when there is nothing to read yet."""
        next_after = (gap.last if gap else after) + len(events)
        pending = view.last_seq - next_after
        final = view.final and pending == 0
        return b'%b%b","after":%d,"events":[%b],"next_after":%d,"first_seq":%d,"last_seq":%d,"pending":%d,%b%b%d}' % (
            self._start,
            view.state.encode(),
            after,
            b",".join(events),
            next_after,
            first_seq,
            view.last_seq,
            pending,
            b'"final":true,' if final else b'"final":false,',
            b'"gap":{"from":%d,"to":%d},"retry_after_ms":' % (gap.first, gap.last) if gap else _NO_GAP,
            0 if events or final else idle_ms,
        )


_NO_GAP = b'"gap":null,"retry_after_ms":'
