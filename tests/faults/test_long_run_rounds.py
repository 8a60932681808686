"""kill -9 as a round of work begins: the words of the judge that sent it back are not lost with the process."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.serving import PATIENCE_S, FlowerServer, of_kind, steps_of
from tests.support import eventually

pytestmark = pytest.mark.e2e

WORK = ["Work", "Work·verdict#1", "Work#round2", "Work#round2", "Work·verdict#2", "Work#round3", "Work·verdict#3"]


def test_a_round_that_had_only_begun_still_knows_what_the_judge_missed(tmp_path: Path) -> None:
    with FlowerServer(tmp_path / "data", "--rehearse=long,tasks=1,every=9,pace=0") as server:
        run = server.start_run("How to get on", timeout_s=0)
        eventually(lambda: "Work#round2" in steps_of(server.events(run["id"])), PATIENCE_S, 0.005)
        server.kill()  # the agent program has not even started
        seen = len(server_events_before(server, run["id"]))
        done = server.wait_for(run["id"], "succeeded", "failed")
        events = server.events(run["id"])
        assert (done["state"], steps_of(events)[2:]) == ("succeeded", WORK)
        first = next(event for event in of_kind(events, "prompt") if event["seq"] > seen)
        assert "there is no exercise in parts/" in first["text"]


def server_events_before(server: FlowerServer, run_id: str) -> list[int]:
    """Start the server again; the numbers of the events that the one before had kept."""
    server.start_again()
    events = server.events(run_id)
    last = max(event["seq"] for event in events if event["text"] == "run.interrupted")
    return [event["seq"] for event in events if event["seq"] < last]
