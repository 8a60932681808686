"""What docs/operating.md prints: the backup of a server at work, the unit and the container file."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.doc_blocks import INDENTED, ROOT, Block, blocks
from tests.e2e.serving import PATIENCE_S, SERVER, FlowerServer, clean_environ, of_kind

BLOCKS = blocks("docs/operating.md")
#: Commands on tokens; they stand in the order in which they can be run.
ON_TOKENS = [it for it in [*BLOCKS, *blocks("docs/security.md")] if it.language == INDENTED and not it.reason]


def block(language: str, below: str) -> str:
    (found,) = (it.text for it in BLOCKS if (it.language, it.heading, it.reason) == (language, below, ""))
    return found


@pytest.mark.e2e
@pytest.mark.skipif(shutil.which("sqlite3") is None, reason="there is no sqlite3 here")
def test_a_backup_of_a_server_at_work_goes_on_where_it_was(tmp_path: Path) -> None:
    with FlowerServer.rehearsing(tmp_path, gated=True) as server:
        run = server.start_run(goal=False, timeout_s=0)
        server.wait_for_worker(run)
        command = ["sh", "-c", block("sh", "Backup"), "backup", str(tmp_path / "copy")]
        environ = {**server.environ, "FLOWER_DATA_DIR": str(server.data_dir)}
        done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=PATIENCE_S)
        assert done.returncode == 0, done.stderr
        before = server.events(run["id"])
        server.kill()
        assert {path.name for path in (tmp_path / "copy").iterdir()} >= {"journal.db", "books", "workspaces"}
        assert not list((tmp_path / "copy").rglob("*.db-wal")), "every database is whole by itself"
        server.data_dir.rename(tmp_path / "lost")
        (tmp_path / "copy").rename(server.data_dir)
        server.let_go(run)
        server.start_again()
        ended = server.wait_for(run["id"], "succeeded", "failed")
        assert ended["state"] == "succeeded"
        kept = [event for event, again in zip(before, server.events(run["id"]), strict=False) if event == again]
        assert of_kind(kept, "step"), "what was before the copy is there"
        sessions = [
            row["session_id"] for row in server.get(f"/runs/{run['id']}/steps")["steps"] if row["step"] == "Work"
        ]
        assert len(set(sessions)) == 1, "it went on in its session"
    assert (server.workspace(run) / "greeting.txt").is_file()


def test_every_block_of_the_page_is_looked_at() -> None:
    others = [(it.language, it.heading) for it in BLOCKS if not it.reason and it.language != INDENTED]
    assert others == [
        ("ini", "As a service"),
        ("dockerfile", "In a container"),
        ("sh", "Backup"),
        ("yaml", "Metrics"),
    ]


@pytest.mark.parametrize("block", ON_TOKENS, ids=lambda block: f"{block.page}:{block.line}")
def test_the_commands_on_tokens_work(block: Block, tmp_path: Path) -> None:
    environ = clean_environ(tmp_path, PATH=f"{SERVER.parent}:{os.environ['PATH']}")
    command = ["bash", "-euc", block.text]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=PATIENCE_S)
    assert (done.returncode, done.stderr) == (0, "")
    assert "flower-server token add" in block.text


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here")
def test_the_unit_is_one_that_systemd_understands(tmp_path: Path) -> None:
    text = block("ini", "As a service")
    (command,) = (line.partition("=")[2] for line in text.splitlines() if line.startswith("ExecStart="))
    assert command == "/opt/flower/.venv/bin/flower-server serve"
    unit = tmp_path / "flower.service"
    unit.write_text(text.replace("/opt/flower/.venv/bin/flower-server", str(SERVER)))
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, timeout=PATIENCE_S)
    ours = [line for line in done.stderr.splitlines() if "flower.service" in line]
    assert ours == []


def test_the_container_file_takes_what_is_there_and_starts_the_server() -> None:
    lines = block("dockerfile", "In a container").replace("\\\n", " ").splitlines()
    steps = [line.split(maxsplit=1) for line in lines if line and not line.startswith("#")]
    assert [name for name, _ in steps] == [
        *("FROM", "RUN", "WORKDIR", "COPY", "COPY", "COPY", "RUN", "RUN", "USER", "ENV", "VOLUME", "WORKDIR"),
        *("EXPOSE", "STOPSIGNAL", "HEALTHCHECK", "CMD"),
    ]
    for source in (part for name, rest in steps if name == "COPY" for part in rest.split()[:-1]):
        assert (ROOT / source).exists(), source
    needed = {"README.md", "LICENSE", "setup.cfg", "pyproject.toml", "constraints.txt", "flower_core", "flower_http"}
    assert {part for name, rest in steps if name == "COPY" for part in rest.split()[:-1]} == needed
    last = dict(steps)
    assert json.loads(last["CMD"]) == ["flower-server", "serve"]
    check = json.loads(last["HEALTHCHECK"].partition("CMD ")[2])
    assert check[:2] == ["python", "-c"]
    compile(check[2], "HEALTHCHECK", "exec")
    assert dict(pair.split("=") for pair in shlex.split(last["ENV"]))["FLOWER_DATA_DIR"] == last["VOLUME"]


def test_the_example_for_prometheus_is_yaml() -> None:
    (job,) = yaml.safe_load(block("yaml", "Metrics"))["scrape_configs"]
    assert job["static_configs"] == [{"targets": ["127.0.0.1:8420"]}]
