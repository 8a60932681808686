"""Many who do the same at once, over real HTTP: one of them does it, and the others are told what became of it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import requests

from flower_http.server import Server
from flower_http.settings import Settings
from flower_http.tokens import add_token
from tests.http.run_world import RunWorld
from tests.http.served_world import served

CROWD = 8


@pytest.fixture
def tokens(world: RunWorld) -> list[str]:
    """One for each of the crowd, named after its place in it."""
    path = Settings(data_dir=world.home / "data", workspace_root=world.home / "work").tokens_path
    return [add_token(path, f"bot{number}", "start") for number in range(CROWD)]


@pytest.fixture
def server(world: RunWorld, tokens: list[str]) -> Iterator[Server]:
    with served(world) as server:
        yield server


def at_once(act: Callable[[int], requests.Response]) -> list[requests.Response]:
    """What each of the crowd got, by its number."""
    start = threading.Barrier(CROWD)
    got: dict[int, requests.Response] = {}

    def one(number: int) -> None:
        start.wait(10)
        got[number] = act(number)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(CROWD)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return [got[number] for number in range(CROWD)]


def post(url: str, token: str, body: Any = None, **headers: str) -> requests.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return requests.post(url, json=body, headers={"Authorization": f"Bearer {token}", **named}, timeout=20)


def test_of_many_answers_one_wins_and_the_others_are_told_whose(
    world: RunWorld, server: Server, tokens: list[str]
) -> None:
    run, here = world.begun("a", "ask")
    world.asks(run.id)
    url = f"{server.url}/runs/{run.id}/answer"
    replies = at_once(lambda number: post(url, tokens[number], {"ask_id": "q1", "text": f"by {number}"}))
    winners = [number for number, reply in enumerate(replies) if reply.status_code == 200]
    assert len(winners) == 1
    won = {"answer": f"by {winners[0]}", "answered_by": f"bot{winners[0]}", "state": "answered"}
    for number, reply in enumerate(replies):
        assert won.items() <= reply.json()["ask"].items()
        if number != winners[0]:
            assert (reply.status_code, reply.json()["type"], reply.json()["ok"]) == (409, "ask-settled", False)
    world.reaches(run.id, "succeeded")
    assert here.told == [f"answered: by {winners[0]}"]


def test_the_same_answer_from_one_token_many_times_at_once_is_right_every_time(
    world: RunWorld, server: Server, tokens: list[str]
) -> None:
    run, here = world.begun("a", "ask")
    world.asks(run.id)
    url = f"{server.url}/runs/{run.id}/answer"
    replies = at_once(lambda number: post(url, tokens[0], {"ask_id": "q1", "option": 2}))
    assert {reply.status_code for reply in replies} == {200}
    assert Counter(reply.json()["replayed"] for reply in replies) == {False: 1, True: CROWD - 1}
    world.reaches(run.id, "succeeded")
    assert here.told == ["answered: that"]


def test_an_answer_and_a_decline_at_once_have_one_outcome(world: RunWorld, server: Server, tokens: list[str]) -> None:
    run, here = world.begun("a", "ask")
    world.asks(run.id)

    def act(number: int) -> requests.Response:
        verb, more = ("answer", {"text": "this"}) if number % 2 else ("decline", {"reason": "this"})
        return post(f"{server.url}/runs/{run.id}/{verb}", tokens[number], {"ask_id": "q1", **more})

    replies = at_once(act)
    assert Counter(reply.status_code for reply in replies) == {200: 1, 409: CROWD - 1}
    (outcome,) = {(reply.json()["ask"]["state"], reply.json()["ask"]["answered_by"]) for reply in replies}
    world.reaches(run.id, "succeeded")
    assert [told.partition(":")[0] for told in here.told] == [outcome[0]]


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/runs", {"task": "wait", "flow": "gated", "workspace": "new"}, 201),
        ("/runs/RUN/inbox", {"text": "be quick"}, 202),
        ("/inbox?run=RUN", {"text": "be quick"}, 202),
        ("/runs/RUN/cancel", None, 200),
    ],
)
def test_one_key_used_by_many_at_once_acts_once(
    world: RunWorld, server: Server, tokens: list[str], path: str, body: Any, status: int
) -> None:
    run, here = world.begun("a")
    url = server.url + path.replace("RUN", run.id)

    def insistent(number: int) -> requests.Response:
        while True:
            reply = post(url, tokens[0], body, Idempotency_Key="one")
            if reply.status_code != 409:
                return reply
            assert (reply.json()["type"], reply.headers["Retry-After"]) == ("idempotency-in-progress", "1")

    replies = at_once(insistent)
    assert {(reply.status_code, reply.content) for reply in replies} == {(status, replies[0].content)}
    assert Counter(reply.headers.get("Idempotent-Replayed") for reply in replies) == {None: 1, "true": CROWD - 1}
    assert len(world.manager.inbox(run.id)) == ("inbox" in path)
    assert len(world.manager.list(state=None, labels={}, limit=9, cursor=None)[0]) == 1 + (path == "/runs")
    here.go.set()


def test_of_many_starts_in_one_workspace_one_runs_and_the_others_are_told_which(
    world: RunWorld, server: Server, tokens: list[str]
) -> None:
    body = {"task": "wait", "flow": "gated", "workspace": "a"}
    replies = at_once(lambda number: post(f"{server.url}/runs", tokens[number], body))
    (started,) = [reply.json()["id"] for reply in replies if reply.status_code == 201]
    refusals = [reply.json() for reply in replies if reply.status_code == 409]
    assert [(each["type"], each["run"]) for each in refusals] == [("workspace-busy", started)] * (CROWD - 1)


def test_a_resumption_asked_for_by_many_happens_once(world: RunWorld, server: Server, tokens: list[str]) -> None:
    run, here = world.begun("a")
    world.crash()
    here.begun.clear()
    world.boot(resume=False)
    with served(world) as again:
        replies = at_once(lambda number: post(f"{again.url}/runs/{run.id}/resume", tokens[number]))
    assert Counter(reply.status_code for reply in replies) == {200: 1, 409: CROWD - 1}
    assert {reply.json()["type"] for reply in replies if reply.status_code == 409} == {"not-interrupted"}
    assert here.begun.wait(10)
    here.go.set()
    world.reaches(run.id, "succeeded")
    assert world.told(run.id).count("run.resumed") == 1
