"""The events of one run: numbered and encoded when appended, shown when kept, read as bytes."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from flower_http import records
from flower_http.conversation import Conversation
from flower_http.encode import complete, encode_event, rfc3339
from flower_http.errors import unknown_run
from flower_http.journal import Journal, JournalUnavailable
from flower_http.pages import MAX_PAGE_BYTES, MAX_PAGE_EVENTS, Frame, Ring, find_gap
from flower_http.projection import FINISHED, INTERRUPTED, RunView, fold_all

RING_EVENTS: Final = 2000
RING_BYTES: Final = 16 * 1024 * 1024
#: The whole view is kept whenever something a list of runs shows has changed, and at least this often.
_VIEW_EVERY: Final = 64

_log = logging.getLogger(__name__)


class LogClosed(Exception):
    """The run has ended, or its journal refused an event: then nothing can follow but the end of the run."""


@dataclass
class _Pending:
    """An event on its way to the disk."""

    seq: int
    at: str
    fields: Mapping[str, Any]
    body: bytes
    reserved: int
    future: Future[int] = field(default_factory=Future)


@dataclass(eq=False)
class Waiter:
    """A reader with nothing to read; ``wake`` is called once, from another thread, when that changes."""

    wake: Callable[[], None]


_Written = tuple[list[_Pending], RunView, bool]


class EventLog:
    """The events of one run. Every method may be called from any thread. Made by a ``LogBook``.

    ``newest`` are its last events, as far as the caller has them. ``ring`` and ``ring_bytes`` bound what is kept in
    memory; ``keep`` (>= 1) is how many events at least are kept at all, None for every one. ``on_shown(log, before)``
    is called on the journal's thread once events are shown; ``before`` is the view they changed.
    """

    def __init__(
        self,
        journal: Journal,
        record: records.Record,
        *,
        newest: Sequence[bytes] = (),
        ring: int = RING_EVENTS,
        ring_bytes: int = RING_BYTES,
        keep: int | None = None,
        on_shown: Callable[[EventLog, RunView], None] | None = None,
    ) -> None:
        self.run_id = record.view.id
        self.epoch = record.view.epoch
        self.number = record.number
        self.conversation = Conversation(journal, record.number, lambda: self._view)
        self._journal = journal
        self._keep = keep
        self._on_shown = on_shown
        self._frame = Frame(self.run_id, self.epoch)
        self._changed = threading.Condition(threading.Lock())
        self._view = record.view
        self._kept_whole = record.view.last_seq
        self._first_seq = record.first_seq
        self._next_seq = record.view.last_seq + 1
        self._last_at = record.view.last_event_at
        self._ring = Ring(ring, ring_bytes, record.view.last_seq - len(newest))
        self._ring.extend(newest)
        self._pending: deque[_Pending] = deque()
        self._waiters: set[Waiter] = set()
        self._writing = self._deleted = False
        self._closed: str = "the run has ended" if record.view.final else ""
        self._broken = ""
        #: Called, on the journal's thread, with the reason why no event can follow but the end of the run.
        self.on_broken: Callable[[str], None] | None = None

    # ---- what is committed

    @property
    def view(self) -> RunView:
        """The run after its last committed event."""
        return self._view

    @property
    def last_seq(self) -> int:
        """The number of the last committed event."""
        return self._view.last_seq

    @property
    def first_seq(self) -> int:
        """The number of the oldest event that can still be read."""
        return self._first_seq

    @property
    def final(self) -> bool:
        """Whether ``run.finished`` is committed."""
        return self._view.final

    @property
    def waiting(self) -> int:
        """How many readers wait for the next event."""
        return len(self._waiters)

    def in_memory(self, after: int) -> bool:
        """Whether a page after number ``after`` needs no disk."""
        with self._changed:
            return after >= self._ring.first - 1

    def page(self, after: int, limit: int = 100, *, skip_gap: bool = False, idle_ms: int = 0) -> bytes:
        """The body of a reply with at most ``limit`` (1 to 1000) events after number ``after``, about 1 MiB at most.

        ``idle_ms`` is the retry_after_ms of a page without events. Raises :class:`Problem`: 409 ``cursor-ahead``, 410
        ``cursor-expired`` (unless ``skip_gap``), 404 when the run is deleted meanwhile; sqlite3.Error when older
        events cannot be read.
        """
        limit = min(max(1, limit), MAX_PAGE_EVENTS)
        seen = 0
        while True:
            with self._changed:
                if self._deleted:
                    raise unknown_run(self.run_id)
                view, first = self._view, self._first_seq
                gap = find_gap(view, first, after, skip=skip_gap)
                base = gap.last if gap else after
                events = self._ring.after(base, limit)
            if events is None:
                if first == seen:
                    raise unknown_run(self.run_id)
                events = self._read(base, view.last_seq, limit)
            if events or base == view.last_seq:
                return self._frame.page(view, first, after, gap, events, idle_ms)
            seen = first  # what was to be read has just been dropped: then the gap begins later by now

    def _read(self, after: int, last: int, limit: int) -> list[bytes]:
        return self._journal.read(lambda db: records.read_events(db, self.number, after, last, limit, MAX_PAGE_BYTES))

    # ---- appending

    def append(
        self, kind: str, text: str = "", tool: str = "", payload: Mapping[str, Any] | None = None
    ) -> Future[int]:
        """Add an event; the future gives its number once it is committed, and from then on readers see it.

        Raises :class:`LogClosed` after ``run.finished``, and after a lost event for all but that;
        :class:`JournalUnavailable` when the buffer for a failing disk is full. It has no number then; none is missing.
        """
        fields, rest = encode_event(kind, text, tool, payload)
        ending = kind == "system" and text in (FINISHED, INTERRUPTED)
        self._journal.reserve(len(rest), always=ending)
        try:
            with self._changed:
                if self._closed or (self._broken and not ending):
                    raise LogClosed(f"run {self.run_id}: {self._closed or self._broken}")
                # The clock may be set back; the order of events never is. RFC 3339 in one zone sorts as text.
                at = max(rfc3339(time.time()), self._last_at)
                item = _Pending(self._next_seq, at, fields, complete(self._next_seq, at, rest), len(rest))
                self._write_soon(item)
                self._next_seq, self._last_at = item.seq + 1, at
                if ending and text == FINISHED:
                    self._closed = "the run has ended"
        except BaseException:
            self._journal.release(len(rest))
            raise
        return item.future

    def wait_flushed(self, timeout: float) -> bool:
        """Wait at most ``timeout`` seconds until everything appended so far is committed; whether it is."""
        with self._changed:
            last = self._next_seq - 1
            self._changed.wait_for(lambda: self.last_seq >= last or not self._pending, timeout)
            return self.last_seq >= last

    def drop_before(self, seq: int) -> Future[None]:
        """Give up the events before number ``seq`` (the last one always stays): readers behind get 410."""
        done: Future[None] = Future()
        with self._changed:
            # First nobody is promised them any more, then they go; and only what has been shown can go.
            first = self._first_seq = max(self._first_seq, min(seq, self._view.last_seq))
        self._drop_slice(first, done)
        return done

    @property
    def forgotten(self) -> bool:
        """Whether the run is no longer in the journal."""
        return self._deleted

    def forget(self) -> None:
        """The run is no longer in the journal: for readers there is no such run any more."""
        with self._changed:
            self._deleted = True

    def _drop_slice(self, first: int, done: Future[None]) -> None:
        """Drop some, then, on the writer thread, let others write before the next: a run may be very long."""

        def go_on(complete: bool) -> None:
            if complete or self._journal.closing:  # what is left then goes with the next drop after a restart
                done.set_result(None)
            else:
                self._drop_slice(first, done)

        self._journal.submit(
            lambda db: records.delete_events(db, self.number, first), committed=go_on, failed=done.set_exception
        )

    # ---- waiting readers

    def add_waiter(self, after: int, wake: Callable[[], None]) -> Waiter | None:
        """Have ``wake`` called once as soon as there is something newer than ``after`` or the run has ended.

        None, and ``wake`` is never called, when that is so already. ``wake`` must be quick and must not raise.
        """
        with self._changed:
            if self._view.last_seq != after or self._view.final:
                return None
            waiter = Waiter(wake)
            self._waiters.add(waiter)
            return waiter

    def remove_waiter(self, waiter: Waiter) -> None:
        """Forget a waiter; one that was woken already is fine."""
        with self._changed:
            self._waiters.discard(waiter)

    # ---- on the journal's writer thread

    def _write_soon(self, item: _Pending | None) -> None:
        """Queue ``item``, and one operation for all that is queued. The lock is held."""
        if item is not None:
            self._pending.append(item)
        if self._writing:
            return
        try:
            self._journal.submit(self._write, committed=self._publish, failed=self._break)
            self._writing = True
        except BaseException:
            if item is not None:
                self._pending.pop()
            raise

    def _write(self, connection: sqlite3.Connection) -> _Written:
        with self._changed:
            batch = list(self._pending)
        before = self._view
        view, settled = fold_all(before, ((item.seq, item.at, item.fields) for item in batch))
        told = settled.asks or settled.mail or view.asks is not before.asks or view.mail is not before.mail
        listed = bool(told) or view.state != before.state
        whole = listed or view.last_seq - self._kept_whole >= _VIEW_EVERY
        rows = [(item.seq, item.body) for item in batch]
        records.insert_events(connection, self.number, rows, view, settled, whole=whole)
        return batch, view, whole

    def _publish(self, written: _Written) -> None:
        """Show what was committed: events and view in one step, so that they never disagree."""
        batch, view, whole = written
        with self._changed:
            self._ring.extend([item.body for item in batch])
            before, self._view = self._view, view
            self._kept_whole = view.last_seq if whole else self._kept_whole
            for _ in batch:
                self._pending.popleft()
            self._writing = False
            if self._pending:
                self._write_soon(None)
            woken, self._waiters = self._waiters, set()
            self._changed.notify_all()
        self._journal.release(sum(item.reserved for item in batch))
        for item in batch:
            with suppress(InvalidStateError):
                item.future.set_result(item.seq)
        for waiter in woken:
            waiter.wake()
        self._trim()
        if self._on_shown is not None:
            self._on_shown(self, before)

    def _trim(self) -> None:
        """Drop what is more than enough, an eighth of it at a time: every time costs a little."""
        last = self._view.last_seq
        if self._keep is not None and last - self._first_seq >= self._keep + self._keep // 8:
            self.drop_before(last - self._keep + 1)

    def _break(self, error: BaseException) -> None:
        """The journal will never take these events. None may follow as if they had been there, but the run must end."""
        closed = isinstance(error, JournalUnavailable)  # the run goes on once the journal is opened again
        with self._changed:
            self._closed, self._broken = "", "" if closed else f"an event could not be kept: {error}"
            refused, self._pending = list(self._pending), deque()
            self._writing, self._next_seq = False, self._view.last_seq + 1  # nobody has seen their numbers
            self._changed.notify_all()
        _log.error("run %s: %s", self.run_id, self._broken or error)
        self._journal.release(sum(item.reserved for item in refused))
        for item in refused:
            with suppress(InvalidStateError):
                item.future.set_exception(error)
        if self.on_broken is not None and self._broken:
            self.on_broken(self._broken)
