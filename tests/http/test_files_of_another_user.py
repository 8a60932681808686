"""Where agents have a user of their own, their files are read and their directories made with their rights."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="takes root on Linux")
UID, GID = 65534, 0x70000007
#: In a process of its own: what is entrusted stays so for as long as a process lives.
PRELUDE = f"""
import os, sys
from pathlib import Path
from flower_core.claude.launch import hand_over
from flower_core.rights import entrust
from flower_http.errors import Problem
from flower_http.files import Tree
from flower_http.places import Places

home = Path(sys.argv[1])
places = Places(home / "work", home / "data")
one = places.root / "one"
entrust(places.root, {UID})
os.umask(0o077)


def content(path):
    try:
        return Tree.at(one, places.root).open(path).read()
    except Problem as problem:
        return problem.detail


def names():
    return [entry.name for entry in Tree.at(one, places.root).list(b"", limit=9).entries]
"""


@pytest.fixture
def home() -> Iterator[Path]:
    """A directory that other users may cross, with an empty workspace ``work/one`` that is root's alone."""
    with tempfile.TemporaryDirectory() as made:
        home = Path(made).resolve()
        home.chmod(0o711)
        (home / "work").mkdir()
        (home / "work").chmod(0o711)
        (home / "work" / "one").mkdir(mode=0o700)
        yield home


def said(home: Path, program: str) -> list[str]:
    command = [sys.executable, "-c", PRELUDE + program, str(home)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_another_name_of_what_is_closed_to_them_shows_nothing_and_their_own_files_are_shown(home: Path) -> None:
    program = f"""
(home / "secret").write_text("hidden")
(one / "plain").write_text("theirs")
print(content(b"plain"), names())
hand_over(one, {UID}, {GID})
os.link(home / "secret", one / "second")
print(content(b"plain"), names())
print(content(b"second"))
"""
    assert said(home, program) == [
        "b'theirs' [b'plain']",
        "b'theirs' [b'plain', b'second']",
        "'second': the server may not read it",
    ]


def test_directories_in_a_workspace_that_is_theirs_are_made_as_them(home: Path) -> None:
    program = f"""
places.make(places.root / "two" / "deep")
hand_over(one, {UID}, {GID})
places.make(one / "deep" / "er")
for path in (places.root / "two" / "deep", one / "deep", one / "deep" / "er"):
    print(path.stat().st_uid, path.stat().st_gid)
"""
    assert said(home, program) == ["0 0", f"{UID} {GID}", f"{UID} {GID}"]
