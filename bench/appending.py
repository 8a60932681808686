"""Appending to a log in the ways that are measured; used inside the server's process, and by floors beside it."""

from __future__ import annotations

import sqlite3
import time
from collections import deque
from concurrent.futures import Future
from pathlib import Path

from flower_http.event_log import EventLog

#: Events on their way at once when as many as possible are appended.
_IN_FLIGHT = 2000
#: About as large as an event of that text.
SHORT = "Four of five checks pass; the last one waits for the network."


def at_rate(log: EventLog, rate: float, seconds: float) -> int:
    """Append ``rate`` events a second, each with the clock (time.monotonic) as its text; how many.

    Keeps to the plan: what the machine was late with follows at once.
    """
    count, started = max(1, int(rate * seconds)), time.monotonic()
    future: Future[int] | None = None
    for number in range(count):
        ahead = started + number / rate - time.monotonic()
        if ahead > 0:
            time.sleep(ahead)
        future = log.append("text", repr(time.monotonic()))
    if future is not None:
        future.result()
    return count


def flat_out(log: EventLog, seconds: float) -> float:
    """Events a second when the next is appended as soon as there is room; all of them kept in the end."""
    waiting: deque[Future[int]] = deque()
    count, started = 0, time.monotonic()
    while time.monotonic() < started + seconds:
        waiting.append(log.append("text", SHORT))
        count += 1
        if len(waiting) >= _IN_FLIGHT:
            waiting.popleft().result()
    waiting[-1].result()
    return count / (time.monotonic() - started)


def many(log: EventLog, count: int) -> float:
    """Append ``count`` events; seconds until all are kept."""
    waiting: deque[Future[int]] = deque()
    started = time.monotonic()
    for _ in range(count):
        waiting.append(log.append("text", SHORT))
        if len(waiting) >= _IN_FLIGHT:
            waiting.popleft().result()
    waiting[-1].result()
    return time.monotonic() - started


class PlainFile:
    """A SQLite file as safe as the journal (WAL, synced at every commit), into which ready bytes are put."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;")
        self._db.execute("CREATE TABLE events (run INTEGER, seq INTEGER, body BLOB, PRIMARY KEY (run, seq))")
        self._next = 1

    def commit(self, body: bytes, rows: int = 1) -> float:
        """Milliseconds for one transaction of ``rows`` rows."""
        started = time.perf_counter()
        self._db.execute("BEGIN IMMEDIATE")
        batch = [(1, seq, body) for seq in range(self._next, self._next + rows)]
        self._db.executemany("INSERT INTO events VALUES (?, ?, ?)", batch)
        self._db.execute("COMMIT")
        self._next += rows
        return (time.perf_counter() - started) * 1000

    def close(self) -> None:
        """Close the file."""
        self._db.close()
