"""Where agents have a user of their own, the server's git runs as that user, and before they are let in not at all."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.repositories import git, repository

pytestmark = pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="takes root on Linux")
UID, GID = 65534, 0x70000007
#: Stands before the real git on the path, and notes as whom it is run, and with which variables.
NOTING_GIT = """#!/bin/sh
{{ id -u; id -g; id -G; env | cut -d= -f1 | sort | tr '\\n' ' '; echo; }} > {notes}/called
exec {git} "$@"
"""
#: In a process of its own: what is entrusted stays so for as long as a process lives.
PRELUDE = f"""
import os, sys
from pathlib import Path
from flower_core.claude.launch import hand_over
from flower_core.git_program import ask_git
from flower_core.quiet_git import quiet
from flower_core.rights import entrust
from flower_core.worktrees import check_repository, prepare_repository

home = Path(sys.argv[1])
root, one, called = home / "root", home / "root" / "one", home / "notes" / "called"
entrust(root, {UID})
os.umask(0o077)


def tried(act):
    try:
        return act()
    except ValueError as error:
        return error
"""
AS_WHOM = f"[{str(UID)!r}, {str(GID)!r}, {str(GID)!r}]"


@pytest.fixture
def home() -> Iterator[Path]:
    """A directory that other users may cross, with a repository in ``root/one`` and a git that notes who calls it."""
    with tempfile.TemporaryDirectory() as made:
        home = Path(made).resolve()
        home.chmod(0o711)
        for name, mode in (("root", 0o711), ("bin", 0o755), ("notes", 0o777)):
            (home / name).mkdir()
            (home / name).chmod(mode)
        noting = home / "bin" / "git"
        noting.write_text(NOTING_GIT.format(notes=home / "notes", git=shutil.which("git")))
        noting.chmod(0o755)
        repository(home / "root" / "one").chmod(0o700)
        yield home


def said(home: Path, program: str) -> list[str]:
    """The lines that ``program`` prints, run as root with variables that are the server's own."""
    environ = {"PATH": f"{home / 'bin'}:{os.environ['PATH']}", "HOME": "/root", "SECRET": "x", "LC_ALL": "C.UTF-8"}
    command = [sys.executable, "-c", PRELUDE + program, str(home)]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_git_is_run_as_the_agents_and_makes_only_what_is_theirs(home: Path) -> None:
    program = f"""
hand_over(one, {UID}, {GID})
print(check_repository(one) == one / ".git")
print(called.read_text().split()[:3])
print(*sorted(set(called.read_text().split()[3:]) - {{"PWD", "SHLVL", "OLDPWD", "_"}}))
(one / ".git/info/exclude").unlink()
prepare_repository(one)
about = (one / ".git/info/exclude").stat()
print(about.st_uid, about.st_gid)
"""
    lines = said(home, program)
    assert lines == ["True", AS_WHOM, "GIT_ALLOW_PROTOCOL GIT_NO_LAZY_FETCH HOME PATH", f"{UID} {GID}"]


def test_before_agents_are_let_in_git_is_not_run_and_what_can_be_seen_without_it_is_refused(home: Path) -> None:
    (home / "root" / "two").mkdir()
    program = """
print(check_repository(one) == one / ".git")
print(tried(lambda: check_repository(root / "two")))
"""
    lines = said(home, program)
    assert lines[0] == "True"
    assert "needs the top of a git repository" in lines[1]
    assert not (home / "notes" / "called").exists()


def test_a_repository_without_a_commit_is_refused_once_they_are_in(home: Path) -> None:
    repository(home / "root" / "two", commit=False)
    lines = said(home, f'hand_over(root / "two", {UID}, {GID})\nprint(tried(lambda: check_repository(root / "two")))\n')
    assert "needs a commit to start from" in lines[0]


def test_no_link_or_include_of_theirs_tells_them_of_what_is_closed_to_them(home: Path) -> None:
    vault = repository(home / "vault")
    git(vault, "config", "filter.hidden.clean", "cat")
    # The way there is closed, the place itself is not: who starts there gets in.
    (vault / ".git").chmod(0o755)
    home.joinpath("vault").chmod(0o755)
    closed = home / "closed"
    closed.mkdir(mode=0o700)
    vault.rename(closed / "vault")
    one = home / "root" / "one"
    (one / "link").symlink_to(closed / "vault")
    git(one, "config", "include.path", str(closed / "vault" / ".git" / "config"))
    program = f"""
hand_over(one, {UID}, {GID})
print(repr(ask_git(one / "link", "rev-parse", "--show-toplevel")))
print("hidden" in quiet("git status", one), "hidden" in quiet("git status", one / "link", workspace=one))
"""
    assert said(home, program) == ["''", "False False"]


def test_a_look_anywhere_is_prepared_as_them_and_from_the_configuration_it_will_have(home: Path) -> None:
    program = f"""
hand_over(one, {UID}, {GID})
place = one / "place"
place.mkdir()
(place / ".gitconfig").write_text("[filter \\"theirs\\"]\\n\\tclean = cat\\n")
hand_over(one, {UID}, {GID})
environ = {{"PATH": os.environ["PATH"], "HOME": str(place)}}
print("filter.theirs.clean" in quiet("git status", "/", workspace=one, environ=environ))
print(called.read_text().split()[:3])
"""
    assert said(home, program) == ["True", AS_WHOM]
