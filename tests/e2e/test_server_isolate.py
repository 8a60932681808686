"""The play about isolated workers, through a real server and its client."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from flower_core.rehearsal.script import PLAYS_DIR
from flower_core.workbench import beside
from tests.e2e.serving import PATIENCE_S, FlowerServer, clean_environ
from tests.repositories import git, repository

pytestmark = pytest.mark.e2e
CLIENT = Path(sys.executable).parent / "flower-client"


def client(server: FlowerServer, *words: str) -> subprocess.CompletedProcess[str]:
    command = [str(CLIENT), "--url", server.url, *words]
    environ = clean_environ(server.data_dir.parent)
    return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=PATIENCE_S)


def test_an_isolated_run_from_start_to_deletion(tmp_path: Path) -> None:
    text = (PLAYS_DIR / "isolate.toml").read_text(encoding="utf-8")
    quick = tmp_path / "isolate.toml"
    quick.write_text(re.sub(r"(?m)^(delay|gap) = .*$", r"\1 = 0", text), encoding="utf-8")
    with FlowerServer(tmp_path / "data", f"--rehearse={quick}") as server:
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
