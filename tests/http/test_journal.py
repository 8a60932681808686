from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from flower_http.journal import Journal, JournalUnavailable
from tests.http.event_tools import disk_refusing
from tests.support import eventually


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "journal.db"


@pytest.fixture
def journal(path: Path) -> Iterator[Journal]:
    opened = Journal(path)
    opened.execute(lambda db: db.execute("CREATE TABLE t (n INTEGER UNIQUE)").rowcount, 5)
    yield opened
    opened.close()


def put(journal: Journal, number: int) -> Future[int]:
    return journal.submit(lambda db: db.execute("INSERT INTO t VALUES (?)", (number,)).rowcount)


def kept(path: Path) -> list[int]:
    """What another program finds in the file, in the order it was written."""
    other = sqlite3.connect(path)
    try:
        return [number for (number,) in other.execute("SELECT n FROM t ORDER BY rowid")]
    finally:
        other.close()


def test_operations_are_kept_in_the_order_they_came(journal: Journal, path: Path) -> None:
    futures = [put(journal, number) for number in (3, 1, 2)]
    assert [future.result(5) for future in futures] == [1, 1, 1]
    assert kept(path) == [3, 1, 2]


def test_what_comes_together_is_committed_together(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.db")
    journal.execute(lambda db: db.execute("CREATE TABLE t (n INTEGER)").rowcount, 5)
    seen: list[int] = []
    writing, go_on = threading.Event(), threading.Event()

    def long_one(db: sqlite3.Connection) -> bool:
        writing.set()
        return go_on.wait(30)

    def count(db: sqlite3.Connection) -> int:
        return int(db.execute("SELECT count(*) FROM t").fetchone()[0])

    before = journal.submit(long_one)
    assert writing.wait(30)  # so what is handed in now comes together, however long that takes
    futures = [
        journal.submit(
            lambda db, n=number: db.execute("INSERT INTO t VALUES (?)", (n,)).rowcount,  # type: ignore[misc]
            committed=lambda _: seen.append(journal.read(count)),
        )
        for number in range(50)
    ]
    go_on.set()
    assert before.result(30)
    futures[-1].result(30)
    journal.close()
    assert seen == [50] * 50


def test_an_operation_is_done_only_once_it_is_kept(journal: Journal, path: Path) -> None:
    found: list[list[int]] = []
    journal.submit(
        lambda db: db.execute("INSERT INTO t VALUES (7)").rowcount, committed=lambda _: found.append(kept(path))
    ).result(5)
    assert found == [[7]]


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        ("INSERT INTO t VALUES (1)", sqlite3.IntegrityError),
        ("INSERT INTO nowhere VALUES (1)", sqlite3.OperationalError),
        ("not SQL at all", sqlite3.OperationalError),
    ],
)
def test_an_operation_that_is_wrong_fails_alone(journal: Journal, path: Path, bad: str, error: type[Exception]) -> None:
    told: list[BaseException] = []
    first = put(journal, 1)
    wrong = journal.submit(lambda db: db.execute(bad), failed=told.append)
    last = put(journal, 2)
    with pytest.raises(error):
        wrong.result(5)
    assert (first.result(5), last.result(5)) == (1, 1)
    assert kept(path) == [1, 2]
    assert [type(item) for item in told] == [error]
    assert journal.healthy


def test_an_operation_with_a_bug_fails_alone_and_leaves_nothing_behind(journal: Journal, path: Path) -> None:
    def broken(db: sqlite3.Connection) -> None:
        db.execute("INSERT INTO t VALUES (5)")
        raise KeyError("bug")

    with pytest.raises(KeyError):
        journal.submit(broken).result(5)
    put(journal, 6).result(5)
    assert kept(path) == [6]


def test_what_a_failing_disk_does_not_take_is_tried_again_until_it_does(journal: Journal, path: Path) -> None:
    before = time.monotonic()
    with disk_refusing(path):
        futures = [put(journal, number) for number in range(20)]
        since = eventually(lambda: journal.failing_since) or 0.0
        assert before <= since <= time.monotonic()
        eventually(lambda: not journal.healthy)
        assert not any(future.done() for future in futures)
        assert journal.failing_since == since
    assert [future.result(10) for future in futures] == [1] * 20
    assert kept(path) == list(range(20))
    eventually(lambda: journal.healthy and journal.failing_since is None)


def test_a_disk_that_is_well_again_is_noticed_with_nothing_left_to_write(journal: Journal, path: Path) -> None:
    with disk_refusing(path):
        with pytest.raises(JournalUnavailable):
            journal.execute(lambda db: db.execute("INSERT INTO t VALUES (1)"), 0.2)
        eventually(lambda: not journal.healthy)
    eventually(lambda: journal.healthy, 10)
    assert kept(path) == []


