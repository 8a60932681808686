"""Idempotency-Key: a POST sent twice acts once (draft-ietf-httpapi-idempotency-key-header).

Kept is the reply to what was done. A request that was refused has done nothing, so its key is free again and the next
try is a real one: a full queue or a busy workspace must not be answered from memory for a day.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import sqlite3
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from flower_core.files import private_file
from flower_http.errors import CONTENT_TYPE, Problem, unavailable, unknown_run
from flower_http.replies import Reply

HEADER = "Idempotency-Key"
REPLAYED = "Idempotent-Replayed"
#: How long a reply is kept, in seconds.
KEEP_S = 24 * 3600.0

_KEY = re.compile(r"[\x20-\x7e]{1,255}", re.ASCII)
_PURGE_EVERY_S = 60.0
_LOG = logging.getLogger(__name__)

_TABLE = """
CREATE TABLE IF NOT EXISTS replies (
    key TEXT PRIMARY KEY, fingerprint TEXT NOT NULL, boot TEXT NOT NULL, at REAL NOT NULL,
    status INTEGER, headers TEXT, body BLOB, run TEXT NOT NULL DEFAULT '') WITHOUT ROWID
"""
#: What files made by the first version lack.
_ADD_RUN = "ALTER TABLE replies ADD COLUMN run TEXT NOT NULL DEFAULT ''"


@dataclass(frozen=True)
class Claim:
    """What became of a claim: ``mine`` = go ahead; ``kept`` = ``reply`` is the answer; or another has it.

    ``again``: a server that is gone was serving the same request, and may have done what it asks for.
    """

    state: Literal["mine", "kept", "running", "other-body"]
    reply: Reply | None = None
    again: bool = False


class KeyStore(Protocol):
    """Where replies are kept. Any thread may call; whatever it raises is answered with 503."""

    def claim(self, key: str, fingerprint: str) -> Claim:
        """Mark ``key`` as being served, unless it is known.

        The mark of a server that is gone keeps nobody waiting; but what it was serving may have been done, so the key
        is good for that same request only.
        """
        ...

    def keep(self, key: str, reply: Reply) -> None:
        """Keep ``reply`` for the claimed ``key``; durable when this returns."""
        ...

    def release(self, key: str, claim: Claim) -> None:
        """Give up ``claim`` of ``key``: nothing was done, unless by an earlier server. That is not forgotten."""
        ...

    def bury(self, run_id: str) -> None:
        """Put a 404 in place of every reply about this run: it is gone, yet no key of it may act a second time."""
        ...


class SqliteKeys:
    """A :class:`KeyStore` in a SQLite file of its own.

    ``clock`` gives seconds since the epoch. Each object is one boot: marks of any other are taken over, so a crash in
    the middle of a request blocks its key only until the restart. A file that is no such store is set aside.
    Raises sqlite3.Error or OSError when there can be none.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._clock = clock
        self._boot = uuid.uuid4().hex
        self._lock = threading.Lock()
        self._purged_at = 0.0
        #: What the disk has refused so far to take about a key: a statement and its values.
        self._owed: dict[str, tuple[str, tuple[object, ...]]] = {}
        try:
            self._db = _open(path)
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):  # locked, full or forbidden, but not damaged
                raise
            aside = path.with_name(f"{path.name}.corrupt-{int(clock())}")
            path.rename(aside)
            _LOG.error("%s is damaged (%s); it is now %s, and a new one is begun", path, error, aside.name)
            self._db = _open(path)

    def claim(self, key: str, fingerprint: str) -> Claim:
        """See :meth:`KeyStore.claim`."""
        with self._lock:
            now = self._clock()
            self._purge(now)
            self._pay(key)
            row = self._db.execute(
                "SELECT fingerprint, boot, status, headers, body FROM replies WHERE key = ? AND at > ?",
                (key, now - KEEP_S),
            ).fetchone()
            if row is not None and (row[0] != fingerprint or row[2] is not None or row[1] == self._boot):
                return _known(row, fingerprint)
            self._db.execute(
                "INSERT OR REPLACE INTO replies (key, fingerprint, boot, at) VALUES (?, ?, ?, ?)",
                (key, fingerprint, self._boot, now),
            )
            return Claim("mine", again=row is not None)

    def keep(self, key: str, reply: Reply) -> None:
        """See :meth:`KeyStore.keep`."""
        self._owe(
            key,
            "UPDATE replies SET status = ?, headers = ?, body = ?, run = ? WHERE key = ?",
            (reply.status, json.dumps(reply.headers), reply.body, reply.run, key),
        )

    def release(self, key: str, claim: Claim) -> None:
        """See :meth:`KeyStore.release`."""
        # No boot has an empty name: the mark is again that of a server that is gone.
        free = "UPDATE replies SET boot = '' WHERE key = ?" if claim.again else "DELETE FROM replies WHERE key = ?"
        self._owe(key, f"{free} AND status IS NULL", (key,))

    def bury(self, run_id: str) -> None:
        """See :meth:`KeyStore.bury`."""
        problem = unknown_run(run_id)
        gone = (problem.status, json.dumps([("Content-Type", CONTENT_TYPE)]), problem.body())
        with self._lock:
            self._db.execute("UPDATE replies SET status = ?, headers = ?, body = ? WHERE run = ?", (*gone, run_id))

    def close(self) -> None:
        """Close the file; nothing may be called afterwards."""
        with self._lock:
            self._db.close()

    def _owe(self, key: str, statement: str, values: tuple[object, ...]) -> None:
        with self._lock:
            self._owed[key] = statement, values
            self._pay(key)

    def _pay(self, key: str) -> None:
        """Write down what became of ``key``. What the disk refuses is tried again when somebody asks for it."""
        if key in self._owed:
            self._db.execute(*self._owed[key])
            del self._owed[key]

    def _purge(self, now: float) -> None:
        if now - self._purged_at >= _PURGE_EVERY_S:
            self._db.execute("DELETE FROM replies WHERE at <= ?", (now - KEEP_S,))
            self._purged_at = now


