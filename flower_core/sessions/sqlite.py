"""Session transcripts in one SQLite file: the agent SDK's ``SessionStore`` protocol, met by shape alone.

The contracts are those of ``claude_agent_sdk.testing.run_session_store_conformance``. ``list_session_summaries`` is
left out on purpose: it would have to run the SDK's own fold inside ``append``, and the SDK falls back to
``list_sessions`` and ``load`` without it.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from flower_core.files import private_file

T = TypeVar("T")
Entry = dict[str, Any]
#: Takes the entries of one transcript and gives those to be fed back. Must be pure: what is stored never changes.
Rewriter = Callable[[list[Entry]], list[Entry]]

#: How long a statement waits for another process's write, in seconds.
_BUSY_TIMEOUT_S = 30.0
_SCHEMA = """
CREATE TABLE IF NOT EXISTS entries (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    project_key TEXT NOT NULL,
    session_id  TEXT NOT NULL,
    subpath     TEXT NOT NULL,          -- '' is the main transcript
    uuid        TEXT,                   -- NULL where the entry has none
    at_ms       INTEGER NOT NULL,       -- time of writing
    entry       TEXT NOT NULL           -- JSON
);
CREATE UNIQUE INDEX IF NOT EXISTS entries_once
    ON entries (project_key, session_id, subpath, uuid) WHERE uuid IS NOT NULL;