def test_execute_gives_the_result_once_it_is_kept(journal: Journal, path: Path) -> None:
    assert journal.execute(lambda db: db.execute("INSERT INTO t VALUES (9)").rowcount, 5) == 1
    assert kept(path) == [9]


def test_execute_that_gives_up_is_certain_never_to_happen(journal: Journal, path: Path) -> None:
    with disk_refusing(path):
        with pytest.raises(JournalUnavailable):
            journal.execute(lambda db: db.execute("INSERT INTO t VALUES (1)").rowcount, 0.3)
        later = put(journal, 2)
    later.result(10)
    assert kept(path) == [2]


def test_nobody_waits_for_a_disk_that_has_refused_for_long(
    journal: Journal, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flower_http.journal.GRACE_S", 0.0)
    with disk_refusing(path):
        put(journal, 1)
        eventually(lambda: not journal.healthy)
        began = time.monotonic()
        with pytest.raises(JournalUnavailable):
            journal.execute(lambda db: db.execute("INSERT INTO t VALUES (2)").rowcount, 60)
        assert time.monotonic() - began < 30
    eventually(lambda: journal.healthy, 10)
    journal.execute(lambda db: db.execute("INSERT INTO t VALUES (3)").rowcount, 10)
    assert kept(path) == [1, 3]


def test_execute_that_races_its_timeout_is_either_kept_or_refused_never_both(journal: Journal, path: Path) -> None:
    said: list[tuple[int, bool]] = []

    def one(number: int) -> None:
        try:
            journal.execute(lambda db: db.execute("INSERT INTO t VALUES (?)", (number,)).rowcount, 0.002)
            said.append((number, True))
        except JournalUnavailable:
            said.append((number, False))

    threads = [threading.Thread(target=one, args=(number,)) for number in range(200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    put(journal, 1000).result(5)
    assert len(said) == 200
    assert sorted(number for number, ok in said if ok) == sorted(set(kept(path)) - {1000})


def test_execute_raises_the_operations_own_error(journal: Journal) -> None:
    put(journal, 1).result(5)
    with pytest.raises(sqlite3.IntegrityError):
        journal.execute(lambda db: db.execute("INSERT INTO t VALUES (1)"), 5)


def test_a_future_cancelled_by_its_owner_disturbs_nobody(journal: Journal) -> None:
    first = put(journal, 1)
    first.cancel()
    assert put(journal, 2).result(5) == 1
    assert journal.healthy


def test_what_follows_a_commit_may_fail_without_harm(journal: Journal) -> None:
    def boom(_: int) -> None:
        raise RuntimeError("boom")

    assert journal.submit(lambda db: 1, committed=boom).result(5) == 1
    assert put(journal, 2).result(5) == 1


def test_the_buffer_for_a_failing_disk_is_bounded(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.db", buffer_bytes=1000)
    journal.reserve(900)
    with pytest.raises(JournalUnavailable):
        journal.reserve(200)
    journal.reserve(200, always=True)
    journal.release(1100)
    journal.reserve(1000)
    journal.close()


def test_closing_writes_what_is_queued_and_refuses_what_comes_later(path: Path) -> None:
    journal = Journal(path)
    journal.execute(lambda db: db.execute("CREATE TABLE t (n INTEGER)").rowcount, 5)
    futures = [put(journal, number) for number in range(5)]
    journal.close()
    assert all(future.done() for future in futures)
    with pytest.raises(JournalUnavailable):
        put(journal, 6)
    journal.close()
    assert kept(path) == list(range(5))


def test_closing_while_the_disk_refuses_fails_what_is_queued(journal: Journal, path: Path) -> None:
    with disk_refusing(path):
        future = put(journal, 1)
        eventually(lambda: journal.failing_since)
        journal.close(3)
        with pytest.raises(JournalUnavailable):
            future.result(0)
    assert kept(path) == []
    assert not journal.healthy


@pytest.mark.parametrize("how", ["deleted", "replaced"])
def test_nothing_is_called_kept_once_the_file_is_gone(journal: Journal, path: Path, how: str) -> None:
    put(journal, 1).result(5)
    path.unlink()
    if how == "replaced":
        path.write_bytes(b"")
    future = put(journal, 2)
    eventually(lambda: journal.failing_since)
    assert not future.done()
    assert (path.exists(), how) in {(False, "deleted"), (True, "replaced")}


def test_a_file_that_is_no_database_is_set_aside_not_deleted(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(b"these are not the bytes you are looking for\n" * 100)
    journal = Journal(path)
    assert journal.execute(lambda db: db.execute("SELECT count(*) FROM runs").fetchone(), 5) == (0,)
    journal.close()
    assert journal.file.set_aside is not None
    assert journal.file.set_aside.read_bytes().startswith(b"these are not")


def test_a_journal_that_cannot_be_made_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        Journal(tmp_path / "file" / "journal.db")
