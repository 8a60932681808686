"""Questions about a run, answered on the side: when they may be asked, what is kept, and that the run shows nothing."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from flower_core import OracleAnswer
from flower_http.errors import Problem
from flower_http.oracles import OracleQuestion
from flower_http.relay import Relay
from tests.http.gated_flow import SCENES, scene
from tests.http.run_world import RunWorld, refused
from tests.http.scripted_oracle import ScriptedOracle
from tests.http.served_world import served
from tests.support import eventually


@pytest.fixture
def oracle() -> ScriptedOracle:
    return ScriptedOracle()


@pytest.fixture
def world(tmp_path: Path, oracle: ScriptedOracle) -> Iterator[RunWorld]:
    SCENES.clear()
    made = RunWorld(tmp_path, oracle=oracle)
    yield made
    oracle.go.set()
    made.shut_down()


def answered(world: RunWorld, run_id: str, question: str = "How far is it?") -> OracleQuestion:
    """The question once it has been settled."""
    asked = world.manager.ask_oracle(run_id, question)
    return settled(world, run_id, asked.id)


def settled(world: RunWorld, run_id: str, question_id: str) -> OracleQuestion:
    def look() -> OracleQuestion | None:
        found = world.manager.oracle_answer(run_id, question_id)
        return None if found.state == "thinking" else found

    found = eventually(look, 10)
    assert found is not None
    return found


def test_a_question_is_answered_and_the_run_shows_nothing_of_it(world: RunWorld, oracle: ScriptedOracle) -> None:
    run, _ = world.begun("a")
    eventually(lambda: world.manager.get(run.id).step.name, 10)
    view, events = world.manager.get(run.id), world.events(run.id)
    oracle.go.clear()
    asked = world.manager.ask_oracle(run.id, "  How far is it? ")
    assert (asked.id, asked.state, asked.question) == ("o1", "thinking", "How far is it?")
    assert world.manager.oracle_answer(run.id, "o1") == asked
    oracle.go.set()
    found = settled(world, run.id, "o1")
    assert (found.state, found.answer, found.cost_usd, found.error) == ("answered", "All is well.", 0.02, "")
    assert found.answered_at >= found.asked_at
    assert world.manager.get(run.id) == view
    assert world.events(run.id) == events
    assert world.manager.steps(run.id) == []


def test_it_is_told_of_the_run_and_given_books_apart_from_it(world: RunWorld, oracle: ScriptedOracle) -> None:
    run, _ = world.begun("a", lang="fr", model="claude-small")
    for number in range(500):
        world.say(run.id, f"word {number}")
    world.say(run.id, "the last word")
    eventually(lambda: world.events(run.id)[-1]["text"] == "the last word")
    answered(world, run.id)
    given = oracle.asked[0]
    assert given["workspace"] == world.home / "work" / "a"
    assert (given["lang"], given["model"]) == ("fr", "claude-small")
    assert [event.text for event in given["events"][-2:]] == ["word 499", "the last word"]
    assert given["run_dir"] == world.home / "data" / "oracle" / run.id
    assert not any("oracle" in str(path) for path in (world.home / "data" / "books").rglob("*"))


def test_every_run_can_be_asked_about_whatever_its_state(world: RunWorld) -> None:
    working, here = world.begun("a")
    waiting, _ = world.begun("b", "ask")
    world.asks(waiting.id)
    queued = world.start(workspace="c")
    states = {"running": working.id, "waiting": waiting.id, "queued": queued.id}
    for state, run_id in states.items():
        assert world.manager.get(run_id).state == state
        assert answered(world, run_id).state == "answered"
    here.go.set()
    world.reaches(working.id, "succeeded")
    world.manager.cancel(waiting.id)
    for run_id in (working.id, waiting.id):
        assert answered(world, run_id).id == "o2"


def test_one_question_at_a_time_for_each_run_and_so_many_for_all(world: RunWorld, oracle: ScriptedOracle) -> None:
    ended = [world.start("done", workspace).id for workspace in ("a", "b", "c")]
    for run_id in ended:
        world.reaches(run_id, "succeeded")
    oracle.go.clear()
    world.manager.ask_oracle(ended[0], "Well?")
    world.manager.ask_oracle(ended[1], "Well?")
    for run_id in (ended[0], ended[2]):  # one is being answered about the first, and two are all there may be
        problem = refused(lambda run_id=run_id: world.manager.ask_oracle(run_id, "Well?"))  # type: ignore[misc]
        assert (problem.status, problem.slug) == (429, "oracle-busy")
        assert problem.headers["Retry-After"] == "5"
    oracle.go.set()
    settled(world, ended[0], "o1")
    eventually(lambda: answered(world, ended[2]), 10)


def test_a_repeated_request_asks_once_also_over_a_restart(world: RunWorld, oracle: ScriptedOracle) -> None:
    run = world.start("done", "a")
    world.reaches(run.id, "succeeded")
    first = world.manager.ask_oracle(run.id, "Well?", key="k1")
    settled(world, run.id, first.id)
    world.crash()
    world.boot()
    again = world.manager.ask_oracle(run.id, "Well?", key="k1")
    assert (again.id, again.answer) == ("o1", "All is well.")
    assert len(oracle.asked) == 1


def test_a_question_the_server_died_over_has_failed_and_can_be_asked_again(
    world: RunWorld, oracle: ScriptedOracle
) -> None:
    run = world.start("done", "a")
    world.reaches(run.id, "succeeded")
    folder = world.home / "data" / "oracle" / run.id
    oracle.go.clear()
    asked = world.manager.ask_oracle(run.id, "Well?")
    eventually(lambda: oracle.asked)
    as_killed = (folder / "o1.json").read_bytes()
    oracle.asked[0]["config_dir"].mkdir(parents=True)
    world.crash()
    (folder / "o1.json").write_bytes(as_killed)
    oracle.go.set()
    world.boot()
    found = world.manager.oracle_answer(run.id, asked.id)
    assert (found.state, found.answer) == ("failed", "")
    assert "ask again" in found.error
    assert not oracle.asked[0]["config_dir"].exists()
    assert answered(world, run.id).id == "o2"


def test_a_server_that_stops_gives_questions_up_and_takes_no_more(world: RunWorld, oracle: ScriptedOracle) -> None:
    run, _ = world.begun("a")
    oracle.go.clear()
    world.manager.ask_oracle(run.id, "Well?")
    eventually(lambda: oracle.asked)
    world.manager.shut_down(5.0)
    assert oracle.stopped == 1
    found = world.manager.oracle_answer(run.id, "o1")
    assert (found.state, "stopped" in found.error) == ("failed", True)
    assert refused(lambda: world.manager.ask_oracle(run.id, "Well?")).slug == "not-ready"


def test_a_run_that_ends_under_a_question_does_not_take_it_along(world: RunWorld, oracle: ScriptedOracle) -> None:
    run, _ = world.begun("a")
    oracle.go.clear()
    world.manager.ask_oracle(run.id, "Well?")
    world.manager.cancel(run.id)
    assert world.manager.oracle_answer(run.id, "o1").state == "thinking"
    oracle.go.set()
    assert settled(world, run.id, "o1").answer == "All is well."


def test_deleting_a_run_gives_up_its_question_and_forgets_all_of_them(world: RunWorld, oracle: ScriptedOracle) -> None:
    run = world.start("done", "a")
    world.reaches(run.id, "succeeded")
    answered(world, run.id)
    oracle.go.clear()
    world.manager.ask_oracle(run.id, "And now?")
    eventually(lambda: len(oracle.asked) == 2)
    world.manager.delete(run.id)
    assert oracle.stopped == 1
    assert list((world.home / "data" / "oracle").iterdir()) == []
    assert refused(lambda: world.manager.oracle_answer(run.id, "o1")).slug == "unknown-run"
    assert refused(lambda: world.manager.ask_oracle(run.id, "Well?")).slug == "unknown-run"


def test_of_many_who_ask_while_it_is_deleted_nobody_leaves_anything(world: RunWorld, oracle: ScriptedOracle) -> None:
    for number in range(10):
        run = world.start("done", f"w{number}")
        world.reaches(run.id, "succeeded")
        folder = world.home / "data" / "oracle" / run.id
        folder.mkdir(parents=True)
        for past in range(2, 300):  # what takes a moment to delete
            (folder / f"o{past}.json").touch()
        slugs: list[str] = []

        def ask(run_id: str = run.id, slugs: list[str] = slugs) -> None:
            while "unknown-run" not in slugs:
                try:
                    world.manager.ask_oracle(run_id, "Well?")
                except Problem as problem:
                    slugs.append(problem.slug)

        askers = [threading.Thread(target=ask) for _ in range(3)]
        for each in askers:
            each.start()
        world.manager.delete(run.id)
        for each in askers:
            each.join(10)
        assert not any(each.is_alive() for each in askers)
    assert list((world.home / "data" / "oracle").iterdir()) == []


def test_a_run_is_not_deleted_while_a_question_about_it_cannot_be_stopped(
    world: RunWorld, oracle: ScriptedOracle
) -> None:
    run = world.start("done", "a")
    world.reaches(run.id, "succeeded")
    oracle.go.clear()
    oracle.stubborn = True
    world.manager.ask_oracle(run.id, "Well?")
    eventually(lambda: oracle.asked)
    problem = refused(lambda: world.manager.delete(run.id))
    assert (problem.status, problem.slug) == (503, "not-ready")
    oracle.go.set()
    assert settled(world, run.id, "o1").state == "answered"
    world.manager.delete(run.id)
    assert list((world.home / "data" / "oracle").iterdir()) == []


@pytest.mark.parametrize(
    ("outcome", "error"),
    [
        (OracleAnswer("I looked", 0.5, False, "the budget is used up"), "the budget is used up"),
        (RuntimeError("it broke"), "RuntimeError: it broke"),
    ],
)
def test_a_question_that_fails_says_why_and_harms_nothing(
    world: RunWorld, oracle: ScriptedOracle, outcome: OracleAnswer | Exception, error: str
) -> None:
    run, _ = world.begun("a")
    oracle.answer = outcome
    found = answered(world, run.id)
    assert (found.state, found.error) == ("failed", error)
    oracle.answer = OracleAnswer("Yes", 0.1, True, "")
    assert answered(world, run.id).answer == "Yes"
    assert world.manager.get(run.id).state == "running"


def test_a_question_that_cannot_be_kept_is_not_asked(world: RunWorld, oracle: ScriptedOracle) -> None:
    run = world.start("done", "a")
    world.reaches(run.id, "succeeded")
    in_the_way = world.home / "data" / "oracle"
    in_the_way.write_text("a file where a directory must be")
    assert refused(lambda: world.manager.ask_oracle(run.id, "Well?")).slug == "journal-unavailable"
    assert oracle.asked == []
    in_the_way.unlink()
    assert answered(world, run.id).state == "answered"


def test_only_questions_that_were_asked_have_an_answer(world: RunWorld) -> None:
    run = world.start("done", "a")
    for name in ("o1", "o0", "../o1", "o1/../o1", "", "o" * 300):
        assert refused(lambda name=name: world.manager.oracle_answer(run.id, name)).slug == "unknown-question"  # type: ignore[misc]


def test_it_reaches_the_model_through_the_relay_with_a_token_that_dies_with_its_answer(
    tmp_path: Path, oracle: ScriptedOracle
) -> None:
    SCENES.clear()
    relay = Relay("http://127.0.0.1:9", {"x-api-key": "the real key of this test"}, runs=1)
    relay.start()
    world = RunWorld(tmp_path, oracle=oracle, relay=relay)
    try:
        run, _ = world.begun("a")
        oracle.go.clear()
        world.manager.ask_oracle(run.id, "Well?")
        eventually(lambda: oracle.asked)
        given = oracle.asked[0]["environ"]
        assert "the real key" not in str(given)
        assert oracle.asked[0]["upstream"] == "http://127.0.0.1:9"

        def status() -> int:
            headers = {"x-api-key": given["ANTHROPIC_API_KEY"]}
            return requests.post(f"{given['ANTHROPIC_BASE_URL']}/v1/messages", headers=headers, timeout=10).status_code

        assert status() == 502  # let through, to where nobody is
        oracle.go.set()
        settled(world, run.id, "o1")
        eventually(lambda: status() == 401, 10)
    finally:
        scene("a").go.set()
        world.shut_down()
        relay.close()


def test_over_http_a_question_has_an_address_and_a_blank_one_is_refused(world: RunWorld) -> None:
    run = world.start("done", "a")
    world.reaches(run.id, "succeeded")
    with served(world) as server:
        at = f"{server.url}/runs/{run.id}/oracle"
        reply = requests.post(at, data={"question": "How far is it?"}, headers={"Idempotency-Key": "k"}, timeout=10)
        assert (reply.status_code, reply.headers["Location"]) == (202, f"/runs/{run.id}/oracle/o1")
        again = requests.post(at, data={"question": "How far is it?"}, headers={"Idempotency-Key": "k"}, timeout=10)
        assert (again.json()["id"], again.headers["Idempotent-Replayed"]) == ("o1", "true")
        settled(world, run.id, "o1")
        shown = requests.get(f"{server.url}{reply.headers['Location']}", timeout=10).json()
        assert (shown["run"], shown["state"], shown["answer"]) == (run.id, "answered", "All is well.")
        assert "ref" not in shown
        for body in ({}, {"question": " \n"}, {"question": "x", "model": "y"}):
            assert requests.post(at, json=body, timeout=10).json()["type"] == "invalid-body"


def test_what_was_asked_is_for_the_servers_user_alone(world: RunWorld) -> None:
    run = world.start("done", "a")
    answered(world, run.id)
    kept = world.home / "data" / "oracle" / run.id / "o1.json"
    assert os.stat(kept).st_mode & 0o077 == 0