CREATE INDEX IF NOT EXISTS entries_in_order ON entries (project_key, session_id, subpath, id);
CREATE INDEX IF NOT EXISTS entries_by_session ON entries (session_id, subpath);
"""
_LOAD = "SELECT entry FROM entries WHERE project_key = ? AND session_id = ? AND subpath = ? ORDER BY id"
_DELETE_ONE = "DELETE FROM entries WHERE project_key = ? AND session_id = ? AND subpath = ?"
_DELETE_ALL = "DELETE FROM entries WHERE project_key = ? AND session_id = ?"


class SqliteSessionStore:
    """Keeps transcripts in the SQLite file at ``path`` (made with mode 0600, as it holds whatever an agent has seen).

    All SQLite work happens on one thread of its own, so that a slow disk never stops the event loop. Several
    stores, also in several processes, may share a file. An entry that comes again with the same ``uuid`` is
    kept once. ``rewriters`` change what :meth:`load` hands back, in order, never what is stored.

    Raises OSError or sqlite3.Error when the file cannot be opened.
    """

    def __init__(self, path: Path | str, *, rewriters: Sequence[Rewriter] = ()) -> None:
        self.path = Path(path)
        self.rewriters = tuple(rewriters)
        self._closing = threading.Lock()
        self._closed = False
        private_file(self.path)
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="flower-sessions")
        try:
            self._db = self._worker.submit(self._open).result()
        except BaseException:
            self._worker.shutdown(wait=True)
            raise

    async def append(self, key: Mapping[str, Any], entries: Sequence[Mapping[str, Any]]) -> None:
        """Add ``entries`` to the transcript at ``key``, in order, all or none.

        Raises sqlite3.Error, and RuntimeError when closed.
        """
        where = _parts(key)
        rows = [(*where, _uuid(entry), json.dumps(entry, separators=(",", ":"))) for entry in entries]
        if rows:
            await self._run(lambda: self._append(rows))

    async def load(self, key: Mapping[str, Any]) -> list[Entry] | None:
        """The transcript at ``key`` as it is to be fed back, or None when there is none."""
        where = _parts(key)
        return await self._run(lambda: self._load(where))

    async def list_sessions(self, project_key: str) -> list[dict[str, Any]]:
        """The sessions of ``project_key``: ``session_id``, and ``mtime`` in milliseconds since the epoch."""
        rows = await self._query(
            "SELECT session_id, MAX(at_ms) FROM entries WHERE project_key = ? AND subpath = '' GROUP BY session_id",
            (project_key,),
        )
        return [{"session_id": session_id, "mtime": at_ms} for session_id, at_ms in rows]

    async def list_subkeys(self, key: Mapping[str, Any]) -> list[str]:
        """The subpaths (transcripts of subagents) of the session at ``key``."""
        rows = await self._query(
            "SELECT DISTINCT subpath FROM entries"
            " WHERE project_key = ? AND session_id = ? AND subpath != '' ORDER BY subpath",
            _parts(key)[:2],
        )
        return [subpath for (subpath,) in rows]

    async def delete(self, key: Mapping[str, Any]) -> None:
        """Delete the transcript at ``key``; without a ``subpath`` those of its subagents go too."""
        where = _parts(key)
        if where[2]:
            await self._query(_DELETE_ONE, where)
        else:
            await self._query(_DELETE_ALL, where[:2])

    def remove(self, session_ids: Iterable[str]) -> None:
        """Delete these sessions with those of their subagents, in whatever project they stand.

        Blocks; from any thread. Raises sqlite3.Error, and RuntimeError when closed.
        """
        rows = [(session_id,) for session_id in session_ids]
        self._submit(lambda: self._db.executemany("DELETE FROM entries WHERE session_id = ?", rows)).result()

    def has_session(self, session_id: str) -> bool:
        """Whether there is a main transcript of ``session_id``. Blocks; from any thread. RuntimeError when closed."""
        sql = "SELECT 1 FROM entries WHERE session_id = ? AND subpath = '' LIMIT 1"
        return bool(self._submit(lambda: self._db.execute(sql, (session_id,)).fetchall()).result())

    def cumulative_cost(self, session_id: str) -> float:
        """US dollars the transcript says the session has cost; a process that resumes it counts on from there.

        0.0 when it says nothing: the agent program writes that entry as it ends, often too late to be kept here.
        Blocks; from any thread. RuntimeError when closed.
        """
        sql = (
            "SELECT json_extract(entry, '$.totalCostUSD') FROM entries WHERE session_id = ? AND subpath = ''"
            " AND json_extract(entry, '$.type') = 'cost-state' ORDER BY id DESC LIMIT 1"
        )
        rows = self._submit(lambda: self._db.execute(sql, (session_id,)).fetchall()).result()
        return float(rows[0][0] or 0.0) if rows else 0.0

    def first_prompt(self, session_id: str) -> str:
        """What the session was first asked for in words, "" when the transcript does not tell.

        Blocks; from any thread. RuntimeError when closed.
        """
        sql = (
            "SELECT json_extract(entry, '$.message.content') FROM entries WHERE session_id = ? AND subpath = ''"
            " AND json_extract(entry, '$.type') = 'user' AND json_type(entry, '$.message.content') = 'text'"
            " AND json_extract(entry, '$.isMeta') IS NOT 1 ORDER BY id LIMIT 1"
        )
        rows = self._submit(lambda: self._db.execute(sql, (session_id,)).fetchall()).result()
        return str(rows[0][0]) if rows else ""

    def close(self) -> None:
        """Finish what was begun and close the file. May be called again, from any thread."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
            self._worker.submit(self._db.close)
        self._worker.shutdown(wait=True)

    def _open(self) -> sqlite3.Connection:
        db = sqlite3.connect(self.path, timeout=_BUSY_TIMEOUT_S, isolation_level=None)
        try:
            db.execute("PRAGMA journal_mode = WAL")
            # With WAL this survives a killed process; only a power cut may cost the last entries, never the file.
            db.execute("PRAGMA synchronous = NORMAL")
            db.executescript(_SCHEMA)
        except BaseException:
            db.close()
            raise
        return db

    def _append(self, rows: list[tuple[str, str, str, str | None, str]]) -> None:
        at_ms = time.time_ns() // 1_000_000
        self._db.execute("BEGIN IMMEDIATE")
        try:
            self._db.executemany(
                "INSERT INTO entries (project_key, session_id, subpath, uuid, entry, at_ms) VALUES (?, ?, ?, ?, ?, ?)"
                " ON CONFLICT DO NOTHING",
                [(*row, at_ms) for row in rows],
            )
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def _load(self, where: tuple[str, str, str]) -> list[Entry] | None:
        rows = self._db.execute(_LOAD, where).fetchall()
        if not rows:
            return None
        entries: list[Entry] = [json.loads(text) for (text,) in rows]
        for rewrite in self.rewriters:
            entries = rewrite(entries)
        return entries

    async def _query(self, sql: str, values: Iterable[str]) -> list[Any]:
        arguments = tuple(values)
        return await self._run(lambda: self._db.execute(sql, arguments).fetchall())

    async def _run(self, work: Callable[[], T]) -> T:
        # Shielded: a task cancelled while its entries are still queued must not take them with it.
        return await asyncio.shield(asyncio.wrap_future(self._submit(work)))

    def _submit(self, work: Callable[[], T]) -> Future[T]:
        with self._closing:
            if self._closed:
                raise RuntimeError(f"the session store {self.path} is closed")
            return self._worker.submit(work)


def _parts(key: Mapping[str, Any]) -> tuple[str, str, str]:
    return key["project_key"], key["session_id"], key.get("subpath") or ""


def _uuid(entry: Mapping[str, Any]) -> str | None:
    uuid = entry.get("uuid")
    return uuid if isinstance(uuid, str) and uuid else None
