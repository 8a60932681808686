"""What is dropped, when, and what readers are told about it."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

from flower_http import records, retention
from flower_http.errors import Problem
from flower_http.event_log import EventLog
from flower_http.journal import JournalUnavailable
from flower_http.retention import Retention
from tests.http.event_tools import Wire, disk_refusing, finish, new_run, open_book, page, say, serving, strictly
from tests.http.run_world import RunWorld, refused
from tests.support import eventually


def kept(journal_path: Path) -> list[int]:
    """The numbers of the events in the journal."""
    connection = sqlite3.connect(journal_path)
    found = [seq for (seq,) in connection.execute("SELECT seq FROM events ORDER BY run, seq")]
    connection.close()
    return found


def talk(log: EventLog, count: int) -> None:
    for future in [log.append("text", f"{number}") for number in range(count)]:
        future.result(20)


# ---- events of a run that writes


def test_by_default_nothing_is_dropped(journal_path: Path) -> None:
    with open_book(journal_path, ring=5) as book:
        talk(new_run(book), 300)
    assert kept(journal_path) == list(range(1, 302))


def test_a_run_keeps_its_newest_events_and_readers_behind_are_told_the_exact_loss(journal_path: Path) -> None:
    with open_book(journal_path, ring=5, keep_events=40) as book:
        log = new_run(book)
        for number in range(100):
            say(log, f"{number}")
        assert 40 <= log.last_seq - log.first_seq + 1 <= 45
        with pytest.raises(Problem) as caught:
            log.page(10)
        told = strictly(caught.value.body())
        first = log.first_seq
        assert (told["status"], told["type"], told["resume_after"]) == (410, "cursor-expired", first - 1)
        assert told["lost"] == {"from": 11, "to": first - 1, "count": first - 11}
        assert (told["epoch"], told["first_seq"], told["last_seq"]) == (log.epoch, first, 101)
        skipped = page(log, 10, 1000, skip_gap=True)
        assert skipped["gap"] == {"from": 11, "to": first - 1}
        assert [event["seq"] for event in skipped["events"]] == list(range(first, 102))
        eventually(lambda: kept(journal_path) == list(range(first, 102)))


def test_what_the_run_is_does_not_go_with_its_events(journal_path: Path) -> None:
    with open_book(journal_path, ring=5, keep_events=1) as book:
        log = new_run(book, labels={"team": "bread"}, params={"flow": "starter"})
        log.append("system", "run.started")
        log.append("step", "Bake", payload={"index": 2, "total": 3})
        log.append("ask", "Rye?", payload={"id": "q1", "state": "asked"})
        log.append("ask", "Wheat?", payload={"id": "q2", "state": "asked"})
        log.append("ask", "Wheat?", payload={"id": "q2", "state": "answered", "answer": "no"})
        talk(log, 200)
        view = log.view
        eventually(lambda: log.first_seq >= log.last_seq - 1)
    with open_book(journal_path) as book:
        again = book.get("r1")
        assert again is not None
        assert again.view == view
        assert (view.task, view.labels, view.step.index, view.params) == (
            "count",
            {"team": "bread"},
            2,
            {"flow": "starter"},
        )
        assert [(ask.id, ask.state) for ask in again.conversation.asks()] == [("q1", "asked"), ("q2", "answered")]
        assert page(again, again.last_seq - 1)["events"][0]["text"] == "199"


def follow(fetch: Any) -> tuple[int, int]:
    """Read to the end with ``fetch(after)``; how many events were read and how many were said to be lost."""
    after = read = lost = 0
    while True:
        got = fetch(after)
        base = after
        if got["gap"]:
            assert got["gap"]["from"] == after + 1
            base = got["gap"]["to"]
            lost += base - after
        assert [event["seq"] for event in got["events"]] == list(range(base + 1, base + len(got["events"]) + 1))
        assert got["next_after"] == base + len(got["events"])
        assert got["pending"] == got["last_seq"] - got["next_after"] >= 0
        read += len(got["events"])
        after = got["next_after"]
        if got["final"]:
            assert got["events"][-1]["text"] == "run.finished"
            return read, lost


def test_readers_of_a_run_that_talks_a_lot_can_count_while_its_events_are_dropped(journal_path: Path) -> None:
    with open_book(journal_path, ring=3, keep_events=30, linger_s=0) as book:
        log = new_run(book)
        talk(log, 100)  # most of which is gone before the first reader comes
        found: list[tuple[int, int]] = []
        readers = [
            threading.Thread(
                target=lambda limit=limit: found.append(follow(lambda after: page(log, after, limit, skip_gap=True)))
            )
            for limit in (1, 7, 1000)
        ]
        for reader in readers:
            reader.start()
        for _ in range(50):
            talk(log, 20)
        finish(log)
        for reader in readers:
            reader.join(30)
        assert [read + lost for read, lost in found] == [1102] * 3
        assert min(lost for _, lost in found) > 0


def test_parked_readers_of_a_run_whose_events_are_dropped_miss_nothing_unsaid(journal_path: Path) -> None:
    with open_book(journal_path, ring=3, keep_events=2) as book, serving(book, threads=2) as server:
        log = new_run(book)
        found: list[tuple[int, int]] = []

        def read() -> None:
            with Wire(server.server) as wire:
                found.append(follow(lambda after: wire.get(f"/runs/r1/events?after={after}&wait=20&on_gap=skip").json))

        readers = [threading.Thread(target=read) for _ in range(5)]
        for reader in readers:
            reader.start()
        for number in range(50):
            if number % 10 == 0:
                eventually(lambda: server.parked == 5)
            talk(log, 6)
        finish(log)
        for reader in readers:
            reader.join(30)
        assert [read_ + lost for read_, lost in found] == [302] * 5


# ---- dropping much


def test_others_write_while_much_is_dropped(journal_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "SLICE", 100)
    with open_book(journal_path) as book:
        log, other = new_run(book), new_run(book, "r2")
        talk(log, 1000)
        order: list[str] = []
        dropped = log.drop_before(1000)
        dropped.add_done_callback(lambda _: order.append("dropped"))
        other.append("text", "in between").add_done_callback(lambda _: order.append("said"))
        dropped.result(10)
        assert order == ["said", "dropped"]
        assert log.first_seq == 1000
    assert kept(journal_path)[:2] == [1000, 1001]


def test_a_drop_that_a_restart_cut_short_is_made_good(journal_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "SLICE", 10)
    with open_book(journal_path) as book:
        log = new_run(book)
        talk(log, 1000)
        log.drop_before(1000)
    first = kept(journal_path)[0]
    assert 10 < first < 1000
    with open_book(journal_path, keep_events=100) as book:
        again = book.get("r1")
        assert again is not None
        assert again.first_seq == first
        assert page(again, first - 1, 1)["events"][0]["seq"] == first
        say(again, "more")
        eventually(lambda: kept(journal_path) == list(range(again.last_seq - 99, again.last_seq + 1)))


def test_a_run_that_could_not_be_deleted_can_be_deleted_again(journal_path: Path) -> None:
    with open_book(journal_path) as book:
        log = new_run(book)
        talk(log, 10)
        finish(log)
        with disk_refusing(journal_path), pytest.raises(JournalUnavailable):
            book.delete("r1", timeout=0.2)
        assert book.delete("r1")
        assert book.get("r1") is None
        with pytest.raises(Problem) as caught:  # also of what is still in memory
            log.page(log.last_seq - 1)
        assert caught.value.status == 404
    assert kept(journal_path) == []


# ---- runs that ended long ago


def test_runs_that_ended_long_ago_are_deleted_and_others_stay(world: RunWorld) -> None:
    ended = [world.begun(name)[0].id for name in ("a", "b")]
    for run_id in ended:
        world.manager.cancel(run_id)
    going, _ = world.begun("c")
    never = Retention(world.book, world.manager.delete, 1, look_every_s=0.01)
    never.start()
    now = Retention(world.book, world.manager.delete, -0.001, look_every_s=0.01)
    assert [view.id for view in world.manager.list(state=None, labels={}, limit=9, cursor=None)[0]] == [
        going.id,
        *reversed(ended),
    ]
    now.start()
    eventually(lambda: all(world.book.get(run_id) is None for run_id in ended), 10)
    for each in (never, now):
        each.stop(5)
    assert world.manager.get(going.id).state == "running"


@pytest.mark.parametrize("error", [Problem(503, "not-ready", "its directory is in use"), ValueError("damaged")])
def test_what_cannot_be_deleted_does_not_keep_the_rest(
    journal_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(retention, "AT_ONCE", 1)
    with open_book(journal_path) as book:
        for number in range(4):
            finish(new_run(book, f"r{number}"))
        refused_by_now: list[str] = []

        def delete(run_id: str) -> None:
            if run_id in ("r0", "r1") and refused_by_now.count(run_id) < 2:
                refused_by_now.append(run_id)
                raise error
            book.delete(run_id)

        once = Retention(book, delete, -0.001)
        once.start()
        eventually(lambda: [view.id for view in book.list()[0]] == ["r1", "r0"])
        once.stop(5)
        again = Retention(book, delete, -0.001, look_every_s=0.01)
        again.start()
        eventually(lambda: book.list()[0] == [])
        again.stop(5)
        assert sorted(refused_by_now) == ["r0", "r0", "r1", "r1"]


def test_a_disk_that_refuses_is_not_asked_to_let_go_of_every_run(journal_path: Path) -> None:
    with open_book(journal_path) as book:
        for number in range(3):
            finish(new_run(book, f"r{number}"))
        tried: list[str] = []
        failed: list[str] = []

        def delete(run_id: str) -> None:
            tried.append(run_id)
            try:
                book.delete(run_id, timeout=3)
            except JournalUnavailable:
                failed.append(run_id)
                raise

        with disk_refusing(journal_path):
            refused_all = Retention(book, delete, -0.001)
            refused_all.start()
            eventually(lambda: failed, 20)
            refused_all.stop(10)
        assert tried == ["r0"]


def test_a_run_that_the_journal_does_not_let_go_is_said_to_be_there_still(world: RunWorld) -> None:
    run_id = world.begun("a")[0].id
    world.manager.cancel(run_id)
    world.journal.close()
    problem = refused(lambda: world.manager.delete(run_id))
    assert (problem.status, problem.slug) == (503, "journal-unavailable")
    world.crash()
    world.boot()
    world.manager.delete(run_id)
    assert refused(lambda: world.manager.get(run_id)).status == 404
