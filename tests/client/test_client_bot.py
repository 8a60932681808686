"""What the example bot says in a chat about the watch itself: losses, and not every attempt to reach a server."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.client.scripted_run import ScriptedRun
from tests.client.scripted_server import ScriptedServer, html, refusal

BOT = Path(__file__).parents[2] / "examples" / "bot.py"


def test_a_chat_hears_of_lost_events_and_not_of_an_outage(
    server: ScriptedServer, run: ScriptedRun, tmp_path: Path
) -> None:
    run.say("a", "b", "c")
    run.finish()
    run.forget_before(3)
    server.faults.extend([html(), refusal(503, "not-ready", "0")])
    room = tmp_path / "room.txt"
    environ = {"PATH": os.environ["PATH"], "FLOWER_URL": server.url, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, str(BOT), "r1", str(room)]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stderr) == (0, "")
    said = ["bot> events 1 to 2 are lost (cursor-expired)", "bot> #5 run.finished"]
    assert room.read_text().splitlines() == said
