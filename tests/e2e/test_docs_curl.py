"""Every curl command of docs/http.md is sent as printed, and gets what the page says; its bot is run."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flower_http.errors import CATALOGUE
from tests.doc_blocks import blocks
from tests.e2e.serving import FlowerServer

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"^    (curl (?:.*\\\n)*.+)$", re.MULTILINE)
#: The pages show several ways to settle one question and to end one run; all but the first come too late.
_TOO_LATE = {"option": "ask-settled", "decline": "ask-settled", "/resume": "not-interrupted"}

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here"),
]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FlowerServer]:
    with FlowerServer(tmp_path / "data", "--rehearse") as running:
        yield running


def commands(page: str) -> list[str]:
    return _BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))


def send(server: FlowerServer, command: str, **values: str) -> Any:
    """The JSON that came back for ``command``, run by a shell against ``server``; of a text, an object with that."""
    line = command.replace("localhost:8420", server.url)
    for name, value in values.items():
        line = line.replace(name, value)
    environ = {**server.environ, "FLOWER_TOKEN": "unused"}
    done = subprocess.run(line, shell=True, env=environ, capture_output=True, text=True, timeout=60)  # noqa: S602
    assert done.returncode == 0, f"{line}\n{done.stderr}"
    return json.loads(done.stdout) if done.stdout.startswith("{") else {"text": done.stdout}


def check(command: str, reply: dict[str, Any]) -> None:
    """Refused is only what comes too late by the order of the page."""
    late = [slug for mark, slug in _TOO_LATE.items() if mark in command]
    assert reply.get("type") in [*late, None], f"{command}\n{reply}"
    assert not late or reply["type"] in CATALOGUE


def test_the_commands_of_the_api_page_work_in_the_order_printed(server: FlowerServer) -> None:
    start, *others = commands("docs/http.md")
    run = send(server, start)
    assert (run["workspace"], run["labels"]) == ("greeting", {"ticket": "42"})
    ask = server.wait_for_ask(run["id"])
    server.post("/runs", task="Another one")
    cursor = server.get("/runs?limit=1")["next_cursor"]
    assert len(others) > 12
    for command in others:
        check(command, send(server, command, RUN_ID=run["id"], NEXT_CURSOR=cursor))
    asks = server.get(f"/runs/{run['id']}/asks?state=all")["asks"]
    assert (ask["id"], asks[0]["answer"]) == ("q1", "Hello")
    assert server.get(f"/runs/{run['id']}")["state"] == "cancelled"


def test_the_bot_answers_and_follows_a_run_to_its_end(tmp_path: Path) -> None:
    (bot,) = (block.text for block in blocks("docs/http.md") if block.language == "python")
    with FlowerServer.rehearsing(tmp_path) as server:
        run = server.start_run(goal=False)
        command = [sys.executable, "-W", "error", "-c", bot, server.url, run["id"]]
        done = subprocess.run(command, capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "it succeeded"
    assert "working on Clarify" in done.stdout


def test_every_other_block_of_the_page_is_a_curl_command() -> None:
    for block in blocks("docs/http.md"):
        lines = block.text.replace("\\\n", " ").splitlines()
        assert block.language == "python" or block.reason or all(line.startswith("curl ") for line in lines), block
