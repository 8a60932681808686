"""The programs in README.md do what it says they do."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from flower_core.rehearsal import RehearsalServer
from tests.e2e.serving import FlowerServer

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)

pytestmark = pytest.mark.e2e


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FlowerServer]:
    with FlowerServer(tmp_path / "data", "--rehearse") as running:
        yield running


def test_the_bot_answers_and_follows_a_run_to_its_end(server: FlowerServer, tmp_path: Path) -> None:
    bot = next(block for block in BLOCKS if "next_after" in block)
    script = tmp_path / "bot.py"
    script.write_text(bot)
    body = json.dumps({"task": "Greet the world"}).encode()
    request = urllib.request.Request(f"{server.url}/runs", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as reply:
        run_id = json.load(reply)["id"]
    done = subprocess.run([sys.executable, script, server.url, run_id], capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "it succeeded"
    assert "working on Clarify" in done.stdout


def test_the_library_example_runs(tmp_path: Path) -> None:
    example = next(block for block in BLOCKS if "starter_flow" in block)
    script = tmp_path / "example.py"
    script.write_text(example)
    with RehearsalServer() as rehearsal:
        rehearsal.app.pace = 0
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "ANTHROPIC_BASE_URL": rehearsal.url,
            "ANTHROPIC_API_KEY": "dummy",
        }
        done = subprocess.run(
            [sys.executable, script], cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=90
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].endswith("None"), "no step failed"
