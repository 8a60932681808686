"""The tables of the journal, as the steps that led to them. A file says in ``user_version`` how many it has taken.

``runs.view`` is the run as it was after event ``view_seq``, with the questions and words that are still open;
``settled`` holds those that are not. ``events.body`` is what readers get, byte for byte. ``answers`` is what a person
said to a question, kept before anybody is told that it was accepted.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from typing import Final

_TABLES_1 = (
    """CREATE TABLE IF NOT EXISTS runs (
        number INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        epoch TEXT NOT NULL,
        state TEXT NOT NULL,
        labels TEXT NOT NULL,
        last_seq INTEGER NOT NULL,
        first_seq INTEGER NOT NULL DEFAULT 1,
        view_seq INTEGER NOT NULL,
        view TEXT NOT NULL
    )""",
    "CREATE INDEX IF NOT EXISTS runs_by_state ON runs (state, id)",
    """CREATE TABLE IF NOT EXISTS events (
        run INTEGER NOT NULL REFERENCES runs (number),
        seq INTEGER NOT NULL,
        body BLOB NOT NULL,
        PRIMARY KEY (run, seq)
    ) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS answers (
        run INTEGER NOT NULL REFERENCES runs (number),
        ask TEXT NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (run, ask)
    ) WITHOUT ROWID""",
)
#: ``kind`` is ask or mail; ``since_seq`` and ``seq`` are the first and the last event about it.
_TABLES_2 = (
    """CREATE TABLE settled (
        run INTEGER NOT NULL REFERENCES runs (number),
        kind TEXT NOT NULL,
        id TEXT NOT NULL,
        since_seq INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (run, kind, id)
    ) WITHOUT ROWID""",
    "ALTER TABLE runs ADD COLUMN ended_at TEXT NOT NULL DEFAULT ''",
    "CREATE INDEX runs_by_end ON runs (ended_at) WHERE ended_at <> ''",
)


def bring_up_to_date(connection: sqlite3.Connection) -> int:
    """Make or migrate the tables, in one transaction; the version found before.

    Raises sqlite3.OperationalError, and leaves the file as it is, when a newer server has written it;
    sqlite3.DatabaseError when it cannot be read or written.
    """
    version = check_version(connection)
    if version < len(_STEPS):
        connection.execute("BEGIN IMMEDIATE")
        try:
            for step in _STEPS[version:]:
                step(connection)
            touch(connection)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
    return version


def check_version(connection: sqlite3.Connection) -> int:
    """The format of a journal. Raises sqlite3.OperationalError when a newer server has written it."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > len(_STEPS):
        newer = f"a newer version of this server has written it (format {version}, this one knows {len(_STEPS)})"
        raise sqlite3.OperationalError(f"{newer}: update the server, or use another data dir")
    return int(version)


def touch(connection: sqlite3.Connection) -> None:
    """Write the version: to note it, or because only a disk that takes a page is well."""
    connection.execute(f"PRAGMA user_version = {len(_STEPS)}")


def _first(connection: sqlite3.Connection) -> None:
    for statement in _TABLES_1:
        connection.execute(statement)


def _settled_apart(connection: sqlite3.Connection) -> None:
    """Move what is settled out of the views, so that a view does not grow with its run; say when runs ended."""
    for statement in _TABLES_2:
        connection.execute(statement)
    for number, run_id in connection.execute("SELECT number, id FROM runs").fetchall():
        try:
            _move_settled(connection, number)
        except (KeyError, TypeError, ValueError) as error:
            raise sqlite3.DatabaseError(f"run {run_id} is not as this server writes runs: {error!r}") from error


def _move_settled(connection: sqlite3.Connection, number: int) -> None:
    (kept,) = connection.execute("SELECT view FROM runs WHERE number = ?", (number,)).fetchone()
    view = json.loads(kept)
    for kind, field, open_state in (("ask", "asks", "asked"), ("mail", "mail", "queued")):
        # Which events told of them was not noted. What counts is their order, and that it lies in the past.
        items = [{**item, "since_seq": place, "seq": place} for place, item in enumerate(view[field], 1)]
        view[field] = [item for item in items if item["state"] == open_state]
        connection.executemany(
            "INSERT INTO settled (run, kind, id, since_seq, seq, body) VALUES (?, ?, ?, ?, ?, ?)",
            (
                (number, kind, item["id"], item["since_seq"], item["seq"], _text(item))
                for item in items
                if item["state"] != open_state
            ),
        )
    connection.execute(
        "UPDATE runs SET view = ?, ended_at = ? WHERE number = ?", (_text(view), view["ended_at"], number)
    )


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


_STEPS: Final[tuple[Callable[[sqlite3.Connection], None], ...]] = (_first, _settled_apart)
