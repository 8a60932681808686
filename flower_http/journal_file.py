"""The journal's file: the connections to it, and what can be wrong with it."""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from flower_core.files import private_file
from flower_http.journal_schema import bring_up_to_date
from flower_http.reader_pool import ReaderPool

T = TypeVar("T")

_BUSY_MS = 1000
_WAL_LIMIT_BYTES = 64 * 1024 * 1024
#: SQLITE_CORRUPT and SQLITE_NOTADB.
_RUINED = (11, 26)

_log = logging.getLogger(__name__)


class JournalLost(sqlite3.OperationalError):
    """The file was moved or deleted under the server; what is written now would be gone after a restart."""


def is_ruin(error: sqlite3.Error) -> bool:
    """Whether ``error`` says that a file is damaged or no database at all, which no waiting will mend."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _RUINED


class JournalFile:
    """The SQLite file at ``path``. A file that is no database is set aside under another name, never deleted.

    Raises OSError or sqlite3.Error when it cannot be opened.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.set_aside: Path | None = None
        self._writer: sqlite3.Connection | None = self._open_first()
        self._identity = _identity(self.path)
        self._readers = ReaderPool(self._connect_again)

    def writer(self) -> sqlite3.Connection:
        """The writing connection, opened anew after :meth:`drop_writer`. Raises JournalLost, sqlite3.Error, OSError.

        For the writer thread alone.
        """
        self._check_identity()
        if self._writer is None:
            self._writer = self._connect()
        return self._writer

    def drop_writer(self) -> None:
        """Close the writing connection, rolling back what is open: after an error its state cannot be relied on."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def read(self, operation: Callable[[sqlite3.Connection], T]) -> T:
        """``operation`` on a connection for reading, from any thread: see :meth:`ReaderPool.read`."""
        return self._readers.read(operation)

    def close(self) -> None:
        """Close all connections, the writing one last; the last one out folds the write-ahead log into the file."""
        self._readers.close()
        self.drop_writer()

    def _open_first(self) -> sqlite3.Connection:
        connection = self._connect_or_set_aside()
        try:
            bring_up_to_date(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _connect_or_set_aside(self) -> sqlite3.Connection:
        """The first connection. Only what is no database at all is set aside; a damaged one is for people to see."""
        try:
            return self._connect(create=True)
        except sqlite3.DatabaseError as error:
            if not is_ruin(error):
                raise
        stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
        self.set_aside = self.path.with_name(f"{self.path.name}.corrupt-{stamp}")
        _log.error("%s is no usable journal; it was set aside as %s", self.path, self.set_aside.name)
        for suffix in ("", "-wal", "-shm"):
            part = self.path.with_name(self.path.name + suffix)
            if part.exists():
                os.replace(part, f"{self.set_aside}{suffix}")
        return self._connect(create=True)

    def _connect_again(self) -> sqlite3.Connection:
        self._check_identity()
        return self._connect()

    def _check_identity(self) -> None:
        try:
            if _identity(self.path) != self._identity:
                raise JournalLost(f"{self.path} is no longer the file it was")
        except OSError as error:
            raise JournalLost(f"{self.path} is gone: {error.strerror}") from None

    def _connect(self, *, create: bool = False) -> sqlite3.Connection:
        if create:
            private_file(self.path)
        connection = sqlite3.connect(
            f"{self.path.absolute().as_uri()}?mode=rw",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            timeout=_BUSY_MS / 1000,
        )
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            # FULL: the log is synced at every commit, so what was shown survives a power cut as well as a kill.
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute(f"PRAGMA journal_size_limit = {_WAL_LIMIT_BYTES}")
        except BaseException:
            connection.close()
            raise
        return connection


def _identity(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino
