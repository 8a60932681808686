"""The statements that keep runs, events and answers. Each function is one operation on a connection."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flower_http.encode import dumps
from flower_http.projection import FINAL, RunView, fold


@dataclass(frozen=True)
class Record:
    """A run as it is kept. ``number`` is its key in the journal, ``first_seq`` its oldest kept event."""

    number: int
    first_seq: int
    view: RunView


def insert_run(connection: sqlite3.Connection, view: RunView, first_event: bytes) -> int:
    """Keep a new run and its first event; its number. Raises sqlite3.IntegrityError when the id is taken."""
    row = (view.id, view.epoch, view.state, _text(view.labels), view.last_seq, view.last_seq, _text(view.dump()))
    cursor = connection.execute(
        "INSERT INTO runs (id, epoch, state, labels, last_seq, view_seq, view) VALUES (?, ?, ?, ?, ?, ?, ?)", row
    )
    number = int(cursor.lastrowid or 0)
    connection.execute("INSERT INTO events (run, seq, body) VALUES (?, ?, ?)", (number, view.last_seq, first_event))
    return number


def insert_events(
    connection: sqlite3.Connection, number: int, rows: Iterable[tuple[int, bytes]], view: RunView, *, whole: bool
) -> None:
    """Keep events, and how the run stands after them; with ``whole`` the entire view, else only its last number."""
    connection.executemany("INSERT INTO events (run, seq, body) VALUES (?, ?, ?)", ((number, *row) for row in rows))
    if whole:
        connection.execute(
            "UPDATE runs SET state = ?, last_seq = ?, view_seq = ?, view = ? WHERE number = ?",
            (view.state, view.last_seq, view.last_seq, _text(view.dump()), number),
        )
    else:
        connection.execute("UPDATE runs SET last_seq = ? WHERE number = ?", (view.last_seq, number))


def load_run(connection: sqlite3.Connection, run_id: str) -> Record | None:
    """The run with this id, its kept view brought up to date with the events after it; None when there is none."""
    row = connection.execute("SELECT number, first_seq, view_seq, view FROM runs WHERE id = ?", (run_id,)).fetchone()
    if row is None:
        return None
    number, first_seq, view_seq, kept = row
    view = RunView.restore(json.loads(kept))
    for seq, body in connection.execute(
        "SELECT seq, body FROM events WHERE run = ? AND seq > ? ORDER BY seq", (number, view_seq)
    ):
        event = json.loads(body)
        view = fold(view, seq, event["at"], event)
    return Record(number, first_seq, view)


def read_events(
    connection: sqlite3.Connection, number: int, after: int, last: int, limit: int, max_bytes: int
) -> list[bytes]:
    """The encoded events after ``after`` up to ``last``: at most ``limit``, about ``max_bytes``, at least one."""
    found: list[bytes] = []
    size = 0
    for (body,) in connection.execute(
        "SELECT body FROM events WHERE run = ? AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?",
        (number, after, last, limit),
    ):
        size += len(body) + 1
        if found and size > max_bytes:
            break
        found.append(body)
    return found


def delete_events(connection: sqlite3.Connection, run_id: str, before: int) -> None:
    """Drop the events before number ``before``. The kept view takes over what they said."""
    record = load_run(connection, run_id)
    if record is None:
        return
    connection.execute("DELETE FROM events WHERE run = ? AND seq < ?", (record.number, before))
    connection.execute(
        "UPDATE runs SET first_seq = max(first_seq, ?), state = ?, view_seq = ?, view = ? WHERE number = ?",
        (before, record.view.state, record.view.last_seq, _text(record.view.dump()), record.number),
    )


def delete_run(connection: sqlite3.Connection, number: int) -> None:
    """Drop a run with everything kept about it."""
    for statement in (
        "DELETE FROM events WHERE run = ?",
        "DELETE FROM answers WHERE run = ?",
        "DELETE FROM runs WHERE number = ?",
    ):
        connection.execute(statement, (number,))


def list_ids(
    connection: sqlite3.Connection, states: Sequence[str], labels: Mapping[str, str], before: str | None, limit: int
) -> list[str]:
    """Ids of runs, newest first: in one of ``states`` (any if empty), with all ``labels``, older than ``before``."""
    clauses: list[str] = []
    values: list[Any] = []
    if states:
        clauses.append(f"state IN ({', '.join('?' * len(states))})")
        values += states
    for key, value in labels.items():
        clauses.append("EXISTS (SELECT 1 FROM json_each(runs.labels) WHERE key = ? AND value = ?)")
        values += (key, value)
    if before is not None:
        clauses.append("id < ?")
        values.append(before)
    where = f"WHERE {' AND '.join(clauses)}" if clauses else ""
    statement = f"SELECT id FROM runs {where} ORDER BY id DESC LIMIT ?"  # noqa: S608 - fixed clauses, bound values
    return [run_id for (run_id,) in connection.execute(statement, (*values, limit))]


def unfinished_ids(connection: sqlite3.Connection) -> list[str]:
    """Ids of the runs that have not ended for good, oldest first."""
    marks = ", ".join("?" * len(FINAL))
    statement = f"SELECT id FROM runs WHERE state NOT IN ({marks}) ORDER BY id"  # noqa: S608 - only marks are filled in
    return [run_id for (run_id,) in connection.execute(statement, tuple(FINAL))]


def insert_answer(connection: sqlite3.Connection, number: int, ask_id: str, answer: Mapping[str, Any]) -> None:
    """Keep how a question was settled; the same question again replaces it."""
    connection.execute(
        "INSERT OR REPLACE INTO answers (run, ask, body) VALUES (?, ?, ?)",
        (number, ask_id, _text(answer)),
    )


def load_answers(connection: sqlite3.Connection, number: int) -> dict[str, dict[str, Any]]:
    """Every kept answer of a run by the id of its question."""
    rows = connection.execute("SELECT ask, body FROM answers WHERE run = ?", (number,))
    return {ask_id: json.loads(body) for ask_id, body in rows}


def _text(value: Any) -> str:
    return dumps(value).decode()
