"""The statements that keep runs, events and answers. Each function is one operation on a connection."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from flower_http.encode import dumps
from flower_http.projection import FINAL, RunView, Settled, fold

#: How many events one operation drops at most: some 30 ms of the writer's time.
SLICE: Final = 5000


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
    connection: sqlite3.Connection,
    number: int,
    rows: Iterable[tuple[int, bytes]],
    view: RunView,
    settled: Settled,
    *,
    whole: bool,
) -> None:
    """Keep events, what they settled, and how the run stands after them; without ``whole`` only its last number."""
    connection.executemany("INSERT INTO events (run, seq, body) VALUES (?, ?, ?)", ((number, *row) for row in rows))
    put_away = [("ask", ask) for ask in settled.asks], [("mail", item) for item in settled.mail]
    connection.executemany(
        # What is told of again, as after a restart, keeps its place.
        "INSERT INTO settled (run, kind, id, since_seq, seq, body) VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT DO UPDATE SET body = excluded.body",
        (
            (number, kind, item.id, item.since_seq, item.seq, _text(asdict(item)))
            for part in put_away
            for kind, item in part
        ),
    )
    if whole:
        connection.execute(
            "UPDATE runs SET state = ?, ended_at = ?, last_seq = ?, view_seq = ?, view = ? WHERE number = ?",
            (view.state, view.ended_at, view.last_seq, view.last_seq, _text(view.dump()), number),
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
    """The encoded events after ``after`` up to ``last``: at most ``limit``, about ``max_bytes``, at least one.

    None at all when the first of them is no longer there: a page never begins with a later one.
    """
    found: list[bytes] = []
    size = 0
    for seq, body in connection.execute(
        "SELECT seq, body FROM events WHERE run = ? AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?",
        (number, after, last, limit),
    ):
        size += len(body) + 1
        if seq != after + len(found) + 1 or (found and size > max_bytes):
            break
        found.append(body)
    return found


def delete_events(connection: sqlite3.Connection, number: int, before: int) -> bool:
    """Drop the oldest events before number ``before``, :data:`SLICE` at most; whether that were all of them.

    The kept view takes over what they said.
    """
    row = connection.execute("SELECT id, first_seq, view_seq FROM runs WHERE number = ?", (number,)).fetchone()
    if row is None:
        return True
    run_id, first_seq, view_seq = row
    end = min(before, first_seq + SLICE)
    if end <= first_seq:
        return True
    record = load_run(connection, run_id) if view_seq < end - 1 else None
    if record is not None:
        connection.execute(
            "UPDATE runs SET state = ?, view_seq = ?, view = ? WHERE number = ?",
            (record.view.state, record.view.last_seq, _text(record.view.dump()), number),
        )
    connection.execute("DELETE FROM events WHERE run = ? AND seq < ?", (number, end))
    connection.execute("UPDATE runs SET first_seq = ? WHERE number = ?", (end, number))
    return bool(end == before)


def delete_run(connection: sqlite3.Connection, number: int) -> None:
    """Drop a run with everything kept about it."""
    for statement in (
        "DELETE FROM events WHERE run = ?",
        "DELETE FROM answers WHERE run = ?",
        "DELETE FROM settled WHERE run = ?",
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


def ids_with_param(connection: sqlite3.Connection, name: str, value: str) -> list[str]:
    """Ids of the runs that were started with this parameter, oldest first."""
    statement = "SELECT id FROM runs WHERE json_extract(view, '$.params.' || ?) = ? ORDER BY id"
    return [run_id for (run_id,) in connection.execute(statement, (name, value))]


def ended_ids(connection: sqlite3.Connection, before: str, limit: int) -> list[str]:
    """Ids of at most ``limit`` runs that ended before that time (RFC 3339 in UTC), those first that ended first."""
    statement = "SELECT id FROM runs WHERE ended_at <> '' AND ended_at < ? ORDER BY ended_at LIMIT ?"
    return [run_id for (run_id,) in connection.execute(statement, (before, limit))]


def last_ended_id(connection: sqlite3.Connection) -> str | None:
    """The id of the run that ended last."""
    statement = "SELECT id FROM runs WHERE ended_at <> '' ORDER BY ended_at DESC, id DESC LIMIT 1"
    row = connection.execute(statement).fetchone()
    return None if row is None else str(row[0])


def load_settled(
    connection: sqlite3.Connection, number: int, kind: str, last_seq: int, only: str | None = None
) -> list[dict[str, Any]]:
    """What was settled up to event ``last_seq``: of ``kind`` ask or mail, all or the one with the id ``only``."""
    statement = "SELECT since_seq, body FROM settled WHERE run = ? AND kind = ? AND seq <= ?"
    values: list[Any] = [number, kind, last_seq]
    if only is not None:
        statement, values = f"{statement} AND id = ?", [*values, only]
    rows = connection.execute(statement, values)
    return [{**json.loads(body), "since_seq": since_seq} for since_seq, body in rows]


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
