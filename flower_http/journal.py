"""The journal: one SQLite file that holds what must survive, written by one thread.

Writers hand over operations; the thread commits them in groups, in the order they came, and only then are they done.
When the disk does not take them, they stay queued and are tried again: nothing is lost and nothing is done twice.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

from flower_http.journal_file import JournalFile
from flower_http.journal_schema import touch

T = TypeVar("T")
Operation = Callable[[sqlite3.Connection], T]

#: How many bytes of encoded events may wait for the disk.
BUFFER_BYTES: Final = 64 * 1024 * 1024
#: How long a group stays open for others to join, in seconds.
LINGER_S: Final = 0.002
#: How long the disk may refuse before nobody waits for it: every wait holds a thread that could serve others. Seconds.
GRACE_S: Final = 2.0
_FIRST_RETRY_S, _LAST_RETRY_S = 0.1, 5.0
#: Result codes that blame the statement, not the disk (https://www.sqlite.org/rescode.html): ERROR, TOOBIG,
#: CONSTRAINT, MISMATCH, MISUSE, RANGE.
_FAULTS: Final = frozenset({1, 18, 19, 20, 21, 25})

_log = logging.getLogger(__name__)


class JournalUnavailable(Exception):
    """What was to be kept is not, and will not be: the disk does not take it, or the journal is closed."""


@dataclass
class _Ticket:
    """An operation on its way; ``taken`` while the writer has it in an open transaction (guarded by the lock)."""

    operation: Operation[Any]
    committed: Callable[[Any], None] | None
    failed: Callable[[BaseException], None] | None
    future: Future[Any] = field(default_factory=Future)
    since: float = field(default_factory=time.monotonic)
    taken: bool = False


class Journal:
    """The journal at ``path``, made if missing. Raises OSError or sqlite3.Error when that is impossible.

    ``buffer_bytes`` bounds what :meth:`reserve` grants; ``linger_s`` is how long a group of operations is collected.
    """

    def __init__(self, path: Path | str, *, buffer_bytes: int = BUFFER_BYTES, linger_s: float = LINGER_S) -> None:
        self.file = JournalFile(path)
        #: Each is called on the writer thread after a commit, with the seconds it took.
        self.on_commit: list[Callable[[float], None]] = []
        self._buffer_bytes = buffer_bytes
        self._linger_s = linger_s
        self._queue: deque[_Ticket] = deque()
        self._in_hand: list[_Ticket] = []
        self._buffered = 0
        self._closing = False
        self._failing_since: float | None = None
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._write_on, name="flower-journal", daemon=True)
        self._thread.start()

    @property
    def failing_since(self) -> float | None:
        """Since when nothing could be written, in :func:`time.monotonic` seconds; None while all is well."""
        return self._failing_since

    @property
    def closing(self) -> bool:
        """Whether it is being closed, or is closed."""
        return self._closing

    @property
    def healthy(self) -> bool:
        """Whether the last attempt to write succeeded and the writer is there."""
        return self._failing_since is None and self._thread.is_alive()

    @property
    def lag_s(self) -> float:
        """How long the oldest operation that is not committed has been waiting, in seconds; 0.0 when there is none."""
        with self._changed:
            oldest = (self._in_hand or self._queue or (None,))[0]
        return 0.0 if oldest is None else time.monotonic() - oldest.since

    def submit(
        self,
        operation: Operation[T],
        *,
        committed: Callable[[T], None] | None = None,
        failed: Callable[[BaseException], None] | None = None,
    ) -> Future[T]:
        """Queue ``operation``: a function of a connection, called in a transaction, again if that has to be repeated.

        Then, on the writer thread: after the commit and before the next operation ``committed`` with the result, or
        ``failed`` with the operation's own error. The future is resolved right after, never earlier.
        Raises :class:`JournalUnavailable` once the journal is closed.
        """
        return self._enqueue(_Ticket(operation, committed, failed)).future

    def execute(self, operation: Operation[T], timeout: float) -> T:
        """Do ``operation`` and return its result once it is kept; wait for that at most ``timeout`` seconds.

        Raises :class:`JournalUnavailable` when it is not kept by then, and then it will never be done: either it
        was still queued and is taken back, or its transaction is waited for and rolled back. At once when the disk has
        refused for longer than :data:`GRACE_S`.
        """
        since = self._failing_since
        if since is not None and time.monotonic() - since > GRACE_S:
            raise JournalUnavailable("the disk has refused everything for some time")
        ticket = self._enqueue(_Ticket(operation, None, None))
        deadline = time.monotonic() + timeout
        with self._changed:
            while not ticket.future.done():
                if not ticket.taken and time.monotonic() >= deadline:
                    with suppress(ValueError):
                        self._queue.remove(ticket)
                    raise JournalUnavailable(f"the journal did not take it within {timeout:g} s; it was taken back")
                self._changed.wait(None if ticket.taken else max(0.0, deadline - time.monotonic()))
        result: T = ticket.future.result()
        return result

    def read(self, operation: Operation[T]) -> T:
        """``operation`` on a reading connection, on the caller's thread: what is committed. Raises sqlite3.Error."""
        return self.file.read(operation)

    def reserve(self, size: int, *, always: bool = False) -> None:
        """Count ``size`` bytes as waiting for the disk. Raises :class:`JournalUnavailable` when the buffer is full.

        ``always`` counts them whatever the bound, for the few events without which a run has no end.
        """
        with self._changed:
            if self._buffered + size > self._buffer_bytes and not always:
                raise JournalUnavailable(f"{self._buffered} bytes of events wait for the disk already")
            self._buffered += size

    def release(self, size: int) -> None:
        """Count ``size`` bytes as no longer waiting."""
        with self._changed:
            self._buffered -= size

    def close(self, timeout: float = 5.0) -> None:
        """Write what is queued, for at most ``timeout`` seconds, then fail the rest. May be called twice."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join(timeout)
        with self._changed:
            rest = [ticket for ticket in self._queue if not ticket.taken]
            self._queue.clear()
        for ticket in rest:
            self._fail(ticket, JournalUnavailable("the journal was closed before this was written"))
        if not self._thread.is_alive():
            self.file.close()

    def _enqueue(self, ticket: _Ticket) -> _Ticket:
        with self._changed:
            # What the writer itself adds belongs to what was there before the closing.
            if self._closing and threading.current_thread() is not self._thread:
                raise JournalUnavailable("the journal is closed")
            self._queue.append(ticket)
            self._changed.notify_all()
        return ticket

    # ---- the writer thread

    def _write_on(self) -> None:
        pause = _FIRST_RETRY_S
        while self._await_work():
            try:
                self._commit_group()
                pause = _FIRST_RETRY_S
            except Exception as error:  # whatever it is, what is queued is tried again
                if self._failing_since is None:
                    _log.error("the journal cannot be written, trying again: %s", error)
                    self._failing_since = time.monotonic()
                self.file.drop_writer()
                with self._changed:
                    if self._closing:
                        return
                    self._changed.wait_for(lambda: self._closing, pause)
                pause = min(pause * 2, _LAST_RETRY_S)

    def _await_work(self) -> bool:
        """Wait until something is queued, and a little longer for what comes with it; False when closed and done.

        A disk that has refused is tried also with nothing to write, or nobody would ever learn that it is well again.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._closing or self._failing_since is not None)
            if self._closing:
                return bool(self._queue)
        if self._linger_s:
            time.sleep(self._linger_s)
        return True

    def _commit_group(self) -> None:
        connection = self.file.writer()
        began = time.monotonic()
        connection.execute("BEGIN IMMEDIATE")
        if self._failing_since is not None:
            touch(connection)
        group = self._take()
        try:
            done = [(ticket, self._apply(ticket, connection)) for ticket in group]
            connection.execute("COMMIT")
        except _OwnFault as fault:
            group.remove(fault.ticket)
            self._give_back(group)
            self._fail(fault.ticket, fault.error)
            connection.execute("ROLLBACK")
            return
        except BaseException:
            self._give_back(group)
            raise
        with self._changed:
            self._in_hand = []
        for call in self.on_commit:
            call(time.monotonic() - began)
        if self._failing_since is not None:
            _log.warning("the journal can be written again")
            self._failing_since = None
        for ticket, result in done:
            self._finish(ticket, result)

    @staticmethod
    def _apply(ticket: _Ticket, connection: sqlite3.Connection) -> Any:
        try:
            return ticket.operation(connection)
        except sqlite3.Error as error:
            # Without a code the error was found before SQLite was asked: a closed cursor, a wrong number of values.
            if getattr(error, "sqlite_errorcode", 1) & 0xFF in _FAULTS:
                raise _OwnFault(ticket, error) from error
            raise
        except Exception as error:  # an operation's own bug must not stop everybody's writing
            raise _OwnFault(ticket, error) from error

    def _take(self) -> list[_Ticket]:
        with self._changed:
            group = list(self._queue)
            self._queue.clear()
            self._in_hand = list(group)
            for ticket in group:
                ticket.taken = True
        return group

    def _give_back(self, group: list[_Ticket]) -> None:
        with self._changed:
            for ticket in group:
                ticket.taken = False
            self._queue.extendleft(reversed(group))
            self._in_hand = []
            self._changed.notify_all()

    def _finish(self, ticket: _Ticket, result: Any) -> None:
        if ticket.committed is not None:
            try:
                ticket.committed(result)
            except Exception:
                _log.exception("what follows a commit failed")
        with suppress(InvalidStateError):  # the caller may have cancelled its future; what it asked for is kept anyway
            ticket.future.set_result(result)
        with self._changed:
            self._changed.notify_all()

    def _fail(self, ticket: _Ticket, error: BaseException) -> None:
        if ticket.failed is not None:
            ticket.failed(error)
        with suppress(InvalidStateError):
            ticket.future.set_exception(error)
        with self._changed:
            self._changed.notify_all()


class _OwnFault(Exception):
    """An operation failed by itself; the disk is well."""

    def __init__(self, ticket: _Ticket, error: Exception) -> None:
        super().__init__(str(error))
        self.ticket = ticket
        self.error = error
