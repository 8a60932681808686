"""Agents that run as a user of their own: what they reach of the server, and of each other."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flower_core.claude.agent_user import AgentUser
from flower_core.claude.environment import agent_program
from flower_core.errors import AgentUserUnusable
from flower_core.rehearsal import RehearsalServer
from tests.e2e.serving import PATIENCE_S, SERVER, WAIT, FlowerServer, clean_environ, of_kind
from tests.support import eventually

NAME = "nobody"


def can_be_used() -> bool:
    """Whether this is root on Linux, with such a user, and an agent program that others can execute."""
    if sys.platform != "linux" or os.geteuid() != 0 or NAME not in {entry.pw_name for entry in pwd.getpwall()}:
        return False
    return all(parent.stat().st_mode & 0o001 for parent in agent_program().parents)


pytestmark = [pytest.mark.e2e, pytest.mark.skipif(not can_be_used(), reason="takes root on Linux")]


@pytest.fixture
def home() -> Iterator[Path]:
    """A directory that other users may cross; those that pytest makes are root's alone."""
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o711)
        yield Path(made)


def test_a_whole_run_works_as_another_user_also_after_a_kill(home: Path) -> None:
    with FlowerServer.rehearsing(home, "--agent-user", NAME, gated=True) as server:
        run = server.start_run(timeout_s=0, goal=False)
        server.wait_for_worker(run)
        assert {os.stat(f"/proc/{process}").st_uid for process in server.agents()} == {pwd.getpwnam(NAME).pw_uid}
        server.kill()
        eventually(lambda: not server.agents(), PATIENCE_S)
        (server.workspace(run) / "begun").unlink()
        server.start_again()
        server.wait_for_worker(run)
        server.let_go(run)
        done = server.wait_for(run["id"], "succeeded", "failed")
        assert done["state"] == "succeeded", (done, server.log())
        assert of_kind(server.events(run["id"]), "unknown") == []
        files = [path.lstat() for path in server.workspace(run).rglob("*")]
        assert {about.st_uid for about in files} <= {0, pwd.getpwnam(NAME).pw_uid}
        names = {each["name"] for each in server.get(f"/runs/{run['id']}/files")["entries"]}
        assert "greeting.txt" in names
        assert "brief" in {each["name"] for each in server.get(f"/runs/{run['id']}/documents")["documents"]}
        assert server.fetch("DELETE", f"/runs/{run['id']}")[0] == 204
        assert not (server.data_dir / "config" / run["id"]).exists()


LOOK = """
echo uid=$(id -u) groups=$(id -G)
for f in {data}/journal.db {data}/tokens.json {data}/server.lock /proc/{server}/environ /proc/{server}/mem \
    {data}/workspaces/one/secret.txt {data}/workspaces/one/.flower/INDEX.md; do
  head -c 1 "$f" > /dev/null && echo "READ $f"; done
for d in {data} {data}/books {data}/config {data}/tmp {data}/config/{one} {data}/config/{one}/projects \
    {data}/workspaces {data}/workspaces/one; do ls "$d" > /dev/null && echo "LISTED $d"; done
touch {data}/workspaces/one/planted && echo PLANTED
for s in $(grep -ao '[^ ]*cc-socks[^ ]*' /proc/net/unix); do test -e $s && echo SOCKET; done
for p in /proc/[0-9]*; do tr '\\0' '\\n' < $p/environ | grep -a ^ANTHROPIC_API_KEY=; done | sort -u
env | grep -ac sk-canary
cat own.txt; ls $HOME > /dev/null && touch $TMPDIR/mine && echo HOME
"""


def test_of_two_side_by_side_neither_reads_the_other_or_the_server(home: Path) -> None:
    play: dict[str, Any] = {
        "sitter": [{"tools": [["Bash", {"command": f"echo hidden > secret.txt; {WAIT}"}]]}, {"text": "Done."}],
        "hunter": [{"tools": [["Bash", {"command": "sh look.sh 2> /dev/null"}]]}, {"text": "Found: {result}"}],
    }
    with RehearsalServer(play) as model:
        environ = clean_environ(home, ANTHROPIC_BASE_URL=model.url, ANTHROPIC_API_KEY="sk-canary-0123456789")
        with FlowerServer(home / "data", "--agent-user", NAME, "--max-runs", "2", environ=environ) as server:
            flow = {"flow": "once", "tools": ["Bash"], "timeout_s": 0}
            one = server.start_run("Sit", instructions="flower-role: sitter", workspace="one", **flow)
            server.wait_for_worker(one)
            assert server.process is not None
            look = LOOK.format(data=server.data_dir, server=server.process.pid, one=one["id"])
            (server.data_dir / "workspaces" / "two").mkdir()
            (server.data_dir / "workspaces" / "two" / "look.sh").write_text(look)
            (server.data_dir / "workspaces" / "two" / "own.txt").write_text("MINE\n")
            two = server.start_run("Hunt", instructions="flower-role: hunter", workspace="two", **flow)
            done = server.wait_for(two["id"], "succeeded", "failed")
            assert done["state"] == "succeeded", (done, server.log())
            first, *found = done["result"].removeprefix("Found: ").strip().splitlines()
            ids = dict(part.split("=") for part in first.split())
            assert ids["uid"] == str(pwd.getpwnam(NAME).pw_uid)
            assert int(ids["groups"]) >= 0x70000000, "no group but its own"
            tokens = [line for line in found if line.startswith("ANTHROPIC_API_KEY=")]
            assert len(tokens) == 1, "its own, and not its neighbour's"
            assert [line for line in found if line not in tokens] == ["SOCKET", "0", "MINE", "HOME"], (
                "one socket, its own"
            )
            server.let_go(one)
            assert server.wait_for(one["id"], "succeeded", "failed")["state"] == "succeeded"


@pytest.mark.parametrize(("name", "said"), [("no-such-user-here", "there is no such user"), ("root", "root itself")])
def test_a_user_that_cannot_be_used_is_named(home: Path, name: str, said: str) -> None:
    with pytest.raises(AgentUserUnusable, match=f"--agent-user {name}.*{said}"):
        AgentUser.find(name, home, home / "workspaces")


def test_a_way_that_is_closed_is_refused_with_one_line(home: Path) -> None:
    shut = home / "shut"
    shut.mkdir(mode=0o700)
    done = subprocess.run(
        [SERVER, "serve", "--rehearse", "--port", "0", "--agent-user", NAME, "--data-dir", shut / "data"],
        env=clean_environ(home),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert f"cannot get through {shut} to {shut / 'data'}" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
