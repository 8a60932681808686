"""Journals of older and newer versions. ``journal_of_format_1.sql`` was written by a server of that time."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from flower_http.journal import Journal
from tests.http.event_tools import new_run, open_book, page, say

OLD = Path(__file__).with_name("journal_of_format_1.sql").read_text(encoding="utf-8")
RUN, ENDED = "20260131t094512123-5f0c", "20260130t094512123-0000"


def write_old(journal_path: Path, *more: str) -> None:
    """An old journal, changed by the statements in ``more``."""
    with sqlite3.connect(journal_path) as connection:
        connection.executescript(OLD)
        connection.executescript("PRAGMA user_version = 1;" + ";".join(more))
    connection.close()


def content(journal_path: Path) -> tuple[int, list[str]]:
    connection = sqlite3.connect(journal_path)
    found = connection.execute("PRAGMA user_version").fetchone()[0], list(connection.iterdump())
    connection.close()
    return found


def test_an_old_journal_goes_on_with_all_that_was_in_it(journal_path: Path) -> None:
    write_old(journal_path)
    with open_book(journal_path) as book:
        log = book.get(RUN)
        assert log is not None
        assert (log.view.state, log.view.asks_waiting, log.view.step.name, log.last_seq) == ("waiting", 1, "Bake", 12)
        assert [event["seq"] for event in page(log)["events"]] == list(range(1, 13))
        asks = [(ask.id, ask.state, ask.answer, ask.options) for ask in log.conversation.asks()]
        assert asks == [
            ("q1", "timeout", "", ("a", "b")),
            ("q2", "answered", "b", ("a", "b")),
            ("q3", "asked", "", ("a", "b")),
        ]
        assert [(item.id, item.state) for item in log.conversation.mail()] == [("m1", "delivered"), ("m2", "queued")]
        assert log.conversation.answers()["q2"]["answered_by"] == "ada"
        log.append("ask", "Question 3?", payload={"id": "q3", "state": "answered", "answer": "a"}).result(5)
        log.append("ask", "Question 4?", payload={"id": "q4", "state": "asked"}).result(5)
        assert [ask.id for ask in log.conversation.asks()] == ["q1", "q2", "q3", "q4"]
        assert [ask.id for ask in log.view.asks] == ["q4"]
    with open_book(journal_path) as book:  # and the new form is read by who wrote it
        again = book.get(RUN)
        assert again is not None
        assert (again.epoch, again.last_seq, again.view.state) == (log.epoch, 14, "waiting")


def test_an_old_journal_knows_when_its_runs_ended(journal_path: Path) -> None:
    write_old(journal_path)
    with open_book(journal_path) as book:
        ended = book.get(ENDED)
        assert ended is not None
        assert (ended.view.result, [ask.state for ask in ended.conversation.asks()]) == ("baked", ["declined"])
        assert list(book.ended_before(4_000_000_000.0)) == [ENDED]
        assert list(book.ended_before(1_700_000_000.0)) == []


def test_a_journal_is_brought_up_to_date_as_a_whole_or_not_at_all(journal_path: Path) -> None:
    write_old(journal_path, "UPDATE runs SET view = '{}' WHERE number = 2")
    before = content(journal_path)
    with pytest.raises(sqlite3.DatabaseError, match=ENDED):
        Journal(journal_path)
    assert content(journal_path) == before
    assert before[0] == 1


def test_a_journal_whose_making_was_cut_short_is_made_ready(journal_path: Path) -> None:
    """A server of the first format could die between its tables and the note of its version."""
    write_old(journal_path, "DELETE FROM events", "DELETE FROM answers", "DELETE FROM runs", "PRAGMA user_version = 0")
    with open_book(journal_path) as book:
        say(new_run(book), "hello")
    assert content(journal_path)[0] > 1


def test_a_journal_of_a_newer_server_is_refused_and_left_alone(journal_path: Path) -> None:
    Journal(journal_path).close()
    connection = sqlite3.connect(journal_path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    before = content(journal_path)
    with pytest.raises(sqlite3.OperationalError, match=r"newer version of this server.*99.*update the server"):
        Journal(journal_path)
    assert content(journal_path) == before
    assert [entry.name for entry in journal_path.parent.iterdir() if "corrupt" in entry.name] == []
