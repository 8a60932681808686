"""Many questions at once, answered by many people at once, with the server killed in between."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.client import HTTPException
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from tests.e2e.serving import PATIENCE_S, FlowerServer, of_kind
from tests.support import eventually

FLOW = f"asking={Path(__file__).with_name('asking_flow.py')}:make"
ASKS, PEOPLE, KILLS = 100, 8, 3
RETRY_S = 0.05


class Question(NamedTuple):
    run: str
    id: str
    asker: int


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FlowerServer]:
    with FlowerServer(tmp_path / "data", "--rehearse", "--flow", FLOW, "--max-runs", "8") as running:
        yield running


def ask(server: FlowerServer, runs: int, *, linger_s: float = 0.0) -> list[Question]:
    """Start ``runs`` that put all the questions between them; those questions, once all of them wait."""
    task = json.dumps({"asks": ASKS // runs, "linger_s": linger_s})
    started = [server.start_run(task, flow="asking")["id"] for _ in range(runs)]

    def waiting() -> list[Question]:
        found = [
            Question(run, one["id"], int(one["question"].strip("Question ?")))
            for run in started
            for one in server.get(f"/runs/{run}/asks")["asks"]
        ]
        return found if len(found) == ASKS else []

    return eventually(waiting, PATIENCE_S, 0.05)


def told(server: FlowerServer, questions: list[Question]) -> dict[Question, set[str]]:
    """What each asker was told, over all the lives of its run, once every run has ended."""
    found: dict[Question, set[str]] = {}
    for run in {question.run for question in questions}:
        assert server.wait_for(run, "succeeded", "failed")["state"] == "succeeded"
        words = defaultdict(set)
        for event in of_kind(server.events(run), "text"):
            words[event["payload"]["asker"]].add(event["text"])
        found |= {question: words[question.asker] for question in questions if question.run == run}
    return found


def shown(server: FlowerServer, questions: list[Question]) -> dict[Question, tuple[str, str]]:
    """State and answer of each question as the server tells them."""
    runs = {question.run for question in questions}
    asks = {(run, one["id"]): one for run in runs for one in server.get(f"/runs/{run}/asks?state=all")["asks"]}
    return {
        question: (asks[question.run, question.id]["state"], asks[question.run, question.id]["answer"])
        for question in questions
    }


@pytest.mark.parametrize("runs", [1, 4])
def test_of_eight_answers_to_each_of_a_hundred_questions_one_wins_and_reaches_its_asker(
    server: FlowerServer, runs: int
) -> None:
    questions = ask(server, runs)
    begin = threading.Barrier(PEOPLE)

    def answer_all(person: int) -> dict[Question, tuple[int, Any]]:
        mine = Random(person).sample(questions, ASKS)  # noqa: S311 - an order, no secret
        begin.wait(PATIENCE_S)
        return {
            question: server.call("POST", f"/runs/{question.run}/answer", {"ask_id": question.id, "text": text})
            for question in mine
            if (text := f"{person} to {question.asker} of {question.run}")
        }

    with ThreadPoolExecutor(PEOPLE) as people:
        replies = list(people.map(answer_all, range(PEOPLE)))
    winners: dict[Question, str] = {}
    for question in questions:
        of_all = [reply[question] for reply in replies]
        (won,) = [body["ask"]["answer"] for status, body in of_all if status == 200]
        lost = [body for status, body in of_all if status == 409]
        assert len(lost) == PEOPLE - 1
        assert {(body["type"], body["ask"]["answer"]) for body in lost} == {("ask-settled", won)}
        winners[question] = won
    assert told(server, questions) == {question: {text} for question, text in winners.items()}
    assert shown(server, questions) == {question: ("answered", text) for question, text in winners.items()}
    assert len({text.partition(" ")[0] for text in winners.values()}) > 1, "they were at it together"


class Person(threading.Thread):
    """Answers its questions one after the other, and repeats an answer without reply until it has one.

    Repeated is the very same answer, from some people ``with_keys`` to know it by, from others without.
    """

    def __init__(self, server: FlowerServer, questions: list[Question], *, with_keys: bool) -> None:
        super().__init__(daemon=True)
        self._server = server
        self._questions = questions
        self._with_keys = with_keys
        self.acknowledged: dict[Question, str] = {}
        #: Answers that had been kept when the server was killed, though nobody had been told.
        self.kept_unseen = 0
        self.refused: list[Any] = []

    def run(self) -> None:
        for question in self._questions:
            text = f"for {question.asker} of {question.run}"
            while question not in self.acknowledged and not self.refused:
                self._try(question, text)

    def _try(self, question: Question, text: str) -> None:
        key = {"Idempotency_Key": f"{question.run} {question.id}"} if self._with_keys else {}
        body = {"ask_id": question.id, "text": text}
        try:
            status, reply = self._server.call("POST", f"/runs/{question.run}/answer", body, **key)
        except (OSError, HTTPException):
            time.sleep(RETRY_S)  # it is down; nobody knows what became of the answer
            return
        if status == 200:
            self.acknowledged[question] = text
            self.kept_unseen += reply["replayed"]
        elif status != 503 and reply["type"] != "idempotency-in-progress":
            self.refused.append(reply)


def have_answered(people: list[Person], enough: int) -> bool:
    """Whether that many answers have been acknowledged."""
    return sum(len(person.acknowledged) for person in people) >= enough


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL on Windows")
def test_kills_between_keeping_an_answer_and_acknowledging_it_lose_and_double_nothing(server: FlowerServer) -> None:
    questions = ask(server, 2, linger_s=0.1)
    people = [Person(server, questions[number::PEOPLE], with_keys=number % 2 == 0) for number in range(PEOPLE)]
    for person in people:
        person.start()
    chance = Random(7)  # noqa: S311 - a moment, no secret
    for kill in range(KILLS):
        enough = ASKS * kill // (KILLS + 1) + chance.randint(3, 12)
        eventually(partial(have_answered, people, enough), PATIENCE_S, 0.002)
        server.kill()
        server.start_again()
    for person in people:
        person.join(PATIENCE_S)
    assert [person.refused for person in people if person.refused] == []
    acknowledged = {question: text for person in people for question, text in person.acknowledged.items()}
    assert len(acknowledged) == ASKS
    assert sum(person.kept_unseen for person in people) > 0, "no kill hit that moment"
    assert shown(server, questions) == {question: ("answered", text) for question, text in acknowledged.items()}
    assert told(server, questions) == {question: {text} for question, text in acknowledged.items()}
