"""Steering a run at work over HTTP: interrupting with words, the inbox, cancelling, the queue."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.serving import PATIENCE_S, FlowerServer, of_kind, steps_of
from tests.support import eventually

pytestmark = pytest.mark.e2e


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FlowerServer]:
    with FlowerServer.rehearsing(tmp_path, "--max-runs", "1", "--queue", "1", gated=True) as running:
        yield running


def test_words_said_with_an_interrupt_and_in_the_inbox_reach_agent_brief_and_judge(server: FlowerServer) -> None:
    run = server.start_run(timeout_s=0)
    server.wait_for_worker(run)
    session = _session_at_work(server, run)
    reply = server.post(f"/runs/{run['id']}/interrupt", text="Use fewer words")
    assert "subagent" in str(reply), "it says what an interrupt costs"
    (server.workspace(run) / "begun").unlink()
    server.wait_for_worker(run)
    mail = server.post(f"/runs/{run['id']}/inbox", text="Mind the comma")
    assert (mail["id"], mail["amended"]) == ("m2", ".flower/notes/brief.md")
    said = [(item["text"], item["state"]) for item in server.get(f"/runs/{run['id']}/inbox")["mail"]]
    assert said == [("Use fewer words", "delivered"), ("Mind the comma", "queued")]
    brief = (server.workspace(run) / ".flower/notes/brief.md").read_text()
    assert brief.index("Use fewer words") < brief.index("Mind the comma")
    server.let_go(run)
    done = server.wait_for(run["id"], "succeeded", "failed")
    assert done["state"] == "succeeded", done
    _both_were_taken_into_account(server, done, session)
    status, slug, _ = server.refused(f"/runs/{run['id']}/interrupt", text="too late")
    assert (status, slug) == (409, "not-running")
    assert server.refused("/inbox", text="too late")[:2] == (409, "not-running")


def _session_at_work(server: FlowerServer, run: dict[str, object]) -> str:
    inits = [e for e in of_kind(server.events(str(run["id"])), "system") if e["text"] == "init"]
    return str(inits[-1]["payload"]["data"]["session_id"])


def _both_were_taken_into_account(server: FlowerServer, run: dict[str, object], session: str) -> None:
    events = server.events(str(run["id"]))
    prompts = [event["text"] for event in of_kind(events, "prompt")]
    assert any(p.startswith("A person interrupted you and said:\n\nUse fewer words") for p in prompts)
    verdict = next(prompt for prompt in prompts if prompt.startswith("flower-turn: verdict"))
    assert "Use fewer words" in verdict
    assert "Mind the comma" in verdict
    assert "Use fewer words" in str(run["verdict"])
    assert "Mind the comma" in str(run["verdict"])
    assert "Mind the comma" in str(run["result"]), "the agent took it from its inbox and repeated it"
    states = [e["payload"]["state"] for e in of_kind(events, "ask") if e["payload"].get("kind") == "mail"]
    assert states == ["queued", "delivered"] * 2
    assert server.get(f"/runs/{run['id']}/inbox")["mail"][1]["state"] == "delivered"
    work = next(row for row in server.get(f"/runs/{run['id']}/steps")["steps"] if row["step"] == "Work")
    assert (work["session_id"], work["attempts"], work["ok"]) == (session, 1, True)


def test_one_runs_one_waits_no_third_and_each_can_be_cancelled(server: FlowerServer) -> None:
    working = server.start_run(workspace="a/b", timeout_s=0, goal=False)
    (server.data_dir / "workspaces/link").symlink_to(server.data_dir / "workspaces/a")
    for name in ("a/b", "a", "a/b/c", "link/b", "link"):
        status, slug, problem = server.refused("/runs", task="x", workspace=name)
        assert (status, slug, problem["run"]) == (409, "workspace-busy", working["id"]), name
    (server.data_dir / "workspaces/out").symlink_to("/tmp")
    assert server.refused("/runs", task="x", workspace="out/side")[0] == 422
    waiting = server.start_run(workspace="c")
    assert waiting["state"] == "queued"
    assert server.refused("/answer", ask_id="q1", text="x")[1] == "which-run"
    status, headers, _ = server.fetch("POST", "/runs", b'{"task": "x"}', Content_Type="application/json")
    assert (status, headers["Retry-After"]) == (429, "30")
    assert server.post(f"/runs/{waiting['id']}/cancel")["state"] == "cancelled"
    assert steps_of(server.events(waiting["id"])) == []
    asking = server.start_run(workspace="c", goal=False)
    server.wait_for_worker(working)
    assert server.post(f"/runs/{working['id']}/cancel")["state"] == "cancelled"
    ask = server.wait_for_ask(asking["id"])
    assert server.post(f"/runs/{asking['id']}/cancel")["state"] == "cancelled"
    assert server.refused(f"/runs/{asking['id']}/answer", ask_id=ask["id"], text="x")[:2] == (409, "ask-settled")
    for run in (working, waiting, asking):
        last = server.events(run["id"])[-1]
        assert (last["text"], last["payload"]["state"]) == ("run.finished", "cancelled")
    eventually(lambda: not server.agents(), PATIENCE_S)
    assert not (server.workspace(working) / "greeting.txt").exists()
