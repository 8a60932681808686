"""Words said with an interruption whose reply was lost with the server: repeated, they are not said twice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flower_core.rehearsal import RehearsalServer
from tests.e2e.serving import PATIENCE_S, WAIT, FlowerServer, clean_environ, of_kind
from tests.support import eventually

pytestmark = pytest.mark.e2e

WORDS = "Use fewer words"
#: A single agent, which waits to be let go whatever it is told.
AGENT: dict[str, Any] = {"flow": "once", "instructions": "flower-role: waiter", "tools": ["Bash"]}
PLAY: dict[str, Any] = {
    "waiter": [{"when": {"not": {"called": "Bash"}}, "tools": [["Bash", {"command": WAIT}]]}, {"text": "Done."}]
}


def interrupt(server: FlowerServer, run: dict[str, Any]) -> tuple[int, bool]:
    """Status of the request, and whether the reply is one that was kept."""
    body = json.dumps({"text": WORDS}).encode()
    sent = {"Content_Type": "application/json", "Idempotency_Key": "fewer"}
    status, headers, _ = server.fetch("POST", f"/runs/{run['id']}/interrupt", body, **sent)
    return status, "Idempotent-Replayed" in headers


def forget_replies(server: FlowerServer) -> None:
    """As if the server had died after it did what was asked, and before it noted its reply."""
    kept = [*server.data_dir.glob("idempotency.db*")]
    assert kept
    for path in kept:
        path.unlink()


@pytest.fixture
def waiter(tmp_path: Path) -> Iterator[FlowerServer]:
    """A server for runs of AGENT."""
    with RehearsalServer(PLAY, pace=0) as model:
        environ = clean_environ(tmp_path, ANTHROPIC_BASE_URL=model.url, ANTHROPIC_API_KEY="sk-none")
        with FlowerServer(tmp_path / "data", environ=environ) as server:
            yield server


def test_what_is_said_with_an_interruption_is_said_once_over_a_kill(tmp_path: Path) -> None:
    with FlowerServer.rehearsing(tmp_path, gated=True) as server:
        run = server.start_run(goal=False, timeout_s=0)
        server.wait_for_worker(run)
        assert interrupt(server, run) == (202, False)
        assert interrupt(server, run) == (202, True)
        server.kill()
        forget_replies(server)
        server.start_again()
        assert interrupt(server, run) == (202, False), "whatever the run is at just now"
        mail = server.get(f"/runs/{run['id']}/inbox")["mail"]
        assert [(item["id"], item["text"]) for item in mail] == [("m1", WORDS)]

        server.let_go(run)
        server.wait_for(run["id"], "succeeded", "failed")
        assert [item["state"] for item in server.get(f"/runs/{run['id']}/inbox")["mail"]] == ["delivered"]
        events = server.events(run["id"])
        assert any(WORDS in event["text"] for event in of_kind(events, "prompt")), "the agent was told"
        assert (server.workspace(run) / ".flower/notes/brief.md").read_text().count(WORDS) == 1


def test_a_run_without_an_inbox_keeps_what_was_said_to_it_in_the_same_way(waiter: FlowerServer) -> None:
    run = waiter.start_run("Wait", **AGENT)
    waiter.wait_for_worker(run)
    inbox = f"/runs/{run['id']}/inbox"
    assert waiter.refused(inbox, text="x")[:2] == (409, "not-running"), "nobody would take it out"
    assert interrupt(waiter, run) == (202, False)
    eventually(lambda: [item["state"] for item in waiter.get(inbox)["mail"]] == ["delivered"], PATIENCE_S)
    waiter.post(f"/runs/{run['id']}/interrupt")
    waiter.kill()
    forget_replies(waiter)
    waiter.start_again()
    assert interrupt(waiter, run) == (202, False)
    waiter.let_go(run)
    assert waiter.wait_for(run["id"], "succeeded", "failed")["state"] == "succeeded"
    said = [e for e in of_kind(waiter.events(run["id"]), "ask") if e["payload"].get("kind") == "mail"]
    assert [(event["text"], event["payload"]["state"]) for event in said] == [(WORDS, "queued"), (WORDS, "delivered")]
