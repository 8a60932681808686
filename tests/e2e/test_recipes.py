"""Every block of docs/http-by-example.md runs as printed, in bash, and does what the page says."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.jq_command import put_on_path
from tests.e2e.serving import PATIENCE_S, FlowerServer
from tests.support import eventually

PAGE = (Path(__file__).parents[2] / "docs" / "http-by-example.md").read_text(encoding="utf-8")
#: The blocks below each heading, in order; the one above all headings is named "".
BLOCKS = {
    section.partition("\n")[0].strip(): re.findall(r"```bash\n(.*?)```", section, re.DOTALL)
    for section in re.split(r"^##? ", PAGE, flags=re.MULTILINE)
}
SETUP = "set -euo pipefail\n" + BLOCKS["HTTP by example"][0]
OUTCOME, FOLLOW = BLOCKS["Wait for the end, or for a question"][0], BLOCKS["Follow a run and lose nothing"][0]

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not (shutil.which("curl") and shutil.which("bash")), reason="there is no curl or no bash here"),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlowerServer]:
    with FlowerServer.rehearsing(tmp_path_factory.mktemp("recipes"), "--max-runs", "3", gated=True) as running:
        yield running


class Shell:
    """Runs recipes against a server, in a directory of their own."""

    def __init__(self, server: FlowerServer, folder: Path) -> None:
        path = f"{put_on_path(folder / 'bin')}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        self.folder = folder
        self.environ = {**server.environ, "PATH": path, "FLOWER_URL": server.url}

    def popen(self, *recipes: str, **values: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["bash", "-c", "\n".join([SETUP, *recipes])],
            cwd=self.folder,
            env={**self.environ, **values},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __call__(self, *recipes: str, code: int = 0, **values: str) -> str:
        """What the recipes print, when they end with ``code``."""
        with self.popen(*recipes, **values) as process:
            out, errors = process.communicate(timeout=2 * PATIENCE_S)
        assert process.returncode == code, errors
        return out


@pytest.fixture
def shell(server: FlowerServer, tmp_path: Path) -> Shell:
    return Shell(server, tmp_path)


def test_the_page_in_the_order_printed(server: FlowerServer, shell: Shell) -> None:
    start = BLOCKS["Start a run"][0]
    run_id = shell(start).strip()
    assert shell(start).strip() == run_id, "the same key again is the same run"
    shell(OUTCOME, f"outcome {run_id}", code=7)

    answer, late = BLOCKS["See the question, say something, answer"]
    shown = shell(answer, late, RUN=run_id).splitlines()
    assert shown[0] == "q1: Which greeting should the result open with?"
    assert shown[1:4] == ["  1) Hello", "  2) Good morning", "  3) 你好"]
    assert shown[5:] == ["Hello", "ask-settled", "Hello"]

    run = server.get(f"/runs/{run_id}")
    assert run["labels"] == {"ticket": "42"}
    server.wait_for_worker(run)
    reply = json.loads(shell(BLOCKS["Interrupt with words"][0], RUN=run_id))
    assert reply["run"] == run_id
    server.let_go(run)
    shell(OUTCOME, f"outcome {run_id}")

    listed = shell(BLOCKS["Fetch documents and files"][0], RUN=run_id)
    written = (server.workspace(run) / "greeting.txt").read_bytes()
    assert (shell.folder / "greeting.txt").read_bytes() == written
    assert f"{len(written)}\tgreeting.txt" in listed.splitlines()
    assert (shell.folder / "brief.md").read_text(encoding="utf-8").startswith("#")


def test_following_survives_a_killed_server_and_being_killed_itself(tmp_path: Path) -> None:
    with FlowerServer.rehearsing(tmp_path, gated=True) as server:
        shell = Shell(server, tmp_path)
        kept = tmp_path / "kept" / "events.jsonl"
        run = server.start_run(goal=False, timeout_s=0)
        with shell.popen(FOLLOW, f"follow {run['id']} kept") as first:
            eventually(lambda: (tmp_path / "kept" / "after").exists(), PATIENCE_S)
            first.kill()
        with shell.popen(FOLLOW, f"follow {run['id']} kept") as second:
            server.wait_for_worker(run)
            server.kill()
            server.start_again()
            server.let_go(run)
            _, errors = second.communicate(timeout=2 * PATIENCE_S)
            assert second.returncode == 0, errors
        seen = {json.loads(line)["seq"] for line in kept.read_text().splitlines()}
        events = server.events(run["id"])
        assert seen == {event["seq"] for event in events}
        shell(FOLLOW, f"follow {run['id']} kept")
        assert {json.loads(line)["seq"] for line in kept.read_text().splitlines()} == seen
        shell(FOLLOW, "follow no-such-run elsewhere", code=5)


def opened(server: FlowerServer, *workspaces: str) -> None:
    """Let the coders in these workspaces go on as soon as they come."""
    for name in workspaces:
        folder = server.data_dir / "workspaces" / name
        folder.mkdir(parents=True)
        (folder / "go").touch()


def test_many_runs_are_started_once_and_found_by_their_label(server: FlowerServer, shell: Shell) -> None:
    opened(server, "greet-ada", "greet-grace")
    (shell.folder / "names.txt").write_text("ada\ngrace\n")
    many = BLOCKS["Many runs, found by their label"][0]
    rows = [line.split("\t") for line in shell(many, many).splitlines()]
    assert sorted(row[2] for row in rows) == ["greet-ada"] * 2 + ["greet-grace"] * 2, "the table was printed twice"
    assert {row[1] for row in rows} == {"succeeded"}
    assert len({row[0] for row in rows}) == 2


def test_the_nightly_run_is_one_a_day(server: FlowerServer, shell: Shell) -> None:
    opened(server, "nightly")
    assert shell(OUTCOME, BLOCKS["Every night"][0], "nightly", "nightly") == ""
    tasks = [run["task"] for run in server.get("/runs?limit=200")["runs"]]
    assert tasks.count("Greet the night") == 1
    (line,) = re.findall(r"```text\n(.*?)\n```", PAGE)
    assert re.fullmatch(r"(\S+ +){5}FLOWER_TOKEN=\S+ /\S+", line)


def test_the_client_does_the_same(server: FlowerServer, shell: Shell) -> None:
    opened(server, "by-client")
    loop, pipes, error = BLOCKS["The same with flower-client"]
    shown = shell(loop, pipes, error).splitlines()
    question = "Which greeting should the result open with?"
    assert shown == ["q1: answered", "ended with 0", "Clarify", "Work", question, "5 unknown-run"]


def test_every_block_of_the_page_is_run_by_a_test() -> None:
    assert sum(map(len, BLOCKS.values())) == PAGE.count("```bash")
    assert PAGE.count("```") == 2 * (PAGE.count("```bash") + PAGE.count("```text"))
    assert {heading: len(blocks) for heading, blocks in BLOCKS.items() if blocks} == {
        "HTTP by example": 1,
        "Start a run": 1,
        "Wait for the end, or for a question": 1,
        "Follow a run and lose nothing": 1,
        "See the question, say something, answer": 2,
        "Interrupt with words": 1,
        "Fetch documents and files": 1,
        "Many runs, found by their label": 1,
        "Every night": 1,
        "The same with flower-client": 3,
    }
