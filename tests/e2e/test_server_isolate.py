"""The play about isolated workers, through a real server and its client."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from flower_core.rehearsal.script import PLAYS_DIR
from flower_core.workbench import beside
from tests.e2e.serving import PATIENCE_S, FlowerServer, clean_environ
from tests.e2e.test_agent_user import NAME, can_be_used
from tests.repositories import git, repository

pytestmark = pytest.mark.e2e
CLIENT = Path(sys.executable).parent / "flower-client"


def client(server: FlowerServer, *words: str) -> subprocess.CompletedProcess[str]:
    command = [str(CLIENT), "--url", server.url, *words]
    environ = clean_environ(server.data_dir.parent)
    return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=PATIENCE_S)


def quick_play(folder: Path) -> Path:
    """The play without its pauses."""
    text = (PLAYS_DIR / "isolate.toml").read_text(encoding="utf-8")
    quick = folder / "isolate.toml"
    quick.write_text(re.sub(r"(?m)^(delay|gap) = .*$", r"\1 = 0", text), encoding="utf-8")
    return quick


@pytest.mark.skipif(not can_be_used(), reason="takes root on Linux")
def test_an_isolated_run_works_as_another_user_and_takes_an_earlier_workbench_along(tmp_path: Path) -> None:
    play, home = quick_play(tmp_path), Path(tempfile.mkdtemp())
    home.chmod(0o711)  # other users may cross it; those that pytest makes are root's alone
    with FlowerServer(home / "data", f"--rehearse={play}", "--agent-user", NAME) as server:
        workspace = repository(server.data_dir / "workspaces" / "songs")
        before = server.start_run("Sing", workspace="songs", clarify_only=True)
        assert server.wait_for(before["id"], "succeeded", "failed")["state"] == "succeeded", server.log()
        run = server.wait_for(server.start_run("", workspace="songs", isolate=True)["id"], "succeeded", "failed")
        assert (run["state"], run["verdict"]["state"]) == ("succeeded", "achieved"), (run, server.log())
        assert len((workspace / "song.txt").read_text().splitlines()) == 2
        assert (beside(workspace) / "notes" / "brief.md").is_file()
        assert not (workspace / ".flower").exists()
    shutil.rmtree(home)


def test_an_isolated_run_from_start_to_deletion(tmp_path: Path) -> None:
    with FlowerServer(tmp_path / "data", f"--rehearse={quick_play(tmp_path)}") as server:
        refused = client(server, "start", "Sing", "--isolate", "--workspace", "songs")
        assert "isolate needs a git repository" in refused.stderr
        workspace = repository(server.data_dir / "workspaces" / "songs")
        run_id = client(server, "start", "Sing", "--isolate", "--workspace", "songs").stdout.split()[0]
        run = server.wait_for(run_id, "succeeded", "failed")
        assert (run["state"], run["verdict"]["state"]) == ("succeeded", "achieved"), run
        assert sorted((workspace / "song.txt").read_text().splitlines()) == [
            "First verse: there was a task.",
            "Second verse: and it was done.",
        ]
        assert git(workspace, "status", "--short") == ""
        # What was agreed on lies beside the workspace, and can be read as ever, also after it is gone.
        bench = beside(workspace)
        assert (bench / "notes" / "goal.md").is_file()
        documents = server.get(f"/runs/{run_id}/documents")["documents"]
        assert [document["name"] for document in documents] == ["brief", "goal"]
        # Nobody else can work there.
        taken = client(server, "start", "Steal", "--workspace", bench.name)
        assert "workbenches lie there" in taken.stderr
        shutil.rmtree(bench)
        assert server.fetch("GET", f"/runs/{run_id}/documents/goal")[0] == 200
        assert server.fetch("DELETE", f"/runs/{run_id}")[0] == 204
        assert (workspace / "song.txt").is_file()
