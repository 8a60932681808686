from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from flower_http.journal import Journal
from flower_http.log_book import LogBook
from flower_http.reader_pool import READERS, ReaderPool
from tests.http.event_tools import Wire, new_run, open_book, say, serving
from tests.support import in_thread

#: A search that never comes to an end, and all of it inside SQLite.
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


@contextmanager
def searching(where: Journal | ReaderPool) -> Iterator[Future[Any]]:
    """While this is open somebody reads there and finds no end."""
    at_work = threading.Event()

    def search(db: sqlite3.Connection) -> Any:
        at_work.set()
        return db.execute(ENDLESS).fetchone()

    found = in_thread(lambda: where.read(search))
    assert at_work.wait(10)
    yield found
    assert not found.done()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    sqlite3.connect(tmp_path / "some.db").close()
    return tmp_path / "some.db"


@pytest.fixture
def opened() -> list[sqlite3.Connection]:
    return []


@pytest.fixture
def pool(path: Path, opened: list[sqlite3.Connection]) -> Iterator[ReaderPool]:
    def connect() -> sqlite3.Connection:
        opened.append(sqlite3.connect(path, check_same_thread=False))
        return opened[-1]

    made = ReaderPool(connect, most=2)
    yield made
    made.close()


def one(db: sqlite3.Connection) -> int:
    return int(db.execute("SELECT 1").fetchone()[0])


def test_an_old_page_and_other_runs_are_served_while_a_long_search_runs(tmp_path: Path) -> None:
    with open_book(tmp_path / "journal.db", ring=2) as first:
        say(new_run(first), *map(str, range(10)))
        new_run(first, "r2")
    with (
        open_book(tmp_path / "journal.db", ring=2) as book,
        serving(book) as running,
        Wire(running.server) as wire,
        searching(book.journal),
    ):
        page = wire.get("/runs/r1/events?after=0&limit=5").json
        assert [event["seq"] for event in page["events"]] == [1, 2, 3, 4, 5]
        assert wire.get("/runs/r2/events").json["last_seq"] == 1
        runs, _ = book.list()
        assert [view.id for view in runs] == ["r2", "r1"]


def test_closing_the_journal_cuts_a_search_short_and_leaves_the_file_whole(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    journal = Journal(path)
    new_run(LogBook(journal))
    with searching(journal) as search:
        pass
    journal.close()
    with pytest.raises(sqlite3.OperationalError, match="interrupted"):
        search.result(10)
    assert sorted(tmp_path.iterdir()) == [path]  # the write-ahead log is folded in: nobody was left behind
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        journal.read(one)


def test_a_reader_goes_on_with_the_connection_of_the_one_before(
    pool: ReaderPool, opened: list[sqlite3.Connection]
) -> None:
    assert [pool.read(one) for _ in range(5)] == [1] * 5
    assert len(opened) == 1


def test_never_more_connections_than_allowed_and_then_the_next_reader_waits(
    pool: ReaderPool, opened: list[sqlite3.Connection]
) -> None:
    go_on, inside = threading.Event(), threading.Semaphore(0)

    def hold(db: sqlite3.Connection) -> int:
        inside.release()
        assert go_on.wait(10)
        return one(db)

    readers = [in_thread(lambda: pool.read(hold)) for _ in range(5)]
    assert inside.acquire(timeout=10)
    assert inside.acquire(timeout=10)
    assert not inside.acquire(blocking=False)
    go_on.set()
    assert [reader.result(10) for reader in readers] == [1] * 5
    assert len(opened) == 2 < READERS


def test_what_fails_leaves_no_old_view_of_the_file_to_the_next(
    pool: ReaderPool, opened: list[sqlite3.Connection]
) -> None:
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        pool.read(lambda db: db.execute("SELECT * FROM nowhere"))
    assert pool.read(one) == 1
    with pytest.raises(sqlite3.ProgrammingError):
        opened[0].execute("SELECT 1")
    assert len(opened) == 2


def test_a_connection_that_cannot_be_made_takes_nobody_s_place(path: Path) -> None:
    refused = [True]

    def connect() -> sqlite3.Connection:
        if refused[0]:
            raise sqlite3.OperationalError("unable to open database file")
        return sqlite3.connect(path, check_same_thread=False)

    pool = ReaderPool(connect, most=1)
    for _ in range(3):
        with pytest.raises(sqlite3.OperationalError, match="unable"):
            pool.read(one)
    refused[0] = False
    assert pool.read(one) == 1
    pool.close()


def test_who_waits_for_a_connection_is_told_when_the_pool_closes(path: Path) -> None:
    pool = ReaderPool(lambda: sqlite3.connect(path, check_same_thread=False), most=1)
    with searching(pool) as first:
        second = in_thread(lambda: pool.read(one))
    pool.close()
    with pytest.raises(sqlite3.OperationalError, match="interrupted"):
        first.result(10)
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        second.result(10)


def test_a_journal_that_was_moved_away_is_not_read_from_a_new_file_in_its_place(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.db")
    (tmp_path / "journal.db").rename(tmp_path / "moved.db")
    Journal(tmp_path / "journal.db").close()
    with pytest.raises(sqlite3.OperationalError, match="no longer the file"):
        journal.read(one)
    journal.close()
