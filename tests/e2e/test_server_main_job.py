"""The main job over HTTP, as a person with curl does it: task, question, answer, work, verdict; then a wake."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.serving import FlowerServer, of_kind, steps_of, told_of

pytestmark = pytest.mark.e2e

TASK = "Greet the world and count the words"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FlowerServer]:
    with FlowerServer.rehearsing(tmp_path) as running:
        yield running


def test_from_a_task_through_a_question_to_a_verdict_and_on_to_a_wake(server: FlowerServer) -> None:
    run = server.start_run(TASK, workspace="house")
    run_id = run["id"]
    _the_question_waits_and_everything_agrees(server, run_id)
    _answering_is_final_and_repeatable(server, run_id)
    done = server.wait_for(run_id, "succeeded", "failed")
    _it_ended_well(server, done)
    _the_work_is_real(server, done)
    _a_second_run_wakes_the_first(server, run_id)


def _the_question_waits_and_everything_agrees(server: FlowerServer, run_id: str) -> None:
    ask = server.wait_for_ask(run_id)
    assert (ask["id"], ask["state"], ask["remaining"]) == ("q1", "asked", -1)
    assert ask["options"] == ["Hello", "Good morning", "你好"]
    shown = server.get(f"/runs/{run_id}")
    assert (shown["state"], shown["asks_waiting"]) == ("waiting", 1)
    event = of_kind(server.events(run_id), "ask")[-1]
    assert (event["text"], event["payload"]["id"]) == (ask["question"], "q1")
    assert event["payload"]["state"] == "asked"
    page = server.get(f"/runs/{run_id}/events?tail=1")
    assert (page["state"], page["final"]) == ("waiting", False)
    assert server.get("/asks")["asks"][0]["id"] == "q1", "the one run is meant at the root"
    assert server.get("/events?tail=1")["run"] == run_id


def _answering_is_final_and_repeatable(server: FlowerServer, run_id: str) -> None:
    assert server.call("POST", f"/runs/{run_id}/answer", {"ask_id": "q7", "text": "x"})[0] == 404
    status, slug, _ = server.refused(f"/runs/{run_id}/answer", ask_id="q1", option=4)
    assert (status, slug) == (422, "invalid-body")
    status, reply = server.form("/answer", ask_id="q1", text="Good morning")
    assert (status, reply["ok"], reply["ask"]["state"]) == (200, True, "answered")
    status, slug, problem = server.refused(f"/runs/{run_id}/answer", ask_id="q1", text="Hello")
    assert (status, slug, problem["ok"]) == (409, "ask-settled", False)
    assert problem["ask"]["answer"] == "Good morning"
    again = server.post(f"/runs/{run_id}/answer", ask_id="q1", option=2)
    assert (again["ok"], again["replayed"]) == (True, True)


def _it_ended_well(server: FlowerServer, run: dict[str, object]) -> None:
    events = server.events(str(run["id"]))
    assert run["state"] == "succeeded", run
    assert run["verdict"]["state"] == "achieved"  # type: ignore[index]
    assert steps_of(events) == ["Clarify", "Set goal", "Work", "Work·verdict#1", "Work#round2", "Work·verdict#2"]
    assert told_of(events) == ["run.created", "run.started", "run.finished"]
    assert (events[-1]["kind"], events[-1]["text"]) == ("system", "run.finished")
    last = len(events)
    assert not server.get(f"/runs/{run['id']}/events?after={last - 2}&limit=1")["final"], "one is still to be read"
    end = server.get(f"/runs/{run['id']}/events?after={last}&wait=20")
    assert (end["final"], end["pending"], end["events"]) == (True, 0, [])
    assert run["last_seq"] == last
    assert server.get("/events?tail=1")["run"] == run["id"], "with none unfinished, the one that ended last"
    outcomes = [event["payload"]["state"] for event in of_kind(events, "ask")]
    assert outcomes == ["asked", "answered"]


def _the_work_is_real(server: FlowerServer, run: dict[str, object]) -> None:
    written = (server.workspace(run) / "greeting.txt").read_text().splitlines()
    assert written == ["Good morning", f"Task: {TASK}", "Words in the task: 7"]
    assert f"TASK = {TASK!r}" in (server.workspace(run) / "greet.py").read_text()
    ran = [e for e in of_kind(server.events(str(run["id"])), "tool_result") if "greeting.txt has 3 lines" in e["text"]]
    assert ran, "the program's own output came back"
    rows = server.get(f"/runs/{run['id']}/steps")["steps"]
    assert [row["step"] for row in rows] == steps_of(server.events(str(run["id"])))
    assert all(row["ok"] and row["session_id"] and row["run"] == run["id"] for row in rows)
    assert rows[2]["session_id"] == rows[4]["session_id"], "the second round went on in the session of the first"
    assert run["cost_usd"] == pytest.approx(sum(row["cost_usd"] for row in rows), abs=1e-4)
    assert not (server.workspace(run) / "manifest.json").exists(), "the books lie elsewhere"


def _a_second_run_wakes_the_first(server: FlowerServer, first: str) -> None:
    status, slug, problem = server.refused("/runs", workspace="empty", task="")
    assert (status, slug, list(problem["errors"])) == (422, "invalid-body", ["task"])
    run = server.start_run("Keep it polite", workspace="house")
    done = server.wait_for(run["id"], "succeeded", "failed")
    assert (done["state"], done["woke"]) == ("succeeded", True)
    assert "Keep it polite" in done["verdict"]["reason"], "the judge was told"
    events = server.events(run["id"])
    assert "Set goal" in steps_of(events), "the goal is derived anew"
    assert not of_kind(events, "ask"), "the brief stands, so nothing is asked"
    brief = (server.workspace(run) / ".flower/notes/brief.md").read_text()
    assert "- The greeting is: Good morning" in brief
    assert "Keep it polite" in brief
    rows = server.get(f"/runs/{run['id']}/steps")["steps"]
    assert rows[-2]["session_id"] == server.get(f"/runs/{first}/steps")["steps"][2]["session_id"]
    assert {row["run"] for row in rows} == {run["id"]}
