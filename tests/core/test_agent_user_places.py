"""What a server that is root prepares for a run is prepared with the rights of the agents, who may have been there."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="takes root on Linux")
#: In a process of its own: what is entrusted stays so for as long as a process lives.
PROGRAM = """
import sys
from pathlib import Path
from flower_core.claude.agent_user import AgentUser

root = Path(sys.argv[1])
user = AgentUser("nobody", 65534, 65534, root / "data", root / "data" / "workspaces")
user.move_in()
config, workspace = user.data_dir / "config" / "run", user.workspace_root / "one"
try:
    print(sorted(user.admit(config, workspace, *(Path(more).resolve() for more in sys.argv[2:]))))
except PermissionError as error:
    print("refused", error.filename or error)
"""
GIVEN = "['FLOWER_RUN_AS', 'HOME', 'LOGNAME', 'TMPDIR', 'USER', 'XDG_RUNTIME_DIR']"


@pytest.fixture
def root() -> Iterator[Path]:
    """A directory that other users may cross, with a data dir in it; those that pytest makes are root's alone."""
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o711)
        (Path(made) / "data").mkdir()
        yield Path(made)


def admit(root: Path, *more: Path) -> str:
    """What comes of admitting a run to the workspace ``one`` and to ``more``, in a fresh process."""
    done = subprocess.run([sys.executable, "-c", PROGRAM, root, *more], capture_output=True, text=True, timeout=60)
    return done.stdout.strip() or done.stderr


def test_home_and_temporary_directory_are_theirs_however_often_they_are_made(root: Path) -> None:
    assert [admit(root), admit(root)] == [GIVEN, GIVEN]
    config = root / "data" / "config" / "run"
    made = [config / "home", config / "tmp", config / "home" / ".gitconfig"]
    assert {(path.stat().st_uid, path.stat().st_gid) for path in made} == {(65534, config.stat().st_gid)}
    assert made[-1].read_text() == "[safe]\n\tdirectory = *\n"


@pytest.mark.parametrize("link", ["home", "home/.gitconfig"])
def test_links_that_an_agent_has_left_lead_the_server_nowhere_that_is_not_theirs(root: Path, link: str) -> None:
    assert admit(root) == GIVEN
    vault, place = root / "vault", root / "data" / "config" / "run" / link
    vault.mkdir(mode=0o700)
    (vault / ".gitconfig").write_text("the server's")
    (root / "data" / "config" / "run" / "home" / ".gitconfig").unlink()
    if link == "home":
        place.rmdir()
    place.symlink_to(vault if link == "home" else vault / ".gitconfig")
    assert admit(root).startswith("refused")
    assert (vault / ".gitconfig").read_text() == "the server's"


@pytest.mark.parametrize("name", ["two/.flower", ".flower-two", "..", "../config"])
def test_a_workbench_that_is_a_link_to_what_is_not_theirs_gives_them_nothing(root: Path, name: str) -> None:
    workspaces = root / "data" / "workspaces"
    target = (workspaces / name).resolve()
    for place in (workspaces / "one", target):
        place.mkdir(parents=True, exist_ok=True)
    before = [path.stat() for path in (target, target.parent, workspaces)]
    (workspaces / "one" / ".flower").symlink_to(target)
    assert admit(root, workspaces / "one" / ".flower").startswith(f"refused {target} belongs to another workspace")
    after = [path.stat() for path in (target, target.parent, workspaces)]
    assert [(each.st_uid, each.st_gid) for each in after] == [(each.st_uid, each.st_gid) for each in before]


def test_a_workbench_in_the_workspace_or_beside_it_is_theirs(root: Path) -> None:
    workspaces = root / "data" / "workspaces"
    benches = [workspaces / "one" / ".flower", workspaces / ".flower-one"]
    assert admit(root, *benches) == GIVEN
    assert len({(workspaces / name).stat().st_gid for name in ("one", ".flower-one")} | {0}) == 2


def test_a_pipe_in_the_place_of_the_settings_of_git_is_not_waited_for(root: Path) -> None:
    assert admit(root) == GIVEN
    settings = root / "data" / "config" / "run" / "home" / ".gitconfig"
    settings.unlink()
    os.mkfifo(settings, 0o666)
    os.chown(settings, 65534, settings.parent.stat().st_gid)
    assert admit(root) == GIVEN
    assert settings.is_file()
