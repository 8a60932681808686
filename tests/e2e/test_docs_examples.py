"""The example of docs/writing-a-workflow.md runs as printed: its own test, and the same flow behind a server."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from flower_core import Workbench
from flower_core.rehearsal import RehearsalServer
from flower_http.errors import Problem
from flower_http.flow_registry import Flows
from flower_http.flows import FlowContext
from flower_http.schemas import StartParams
from tests.e2e.serving import FlowerServer, clean_environ

PAGE = (Path(__file__).parents[2] / "docs" / "writing-a-workflow.md").read_text(encoding="utf-8")
#: Every block begins with the name of its file.
FILES = {name: body for body, name in re.findall(r"```(?:python|toml)\n(# (\S+)\n.*?)```", PAGE, re.DOTALL)}

pytestmark = pytest.mark.e2e


@pytest.fixture
def example(tmp_path: Path) -> Path:
    folder = tmp_path / "example"
    folder.mkdir()
    for name, body in FILES.items():
        (folder / name).write_text(body, encoding="utf-8")
    return folder


def test_every_block_of_the_page_is_a_file_of_the_example() -> None:
    assert sorted(FILES) == ["greet.py", "notes.toml", "notes_flow.py", "test_notes.py", "tone_flow.py"]
    assert PAGE.count("```") == 2 * len(FILES)


def test_the_test_that_is_printed_passes(example: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_notes.py"]
    environ = {"PATH": os.environ["PATH"], "HOME": str(example.parent)}
    done = subprocess.run(command, cwd=example, env=environ, capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout


def test_the_script_runs_without_a_server(example: Path) -> None:
    with RehearsalServer(pace=0) as rehearsal:
        environ = clean_environ(example, ANTHROPIC_BASE_URL=rehearsal.url, ANTHROPIC_API_KEY="dummy")
        done = subprocess.run(
            [sys.executable, "greet.py"], cwd=example, env=environ, capture_output=True, text=True, timeout=90
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].endswith("None"), "no step failed"


def test_the_flow_is_served_by_its_name(example: Path) -> None:
    flags = (f"--rehearse={example / 'notes.toml'}", "--flow", f"notes={example / 'notes_flow.py'}:make")
    with FlowerServer(example.parent / "data", *flags) as server:
        run = server.post("/runs", task="Notes about our cats", flow="notes", workspace="cats")
        ask = server.wait_for_ask(run["id"])
        assert ask["options"] == ["cats", "dogs"]
        server.post(f"/runs/{run['id']}/answer", ask_id=ask["id"], option=1)
        ended = server.wait_for(run["id"], "succeeded", "failed")
        assert (ended["state"], ended["verdict"]["state"], ended["step"]["round"]) == ("succeeded", "achieved", 2)
    written = example.parent / "data" / "workspaces" / "cats" / "NOTES.md"
    assert written.read_text(encoding="utf-8") == "Cats sleep."


def test_the_flow_with_a_parameter_refuses_what_the_page_says(example: Path) -> None:
    flows = Flows({"tone": f"{example / 'tone_flow.py'}:make"})

    def asked(**params: str) -> FlowContext:
        request = StartParams(task="Sing", flow="tone", params=params)
        return FlowContext("Sing", example, example, Workbench(example, lang="en"), params, request=request)

    with pytest.raises(Problem) as refused:
        flows.check(asked(tone="loud"))
    assert json.dumps({"errors": refused.value.extra["errors"]})[1:-1].replace('"errors"', "errors") in PAGE
    with pytest.raises(Problem, match=r"params\.mood"):
        flows.check(asked(mood="calm"))
    flows.check(asked(tone="merry"))


def test_a_flow_whose_gate_gives_up_fails_with_the_words_of_the_gate(example: Path) -> None:
    play = example / "idle.toml"
    play.write_text(FILES["notes.toml"].partition("[[writer]]")[0] + '[[writer]]\ntext = "Nothing to do."\n')
    flags = (f"--rehearse={play}", "--flow", f"notes={example / 'notes_flow.py'}:make")
    with FlowerServer(example.parent / "data", *flags) as server:
        run = server.post("/runs", task="Notes", flow="notes", timeout_s=0)
        ended = server.wait_for(run["id"], "succeeded", "failed")
        assert (ended["state"], ended["failed_at"]) == ("failed", "Write")
        assert "NOTES.md was not written" in ended["aborted"]
