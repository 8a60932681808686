"""No agent program and no command of one outlives its server for longer than until the next start."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.serving import PATIENCE_S, FlowerServer
from tests.support import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FlowerServer]:
    with FlowerServer.rehearsing(tmp_path, gated=True) as running:
        yield running


def named(processes: list[int], name: str) -> list[int]:
    return [process for process in processes if Path(f"/proc/{process}/comm").read_text().strip() == name]


def test_what_survives_a_killed_server_is_stopped_by_the_next_before_the_run_goes_on(server: FlowerServer) -> None:
    run = server.start_run(timeout_s=0, goal=False)
    server.wait_for_worker(run)
    (program,) = named(server.agents(), "claude")
    commands = set(server.agents()) - {program}
    assert commands
    os.kill(program, signal.SIGSTOP)  # so it cannot heed the kernel's signal, as one that hangs could not
    server.kill()
    left = set(server.agents())
    assert left >= {program, *commands}, "this is what would go on without care"

    (server.workspace(run) / "begun").unlink()
    server.start_again()
    server.wait_for_worker(run)
    assert not left & set(server.agents())
    assert "processes that an earlier server had left behind" in server.log()
    server.let_go(run)
    assert server.wait_for(run["id"], "succeeded", "failed")["state"] == "succeeded"


def test_a_command_whose_agent_program_was_killed_with_the_server_is_stopped_by_the_next(server: FlowerServer) -> None:
    run = server.start_run(timeout_s=0, goal=False)
    server.wait_for_worker(run)
    (program,) = named(server.agents(), "claude")
    os.kill(program, signal.SIGSTOP)
    server.kill()
    os.kill(program, signal.SIGKILL)
    eventually(lambda: program not in server.agents(), PATIENCE_S)
    assert server.agents(), "commands have a session of their own and live on"
    server.start_again("--no-resume")
    assert server.agents() == []


def test_a_server_that_ends_takes_along_what_its_agents_left_running(tmp_path: Path) -> None:
    play = tmp_path / "daemon.toml"
    play.write_text(
        '[[host]]\ntools = [["Bash", { command = "setsid sleep 600 > /dev/null 2>&1 < /dev/null & echo up" }]]\n'
        '[[host]]\ntext = "It is up."\n'
    )
    with FlowerServer(tmp_path / "data", f"--rehearse={play}") as server:
        run = server.start_run("Serve", flow="once", tools=["Bash"], instructions="flower-role: host", workspace="w")
        assert server.wait_for(run["id"], "succeeded", "failed")["result"] == "It is up."
        assert named(server.agents(), "sleep"), "a run's end leaves it alone"
        assert server.stop() == 0
        assert server.agents() == []


def test_a_terminal_that_goes_away_leaves_no_process_and_the_books_of_the_step_in_flight(server: FlowerServer) -> None:
    run = server.start_run(timeout_s=0, goal=False)
    server.wait_for_worker(run)
    assert server.agents()
    assert server.stop(signal.SIGHUP, timeout=10.0) == 0
    assert server.agents() == []
    server.start_again("--no-resume")
    work = server.get(f"/runs/{run['id']}/steps")["steps"][-1]
    assert (work["step"], work["ok"], work["error"]) == ("Work", False, "killed-by-signal")
