"""Two runs of one server at the same time know nothing of each other, and what opened the model ends with its run."""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from flower_core.rehearsal import RehearsalServer
from tests.e2e.serving import WAIT, FlowerServer, clean_environ, of_kind

pytestmark = pytest.mark.e2e
NOTE = f"env > seen.txt; {WAIT}"
PEERS = [["ListAgents", {}], ["SendMessage", {"to": "all", "message": "Hello"}], ["TaskStop", {"task_id": "1"}]]
PLAY: dict[str, Any] = {
    "one": [{"tools": [["Bash", {"command": NOTE}]]}, {"text": "Done."}],
    "two": [{"tools": PEERS}, {"tools": [["Bash", {"command": "env > seen.txt"}]]}, {"text": "Done."}],
}


def seen_by(server: FlowerServer, run: dict[str, Any]) -> dict[str, str]:
    lines = (server.workspace(run) / "seen.txt").read_text().splitlines()
    return {name: value for name, _, value in (line.partition("=") for line in lines)}


def asked(environ: dict[str, str]) -> int:
    """The status with which the relay answers a request with this environment's token."""
    headers = {"x-api-key": environ["ANTHROPIC_API_KEY"], "content-type": "application/json"}
    body = json.dumps({"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "flower-role: two"}]})
    request = urllib.request.Request(environ["ANTHROPIC_BASE_URL"] + "/v1/messages", body.encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_neither_of_two_runs_lists_or_messages_the_other_and_their_tokens_end_with_them(tmp_path: Path) -> None:
    with RehearsalServer(PLAY, pace=0) as model:
        environ = clean_environ(tmp_path, ANTHROPIC_BASE_URL=model.url, ANTHROPIC_API_KEY="sk-canary-0123456789")
        with FlowerServer(tmp_path / "data", "--max-runs", "2", environ=environ) as server:
            begin = {"flow": "once", "tools": ["Bash"], "timeout_s": 0}
            one = server.start_run("Sit", instructions="flower-role: one", **begin)
            server.wait_for_worker(one)
            two = server.start_run("Look", instructions="flower-role: two", **begin)
            done = server.wait_for(two["id"], "succeeded", "failed")
            assert done["state"] == "succeeded", done
            results = [event["text"] for event in of_kind(server.events(two["id"]), "tool_result")]
            for (tool, _), text in zip(PEERS, results, strict=False):
                assert f"No such tool available: {tool}" in text
            assert len(results) == len(PEERS) + 1

            first, second = seen_by(server, one), seen_by(server, two)
            assert first["CLAUDE_CONFIG_DIR"] != second["CLAUDE_CONFIG_DIR"]
            assert first["ANTHROPIC_API_KEY"] != second["ANTHROPIC_API_KEY"]
            assert "sk-canary" not in json.dumps([first, second])
            assert asked(first) != 401, "good while its run lasts"
            assert asked(second) == 401, "its run has ended"
            server.let_go(one)
            server.wait_for(one["id"], "succeeded", "failed")
            assert asked(first) == 401
