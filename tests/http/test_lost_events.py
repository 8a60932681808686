"""An event that the journal refuses though the disk is well: its run ends in clear words, and no other does."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from flower_http.event_log import EventLog, LogClosed
from flower_http.journal import JournalUnavailable
from flower_http.log_book import LogBook
from tests.http.event_tools import disk_refusing, new_run, open_book, page, say
from tests.http.run_world import RunWorld
from tests.support import eventually

WHY = "an event could not be kept: not this one"


def refuse(path: Path, word: str) -> None:
    """Have SQLite itself refuse events that hold ``word``."""
    with closing(sqlite3.connect(path, isolation_level=None, timeout=30)) as other:
        other.execute(
            "CREATE TRIGGER poison BEFORE INSERT ON events"
            f" WHEN instr(CAST(NEW.body AS TEXT), '{word}') BEGIN SELECT RAISE(ABORT, 'not this one'); END"
        )


@pytest.fixture
def book(tmp_path: Path) -> Iterator[LogBook]:
    with open_book(tmp_path / "journal.db") as opened:
        refuse(tmp_path / "journal.db", "poison")
        yield opened


def broken(book: LogBook) -> EventLog:
    log = new_run(book)
    say(log, "one")
    lost = log.append("text", "poison")
    with pytest.raises(sqlite3.IntegrityError):
        lost.result(10)
    return log


def test_after_a_lost_event_none_follows_but_the_end_and_no_number_is_missing(book: LogBook) -> None:
    log = broken(book)
    with pytest.raises(LogClosed, match=WHY):
        log.append("text", "as if nothing had happened")
    log.append("system", "run.finished", payload={"state": "failed", "error": WHY}).result(10)
    shown = page(log)
    assert [event["seq"] for event in shown["events"]] == [1, 2, 3]
    assert (shown["state"], shown["final"]) == ("failed", True)
    with pytest.raises(LogClosed, match="has ended"):
        log.append("system", "run.finished", payload={"state": "failed"})


def test_who_carries_the_run_is_told_once_and_other_runs_write_on(book: LogBook) -> None:
    log, told = new_run(book, "r1"), list[str]()
    log.on_broken = told.append
    futures = [log.append("text", text) for text in ("poison", "after it")]
    for future in futures:
        with pytest.raises(sqlite3.IntegrityError):
            future.result(10)
    eventually(lambda: told == [WHY])
    say(new_run(book, "r2"), "well")


def test_a_journal_that_is_closed_before_it_could_write_ends_no_run(tmp_path: Path) -> None:
    told: list[str] = []
    with open_book(tmp_path / "journal.db") as book:
        log = new_run(book)
        log.on_broken = told.append
        with disk_refusing(tmp_path / "journal.db"):
            waiting = log.append("text", "one")
            book.journal.close(0.0)
            with pytest.raises(JournalUnavailable):
                waiting.result(30)
        with pytest.raises(JournalUnavailable):
            log.append("text", "two")
    assert told == []


def test_a_run_that_lost_an_event_is_stopped_and_fails_in_clear_words(world: RunWorld) -> None:
    view, here = world.begun("a", "ask")
    world.asks(view.id)
    refuse(world.home / "journal.db", "poison")
    world.say(view.id, "poison")
    ended = world.reaches(view.id, "failed")
    assert (ended.error, ended.asks_waiting) == (WHY, 0)
    assert here.stopped.is_set(), "its end is shown once nothing of it is at work any more"
    assert world.told(view.id)[-1] == "run.finished"
    assert world.begun("a")[0].workspace == "a", "and its place is free"


def test_an_end_that_cannot_be_kept_is_said_in_short(world: RunWorld) -> None:
    view, here = world.begun("a", "wait")
    refuse(world.home / "journal.db", '"succeeded"')
    here.go.set()
    assert world.reaches(view.id, "failed").error == WHY


def test_an_end_that_can_be_kept_in_no_way_is_tried_no_more_and_costs_nobody_else(world: RunWorld) -> None:
    view, here = world.begun("a", "wait")
    refuse(world.home / "journal.db", "run.finished")
    here.go.set()
    eventually(here.stopped.is_set)
    other, _ = world.begun("b")
    world.say(other.id, "well")
    eventually(lambda: "well" in str(world.events(other.id)))
    assert world.manager.get(view.id).state == "running", "until a restart takes it up"
