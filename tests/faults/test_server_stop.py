"""A server that is told to stop ends within the time it promises, whatever a flow of somebody's is doing."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.e2e.serving import PATIENCE_S, FlowerServer
from tests.support import eventually

pytestmark = pytest.mark.e2e

#: A flow that waits in a thread for something that takes long, as a gate does that runs tests; nothing can stop it.
FLOW = """
import asyncio, time
from pathlib import Path
from flower_core.workflow import Workflow

class Stuck(Workflow):
    async def run(self, runtime, *, on_event=None, on_step=None):
        Path(runtime.workspace, "begun").touch()
        await asyncio.to_thread(time.sleep, 60)

def make(context):
    return Stuck([])
"""


def test_a_thread_of_a_flow_does_not_keep_the_server_from_ending(tmp_path: Path) -> None:
    flow = tmp_path / "stuck_flow.py"
    flow.write_text(FLOW)
    with FlowerServer.rehearsing(tmp_path, "--flow", f"stuck={flow}:make") as server:
        run = server.start_run(flow="stuck")
        eventually(lambda: (server.workspace(run) / "begun").exists(), PATIENCE_S)
        began = time.monotonic()
        assert server.stop(timeout=30.0) == 0
        assert time.monotonic() - began < 15  # it promises ten, on a machine with nothing else to do
        server.start_again("--no-resume")
        assert server.get(f"/runs/{run['id']}")["state"] == "interrupted"
