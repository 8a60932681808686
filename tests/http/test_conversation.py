"""Questions and words of a long run: all of them are known, none of the settled ones is carried along."""

from __future__ import annotations

import json
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from flower_http.event_log import EventLog
from flower_http.log_book import LogBook
from tests.http.event_tools import finish, new_run, open_book, page


@pytest.fixture
def log(book: LogBook) -> EventLog:
    made = new_run(book)
    made.append("system", "run.started").result(5)
    return made


def ask(log: EventLog, number: int, state: str = "asked", **more: Any) -> None:
    log.append("ask", f"Question {number}?", payload={"id": f"q{number}", "state": state, "options": ["a"], **more})


def mail(log: EventLog, number: int, state: str) -> None:
    log.append("ask", f"word {number}", payload={"kind": "mail", "id": f"m{number}", "state": state})


def test_every_question_is_listed_in_the_order_of_its_asking(log: EventLog) -> None:
    for number in (1, 2, 3):
        ask(log, number)
    ask(log, 2, "answered", answer="a", answered_by="ada")
    ask(log, 4, "over_budget")
    ask(log, 1, "timeout")
    assert log.wait_flushed(5)
    assert [(one.id, one.state) for one in log.conversation.asks()] == [
        ("q1", "timeout"),
        ("q2", "answered"),
        ("q3", "asked"),
        ("q4", "over_budget"),
    ]
    assert [one.id for one in log.view.asks] == ["q3"]
    answered = log.conversation.ask("q2")
    assert answered is not None
    assert (answered.question, answered.options, answered.answered_by) == ("Question 2?", ("a",), "ada")
    assert log.conversation.ask("q9") is None


def test_every_word_is_listed_in_the_order_it_was_said(log: EventLog) -> None:
    for number, state in ((1, "queued"), (2, "queued"), (2, "delivered"), (3, "queued")):
        mail(log, number, state)
    assert log.wait_flushed(5)
    assert [(one.id, one.state, one.text) for one in log.conversation.mail()] == [
        ("m1", "queued", "word 1"),
        ("m2", "delivered", "word 2"),
        ("m3", "queued", "word 3"),
    ]
    assert [one.id for one in log.view.mail] == ["m1", "m3"]
    taken, waiting = log.conversation.message("m2"), log.conversation.message("m1")
    assert taken is not None
    assert waiting is not None
    assert (taken.state, waiting.state, log.conversation.message("m9")) == ("delivered", "queued", None)


def test_an_outcome_that_is_told_twice_leaves_the_question_in_its_place(log: EventLog) -> None:
    """As after a restart that came between the answer and its event."""
    ask(log, 1)
    ask(log, 2)
    ask(log, 1, "answered", answer="a")
    ask(log, 2, "answered", answer="b")
    ask(log, 1, "answered", answer="a", answered_by="ada")
    assert log.wait_flushed(5)
    found = log.conversation.asks()
    assert [(one.id, one.answer, one.answered_by) for one in found] == [("q1", "a", "ada"), ("q2", "b", "")]
    assert log.view.asks_waiting == 0


def test_questions_left_over_at_the_end_are_known_as_declined_after_a_restart(journal_path: Path) -> None:
    with open_book(journal_path) as book:
        made = new_run(book)
        ask(made, 1)
        finish(made)
    with open_book(journal_path) as book:
        again = book.get("r1")
        assert again is not None
        assert [(one.id, one.state) for one in again.conversation.asks()] == [("q1", "declined")]
        assert again.view.asks == ()


def test_a_question_settled_at_once_does_not_wait_after_a_restart(journal_path: Path) -> None:
    with open_book(journal_path, linger_s=0.05) as book:
        made = new_run(book)
        made.append("text", "these three are kept together")
        ask(made, 1)
        ask(made, 1, "answered", answer="a")
        made.append("text", "and so on").result(5)
        view = made.view
    with open_book(journal_path) as book:
        again = book.get("r1")
        assert again is not None
        assert again.view == view
        assert (view.asks, view.asks_waiting) == ((), 0)
        assert [one.answer for one in again.conversation.asks()] == ["a"]


def test_what_is_carried_along_and_written_does_not_grow_with_the_questions(log: EventLog, journal_path: Path) -> None:
    sizes = []
    for number in range(1, 601):
        ask(log, number)
        ask(log, number, "answered", answer="because " * 20)
        mail(log, number, "queued")
        mail(log, number, "delivered")
        if number in (300, 600):
            assert log.wait_flushed(20)
            with closing(sqlite3.connect(journal_path)) as reader:
                sizes.append(reader.execute("SELECT length(view) FROM runs").fetchone()[0])
    assert abs(sizes[0] - sizes[1]) < 50
    assert (log.view.asks, log.view.mail) == ((), ())
    assert len(log.conversation.asks()) == len(log.conversation.mail()) == 600


def test_questions_never_say_more_or_less_than_the_events_that_are_shown(log: EventLog) -> None:
    done = threading.Event()

    def talk() -> None:
        for number in range(1, 301):
            ask(log, number)
            ask(log, number, "answered", answer="a")
        log.wait_flushed(20)
        done.set()

    talker = threading.Thread(target=talk)
    talker.start()
    looks = 0
    while not done.is_set():
        before = json.loads(log.page(2, 1000))["last_seq"]
        asks = log.conversation.asks()
        after = log.last_seq
        told = sum(1 if one.state == "asked" else 2 for one in asks)  # so many events were about them
        assert before - 2 <= told <= after - 2
        assert [one.id for one in asks] == [f"q{number}" for number in range(1, len(asks) + 1)]
        looks += 1
    talker.join(10)
    assert looks > 3
    assert page(log, 2, 1000)["last_seq"] == 602
