"""kill -9 of the server at the worst moments: what was shown stays, what was accepted is kept, the run goes on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.serving import PATIENCE_S, WAIT, FlowerServer, of_kind, steps_of, told_of
from tests.support import eventually

pytestmark = pytest.mark.e2e

GOING_ON = ["run.interrupted", "run.resumed", "run.started"]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FlowerServer]:
    with FlowerServer.rehearsing(tmp_path, gated=True) as running:
        yield running


class Witness:
    """A client that remembers what it was shown of a run."""

    def __init__(self, server: FlowerServer, run_id: str) -> None:
        self._server = server
        self._run = run_id
        self.look()

    def look(self) -> None:
        """Read everything there is."""
        self.seen = len(self._server.events(self._run))
        self.bytes = self._server.event_bytes(self._run, self.seen)
        self.epoch = self._server.get(f"/runs/{self._run}")["epoch"]

    def check(self) -> None:
        """Nothing of it has changed, and counting goes on where it was."""
        assert self._server.get(f"/runs/{self._run}")["epoch"] == self.epoch
        assert self._server.event_bytes(self._run, self.seen) == self.bytes
        assert len(self._server.events(self._run)) >= self.seen
        status, page = self._server.call("GET", f"/runs/{self._run}/events?after={self.seen}&epoch={self.epoch}")
        assert (status, page["after"]) == (200, self.seen)


def test_killed_while_a_question_waits_and_again_right_after_the_answer(server: FlowerServer) -> None:
    run = server.start_run(goal=False)
    server.wait_for_ask(run["id"])
    witness = Witness(server, run["id"])
    server.kill()
    eventually(lambda: not server.agents(), PATIENCE_S)

    server.start_again("--no-resume")
    witness.check()
    left = server.get(f"/runs/{run['id']}")
    assert (left["state"], left["asks_waiting"]) == ("interrupted", 1)
    assert server.get("/asks")["asks"][0]["id"] == "q1", "the question can still be answered"
    assert server.post("/answer", ask_id="q1", option=2)["ok"]
    server.kill()

    server.start_again()
    witness.check()
    server.let_go(run)
    done = server.wait_for(run["id"], "succeeded", "failed")
    assert done["state"] == "succeeded", done
    events = server.events(run["id"])
    assert told_of(events) == ["run.created", "run.started", *GOING_ON, "run.finished"]
    first = next(e for e in of_kind(events, "prompt") if e["seq"] > witness.seen)
    assert "Good morning" in first["text"], "the resumed agent is told in its first prompt"
    assert (server.workspace(run) / "greeting.txt").read_text().startswith("Good morning\n")
    asks = server.get(f"/runs/{run['id']}/asks?state=all")["asks"]
    assert (asks[0]["state"], asks[0]["answer"]) == ("answered", "Good morning")
    assert [ask["id"] for ask in asks] == sorted({ask["id"] for ask in asks})


def test_an_answer_accepted_just_before_the_kill_reaches_the_resumed_agent(server: FlowerServer) -> None:
    run = server.start_run(goal=False)
    server.wait_for_ask(run["id"])
    assert server.post(f"/runs/{run['id']}/answer", ask_id="q1", text="你好")["ok"]
    server.kill()
    server.start_again()
    server.let_go(run)
    assert server.wait_for(run["id"], "succeeded", "failed")["state"] == "succeeded"
    asks = server.get(f"/runs/{run['id']}/asks?state=all")["asks"]
    assert (asks[0]["state"], asks[0]["answer"]) == ("answered", "你好")
    assert (server.workspace(run) / "greeting.txt").read_text().startswith("你好\n")


def test_killed_while_a_worker_runs_a_command(server: FlowerServer) -> None:
    run = server.start_run(timeout_s=0, goal=False)
    server.wait_for_worker(run)
    witness = Witness(server, run["id"])
    assert server.agents()
    server.kill()
    eventually(lambda: not server.agents(), PATIENCE_S)
    assert not (server.workspace(run) / "greeting.txt").exists()

    (server.workspace(run) / "begun").unlink()
    server.start_again()
    witness.check()
    server.wait_for_worker(run)
    server.let_go(run)
    assert server.wait_for(run["id"], "succeeded", "failed")["state"] == "succeeded"
    assert (server.workspace(run) / "greeting.txt").exists()
    witness.check()
    events = server.events(run["id"])
    assert told_of(events) == ["run.created", "run.started", *GOING_ON, "run.finished"]
    again = [event for event in of_kind(events, "step") if event["seq"] > witness.seen]
    assert again[0]["payload"]["resumed"], "in the session it had"
    work = next(row for row in server.get(f"/runs/{run['id']}/steps")["steps"] if row["step"] == "Work")
    before = [e["payload"]["data"]["session_id"] for e in events[: witness.seen] if e["text"] == "init"]
    assert work["session_id"] == before[-1]
    eventually(lambda: not server.agents(), PATIENCE_S)


def test_a_single_agent_goes_on_in_its_session_after_a_kill(tmp_path: Path) -> None:
    play = tmp_path / "slow.toml"
    play.write_text(
        f"""
[[slow]]
when.prompt = 'cut off'
text = "I went on."

[[slow]]
tools = [["Bash", {{ command = {json.dumps(WAIT)} }}]]
"""
    )
    with FlowerServer(tmp_path / "data", f"--rehearse={play}") as server:
        run = server.start_run("Wait", flow="once", tools=["Bash"], instructions="flower-role: slow", workspace="w")
        server.wait_for_worker(run)
        server.kill()
        server.start_again()
        done = server.wait_for(run["id"], "succeeded", "failed")
        assert (done["state"], done["result"]) == ("succeeded", "I went on.")
        steps = of_kind(server.events(run["id"]), "step")
        assert [step["payload"]["resumed"] for step in steps] == [False, True]
        assert steps_of(server.events(run["id"])) == ["once", "once"]
