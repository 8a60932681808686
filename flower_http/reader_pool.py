"""A few connections that read one SQLite file at a time: a long search holds up nobody who looks at something else."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")
#: Twice as many as threads answer requests by default, so that none of those ever waits for another's search.
READERS: Final = 8
#: How often a search that was told to stop is told again, in seconds: between two statements it does not hear.
_TELL_EVERY_S = 0.05


class ReaderPool:
    """At most ``most`` (>= 1) connections, each made by ``connect`` when all others are at work, and kept for the next.

    Every method may be called from any thread.
    """

    def __init__(self, connect: Callable[[], sqlite3.Connection], most: int = READERS) -> None:
        self._connect = connect
        self._most = most
        self._idle: list[sqlite3.Connection] = []
        self._at_work: set[sqlite3.Connection] = set()
        self._opening = 0
        self._closed = False
        self._changed = threading.Condition()

    def read(self, operation: Callable[[sqlite3.Connection], T]) -> T:
        """``operation`` on a connection that nobody else uses meanwhile; waits while all are at work.

        Raises sqlite3.Error, also once the pool is closed, and what ``connect`` raises.
        """
        connection = self._take()
        try:
            result = operation(connection)
        except BaseException:
            # A statement that was left half-way would have the next one see what was committed then, not now.
            self._give_back(connection, spent=True)
            raise
        self._give_back(connection)
        return result

    def close(self) -> None:
        """Cut short what is being read, and close every connection once its reader has let go of it."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            while self._at_work or self._opening:
                for connection in self._at_work:
                    connection.interrupt()
                self._changed.wait(_TELL_EVERY_S)
            while self._idle:
                self._idle.pop().close()

    def _take(self) -> sqlite3.Connection:
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._idle or self._busy < self._most)
            if self._closed:
                raise sqlite3.ProgrammingError("the journal is closed")
            if self._idle:
                connection = self._idle.pop()
                self._at_work.add(connection)
                return connection
            self._opening += 1
        try:
            opened = self._connect()
        except BaseException:
            with self._changed:
                self._opening -= 1
                self._changed.notify()
            raise
        with self._changed:
            self._opening -= 1
            self._at_work.add(opened)
        return opened

    def _give_back(self, connection: sqlite3.Connection, *, spent: bool = False) -> None:
        with self._changed:
            # Before it is closed: an interrupt must not come to a connection that is gone.
            self._at_work.remove(connection)
            if spent:
                connection.close()
            else:
                self._idle.append(connection)
            self._changed.notify_all()

    @property
    def _busy(self) -> int:
        return len(self._at_work) + self._opening
