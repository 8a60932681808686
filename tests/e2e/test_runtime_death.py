"""Ends that nobody planned: a cancelled task, a killed parent, a signal. Nothing of ours may live on."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from tests.e2e.conftest import MakeStage
from tests.e2e.stage import LONG_COMMAND, PATIENCE_S, Screen, Stage, agent, play, until
from tests.support import eventually

pytestmark = pytest.mark.e2e
BUSY = {"agent": [{"text": "I run it.", "tools": [["Bash", {"command": LONG_COMMAND}]]}]}
#: Never ends by itself and asks the model again and again, so that its requests show whether it lives.
RESTLESS = {
    "agent": [{"text": "Once more.", "delay": 0, "tools": [["Bash", {"command": "echo again >> started.txt"}]]}]
}
PROGRAM = """
import asyncio, sys
from flower_core import AgentSpec, Runtime

async def main(workspace, run_dir):
    runtime = Runtime(workspace=workspace, run_dir=run_dir, run_id="doomed")
    spec = AgentSpec("Agent", "flower-role: agent", allowed_tools=("Bash",))
    await runtime.run(spec, "Do it", step_name="doomed step")

asyncio.run(main(*sys.argv[1:]))
"""


@contextlib.contextmanager
def parent(stage: Stage) -> Iterator[subprocess.Popen[bytes]]:
    """A Python process that runs a step in the stage's workspace, once its agent is at work."""
    command = [sys.executable, "-c", PROGRAM, str(stage.workspace), str(stage.home / "books")]
    with subprocess.Popen(command, env=stage.environ(), stderr=subprocess.DEVNULL) as process:
        try:
            eventually((stage.workspace / "started.txt").exists, timeout=PATIENCE_S)
            yield process
        finally:
            process.kill()


def rows(stage: Stage) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads((stage.home / "books" / "manifest.json").read_text())
    return found


def gone(stage: Stage) -> None:
    """Wait until no process works in the workspace any more."""
    eventually(lambda: not stage.agent_processes(), timeout=PATIENCE_S)


@pytest.mark.parametrize("moment", ["starting", "prompt", "init", "tool_call"])
def test_cancelling_the_task_leaves_no_process_and_writes_the_row(staged: MakeStage, moment: str) -> None:
    stage = staged(BUSY)
    runtime, screen = stage.runtime(), Screen()

    async def cancelled() -> float:
        running = asyncio.ensure_future(runtime.run(agent("Bash"), "Do it", on_event=screen))
        if moment == "starting":
            await until(stage.agent_processes)
        else:
            await until(lambda: any(moment in (event.kind, event.text) for event in screen.events))
        begun = time.monotonic()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert stage.agent_processes() == []
        return time.monotonic() - begun

    assert play(cancelled()) < 8.0
    (row,) = rows(stage)
    assert (row["ok"], row["error"]) == (False, "cancelled")
    assert runtime.interrupt("hello") is False
    requests = len(stage.requests)
    assert requests <= 1


def test_a_cancelled_step_can_be_resumed(staged: MakeStage) -> None:
    stage = staged(BUSY)
    runtime, screen = stage.runtime(), Screen()

    async def cancelled() -> None:
        running = asyncio.ensure_future(runtime.run(agent("Bash"), "Do it", on_event=screen))
        await until((stage.workspace / "started.txt").exists)
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running

    play(cancelled())
    stage.replay({"agent": [{"text": "Here again."}]})
    session_id = runtime.results[0].session_id
    result = play(runtime.run(agent("Bash"), "Go on", resume=session_id))
    assert (result.ok, result.session_id, result.text) == (True, session_id, "Here again.")
    assert [call.name for call in stage.requests[-1].talk.calls] == ["Bash"]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("play_of", [BUSY, RESTLESS], ids=["in a command", "between requests"])
def test_when_the_parent_is_killed_the_agent_program_goes_too(staged: MakeStage, play_of: dict[str, object]) -> None:
    stage = staged(play_of)
    with parent(stage) as process:
        assert stage.agent_processes()
        process.send_signal(signal.SIGKILL)
        process.wait()
        killed, asked = time.monotonic(), len(stage.requests)
        gone(stage)
        assert time.monotonic() - killed < 6.0
    # What was on its way may still arrive; working on would have shown in dozens of requests.
    assert len(stage.requests) - asked <= 2


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_on_a_signal_the_step_in_flight_is_written_down(staged: MakeStage, number: signal.Signals) -> None:
    stage = staged(BUSY)
    with parent(stage) as process:
        process.send_signal(number)
        assert process.wait(PATIENCE_S) == -number
    (row,) = rows(stage)
    assert (row["run"], row["step"], row["ok"], row["error"]) == ("doomed", "doomed step", False, "killed-by-signal")
    assert row["session_id"]
    assert row["text"] == "I run it."
    gone(stage)
