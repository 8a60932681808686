from __future__ import annotations

import gc
import weakref
from pathlib import Path

import pytest

from flower_http.errors import Problem
from flower_http.event_log import LogClosed
from flower_http.journal import JournalUnavailable
from flower_http.log_book import LogBook
from tests.http.event_tools import disk_refusing, finish, new_run, open_book, page, say


def test_a_run_exists_once_create_returns(book: LogBook, journal_path: Path) -> None:
    log = new_run(book)
    assert book.get("r1") is log
    assert (log.last_seq, log.view.state, log.view.task) == (1, "queued", "count")
    with open_book(journal_path) as other:
        kept = other.get("r1")
        assert kept is not None
        assert kept.view == log.view


def test_an_id_is_given_once(book: LogBook) -> None:
    new_run(book)
    with pytest.raises(ValueError, match="r1"):
        new_run(book)


def test_a_run_that_could_not_be_kept_does_not_exist_later_either(book: LogBook, journal_path: Path) -> None:
    with disk_refusing(journal_path), pytest.raises(JournalUnavailable):
        book.create({"id": "r1"}, timeout=0.3)
    say(new_run(book, "r2"), "the disk is well again")
    assert book.get("r1") is None


def test_a_long_task_is_cut_in_its_event_but_not_in_the_run(journal_path: Path) -> None:
    task = "words " * 100_000
    with open_book(journal_path) as book:
        log = new_run(book, task=task)
        assert page(log)["events"][0]["payload"]["truncated"] is True
        say(log, *["x"] * 100)
    with open_book(journal_path) as book:
        again = book.get("r1")
        assert again is not None
        assert again.view.task == task


def test_after_a_restart_numbers_go_on_in_the_same_epoch(journal_path: Path) -> None:
    with open_book(journal_path) as book:
        log = new_run(book)
        log.append("system", "run.started")
        say(log, *"abc")
        epoch, view = log.epoch, log.view
    with open_book(journal_path) as book:
        again = book.get("r1")
        assert again is not None
        assert (again.epoch, again.view) == (epoch, view)
        assert again.append("text", "d").result(5) == 6
        assert [event["text"] for event in page(again, 2)["events"]] == ["a", "b", "c", "d"]


@pytest.mark.parametrize("events", [1, 63, 64, 65, 200])
def test_the_view_after_a_restart_is_the_view_before_it(journal_path: Path, events: int) -> None:
    with open_book(journal_path) as book:
        log = new_run(book)
        for number in range(events):
            log.append("text", "x", payload={"context": number})
            log.append("result", "success", payload={"session_id": "s", "cost_usd": number / 10, "num_turns": number})
        assert log.wait_flushed(10)
        view = log.view
    with open_book(journal_path) as book:
        again = book.get("r1")
        assert again is not None
        assert again.view == view
        assert book.list()[0] == [view]


def test_a_lost_journal_means_a_new_epoch(journal_path: Path) -> None:
    with open_book(journal_path) as book:
        epoch = new_run(book).epoch
    for part in journal_path.parent.iterdir():
        part.unlink()
    with open_book(journal_path) as book:
        assert book.get("r1") is None
        assert new_run(book).epoch != epoch


def test_epochs_of_runs_differ(book: LogBook) -> None:
    assert new_run(book, "r1").epoch != new_run(book, "r2").epoch


def test_runs_are_listed_newest_first_in_pages(book: LogBook) -> None:
    for number in range(7):
        new_run(book, f"r{number}")
    seen: list[str] = []
    cursor: str | None = None
    pages = 0
    while True:
        views, cursor = book.list(limit=3, cursor=cursor)
        seen += [view.id for view in views]
        pages += 1
        if cursor is None:
            break
    assert (seen, pages) == (["r6", "r5", "r4", "r3", "r2", "r1", "r0"], 3)


def test_runs_are_found_by_state_and_labels(journal_path: Path) -> None:
    with open_book(journal_path) as book:
        for number, labels in enumerate(({"a": "1"}, {"a": "1", "b": "x'\" y"}, {"b": "2"}, {})):
            new_run(book, f"r{number}", labels=labels)
        finish(book.get("r0") or new_run(book))
        log = book.get("r1")
        assert log is not None
        log.append("system", "run.started")
        log.append("ask", "?", payload={"id": "q1", "state": "asked"}).result(5)
    with open_book(journal_path) as book:

        def ids(state: str | None = None, **labels: str) -> list[str]:
            return [view.id for view in book.list(state, labels)[0]]

        assert ids() == ["r3", "r2", "r1", "r0"]
        assert ids("succeeded") == ["r0"]
        assert ids("waiting") == ["r1"]
        assert ids("running") == []
        assert ids(a="1") == ["r1", "r0"]
        assert ids(a="1", b="x'\" y") == ["r1"]
        assert ids("queued", b="2") == ["r2"]
        assert ids(c="1") == []
        with pytest.raises(ValueError, match="nonsense"):
            book.list("nonsense")


def test_unfinished_runs_are_known_after_a_restart(journal_path: Path) -> None:
    with open_book(journal_path) as book:
        for number in range(4):
            new_run(book, f"r{number}")
        for run_id, end in (("r0", "run.finished"), ("r1", "run.interrupted"), ("r2", "run.started")):
            log = book.get(run_id)
            assert log is not None
            log.append("system", end, payload={"state": "succeeded"}).result(5)
    with open_book(journal_path) as book:
        assert [(view.id, view.state) for view in book.unfinished()] == [
            ("r1", "interrupted"),
            ("r2", "running"),
            ("r3", "queued"),
        ]


def test_ended_runs_leave_memory_and_can_still_be_read(book: LogBook) -> None:
    first = new_run(book, "first")
    finish(first)
    left = weakref.ref(first)
    del first
    for number in range(20):
        finish(new_run(book, f"r{number:02}"))
    gc.collect()
    assert left() is None
    again = book.get("first")
    assert again is not None
    assert [event["text"] for event in page(again)["events"]] == ["run.created", "run.finished"]
    with pytest.raises(LogClosed):
        again.append("text", "too late")


def test_unfinished_runs_stay_in_memory(book: LogBook) -> None:
    new_run(book, "live")
    for number in range(20):
        finish(new_run(book, f"r{number:02}"))
    gc.collect()
    assert book.get("live") is book.get("live")


def test_a_deleted_run_is_gone_with_its_events_and_answers(book: LogBook, journal_path: Path) -> None:
    log = new_run(book)
    log.conversation.settle_answer({"id": "q1"})
    with pytest.raises(ValueError, match="not ended"):
        book.delete("r1")
    finish(log)
    assert book.delete("r1")
    assert not book.delete("r1")
    assert book.get("r1") is None
    assert book.list() == ([], None)
    with open_book(journal_path) as other:
        assert other.get("r1") is None
    assert new_run(book).conversation.answers() == {}


def test_a_reader_of_a_run_deleted_under_it_is_told(journal_path: Path) -> None:
    with open_book(journal_path, ring=1) as book:
        log = new_run(book)
        say(log, *"abc")
        finish(log)
        book.delete("r1")
        with pytest.raises(Problem) as caught:
            log.page(0)
        assert (caught.value.status, caught.value.slug) == (404, "unknown-run")
