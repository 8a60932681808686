"""The launcher of a server that is root: nothing of root is left in what it becomes, and nothing is given away."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from flower_core.claude import launch

pytestmark = pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="takes root on Linux")
UID, GID = 65534, 0x70000007


def test_it_gives_up_root_with_all_its_groups_for_good(tmp_path: Path) -> None:
    command = [sys.executable, "-I", "-S", launch.__file__, "/bin/cat", "/proc/self/status"]
    environ = {"FLOWER_RUN_AS": f"{UID}:{GID}", "CLAUDE_CONFIG_DIR": str(tmp_path)}
    done = subprocess.run(command, env=environ, cwd="/", capture_output=True, text=True, check=True, timeout=30)
    rows = {name: value.split() for name, _, value in (line.partition(":") for line in done.stdout.splitlines())}
    assert (rows["Uid"], rows["Gid"], rows["Groups"]) == ([str(UID)] * 4, [str(GID)] * 4, [])
    assert {int(rows[name][0], 16) for name in ("CapPrm", "CapEff", "CapInh", "CapAmb")} == {0}
    assert (rows["NoNewPrivs"], rows["Umask"]) == (["1"], ["0077"])


def test_the_kernel_still_tells_it_of_its_parents_death(tmp_path: Path) -> None:
    ask = "import ctypes; got = ctypes.c_int(); ctypes.CDLL(None).prctl(2, ctypes.byref(got)); print(got.value)"
    run = (
        "import os, sys; from flower_core.claude import launch; "
        f"os.execve = lambda program, command, environ: exec({ask!r}); launch.main(sys.argv[1:])"
    )
    environ = {**os.environ, "FLOWER_RUN_AS": f"{UID}:{GID}", "CLAUDE_CONFIG_DIR": str(tmp_path)}
    environ.pop("FLOWER_PARENT_PID", None)
    command = [sys.executable, "-c", run, "/bin/true"]
    done = subprocess.run(command, env=environ, cwd="/", capture_output=True, text=True)
    assert done.stdout == "2\n", done.stderr


def test_it_starts_nowhere_where_the_user_could_not_go_itself() -> None:
    with tempfile.TemporaryDirectory() as made:  # those that pytest makes are root's alone
        home = Path(made).resolve()
        theirs = home / "closed" / "theirs"
        theirs.mkdir(parents=True)
        home.chmod(0o711)
        os.chown(theirs, UID, GID)
        (home / "link").symlink_to(theirs)
        assert [started_in(home / "link", mode) for mode in (0o700, 0o711)] == [False, True]


def started_in(link: Path, mode: int) -> bool:
    """Whether the launcher starts a program where ``link`` leads, with ``mode`` for the directory above that."""
    place = link.resolve()
    place.parent.chmod(mode)
    command = [sys.executable, "-I", "-S", launch.__file__, "/bin/touch", "reached"]
    environ = {"FLOWER_RUN_AS": f"{UID}:{GID}", "CLAUDE_CONFIG_DIR": str(link / "none")}
    done = subprocess.run(command, env=environ, cwd=link, capture_output=True, text=True, timeout=30)
    assert (done.returncode == 0) == (place / "reached").exists()
    return done.returncode == 0


def test_what_is_handed_over_is_theirs_but_for_links_and_second_names_of_what_is_not(tmp_path: Path) -> None:
    vault, folder = tmp_path / "vault", tmp_path / "folder"
    (folder / "deep").mkdir(parents=True)
    vault.mkdir()
    for name in ("secret", "other"):
        (vault / name).write_text("hidden")
        (vault / name).chmod(0o600)
    (folder / "deep" / "plain").write_text("x")
    (folder / "link").symlink_to(vault / "secret")
    (folder / "way").symlink_to(vault)
    os.link(vault / "other", folder / "deep" / "second")
    launch.hand_over(folder, UID, GID)
    about = folder.stat()
    assert (about.st_uid, about.st_gid, about.st_mode & 0o7777) == (0, GID, 0o3770)
    owners = {path.name: (path.lstat().st_uid, path.lstat().st_gid) for path in folder.rglob("*")}
    assert owners == dict.fromkeys(("deep", "plain", "link", "way"), (UID, GID)) | {"second": (0, 0)}
    assert {(path.stat().st_uid, path.stat().st_gid) for path in (vault, *vault.iterdir())} == {(0, 0)}
