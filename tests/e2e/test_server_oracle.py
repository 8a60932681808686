"""Asking about a run on the side: a real server, the real agent program and the client's command."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.serving import FlowerServer, clean_environ
from tests.e2e.test_agent_user import NAME, can_be_used
from tests.support import eventually


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FlowerServer]:
    with FlowerServer.rehearsing(tmp_path, gated=True) as server:
        yield server


def settled(server: FlowerServer, run_id: str, question_id: str) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        found: dict[str, Any] = server.get(f"/runs/{run_id}/oracle/{question_id}")
        return None if found["state"] == "thinking" else found

    found = eventually(look, 60, 0.05)
    assert found is not None
    return found


def test_a_run_at_work_and_one_that_has_ended_are_asked_about_and_show_nothing_of_it(
    server: FlowerServer, tmp_path: Path
) -> None:
    run = server.start_run(workspace="house", timeout_s=0)
    server.wait_for_worker(run)
    before, events = server.get(f"/runs/{run['id']}"), server.events(run["id"])
    asked = server.post(f"/runs/{run['id']}/oracle", question="How far is it?")
    found = settled(server, run["id"], asked["id"])
    assert (found["state"], found["error"]) == ("answered", "")
    assert "The step at work is Work." in found["answer"]
    assert "[Bash] python3 -c" in found["answer"]
    assert found["cost_usd"] > 0
    assert server.get(f"/runs/{run['id']}") == before
    assert server.events(run["id"]) == events
    assert not list((server.data_dir / "config").glob("*-o"))

    server.let_go(run)
    ended = server.wait_for(run["id"], "succeeded")
    rows = server.get(f"/runs/{run['id']}/steps")["steps"]
    assert ended["cost_usd"] == pytest.approx(sum(row["cost_usd"] for row in rows), abs=1e-4)
    command = [sys.executable, "-m", "flower_client", "oracle", run["id"], "And now?"]
    environ = clean_environ(tmp_path, FLOWER_URL=server.url)
    told = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert (told.returncode, told.stderr) == (0, "")
    assert "Work·verdict#2" in told.stdout
    assert "succeeded" in told.stdout
    assert server.get(f"/runs/{run['id']}")["last_seq"] == ended["last_seq"]


@pytest.mark.skipif(not can_be_used(), reason="takes root on Linux")
def test_an_oracle_works_as_the_user_its_runs_agents_work_as() -> None:
    with tempfile.TemporaryDirectory() as made:
        home = Path(made)
        home.chmod(0o711)  # one that pytest makes is root's alone
        with FlowerServer.rehearsing(home, "--agent-user", NAME, gated=True) as server:
            run = server.start_run(timeout_s=0, goal=False)
            server.wait_for_worker(run)
            asked = server.post(f"/runs/{run['id']}/oracle", question="How far is it?")
            found = settled(server, run["id"], asked["id"])
            assert (found["state"], found["error"]) == ("answered", "")
            assert os.stat(server.data_dir / "oracle" / run["id"] / "o1.json").st_uid == 0
            server.let_go(run)
            assert server.wait_for(run["id"], "succeeded", "failed")["state"] == "succeeded"