def _open(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(private_file(path), isolation_level=None, check_same_thread=False, timeout=5.0)
    try:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=FULL")
        db.execute(_TABLE)
        if "run" not in {column[1] for column in db.execute("PRAGMA table_info(replies)")}:
            db.execute(_ADD_RUN)
        db.execute("SELECT key, fingerprint, boot, at, status, headers, body, run FROM replies LIMIT 1")
    except BaseException:
        db.close()
        raise
    return db


def _known(row: tuple[str, str, int | None, str, bytes], fingerprint: str) -> Claim:
    kept_fingerprint, _, status, headers, body = row
    if kept_fingerprint != fingerprint:
        return Claim("other-body")
    if status is None:
        return Claim("running")
    return Claim("kept", Reply(status, body, tuple((name, value) for name, value in json.loads(headers))))


def digest(*parts: str | bytes) -> str:
    """One hash over ``parts``, each with its length, so that no two lists of parts run into each other."""
    total = hashlib.sha256()
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        total.update(b"%d:" % len(raw) + raw)
    return total.hexdigest()


def check_key(key: str) -> None:
    """Raise Problem 400 unless ``key`` is 1 to 255 printable ASCII characters."""
    if not _KEY.fullmatch(key):
        raise Problem(400, "bad-idempotency-key", f"{HEADER} must be 1 to 255 printable ASCII characters")


def serve_once(store: KeyStore, key: str, fingerprint: str, act: Callable[[bool], Reply]) -> Reply:
    """The reply of ``act(again)``, or the one kept from the first time. ``key`` and ``fingerprint`` are digests.

    ``again`` is that of :class:`Claim`.

    Raises what ``act`` raises, and Problem 409 while the first request is still being served, 422 for another body,
    503 when the store fails before anything was done.
    """
    try:
        claim = store.claim(key, fingerprint)
    except sqlite3.Error as error:
        detail = f"the key cannot be kept: {error}"
        raise unavailable(detail) from error
    if claim.state == "running":
        detail = "the first request with this key is still being served; try again"
        raise Problem(409, "idempotency-in-progress", detail, headers={"Retry-After": "1"})
    if claim.state == "other-body":
        raise Problem(422, "idempotency-mismatch", f"this {HEADER} was used with another body; use a new key")
    if claim.reply is not None:
        return claim.reply.with_header(REPLAYED, "true")
    return _act(store, key, claim, act)


def _act(store: KeyStore, key: str, claim: Claim, act: Callable[[bool], Reply]) -> Reply:
    try:
        reply = act(claim.again)
    except BaseException:
        _quietly(lambda: store.release(key, claim))
        raise
    _quietly(lambda: store.keep(key, reply))
    return reply


def _quietly(call: Callable[[], None]) -> None:
    # What was done is done: the client must hear of it even when the reply cannot be kept.
    try:
        call()
    except sqlite3.Error:
        _LOG.exception("an idempotency key could not be updated")
