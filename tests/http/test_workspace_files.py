"""What can be read below a workspace, and above all what cannot."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from flower_http.errors import Problem
from flower_http.files import Listing, OpenFile, Tree
from tests.http.run_world import refused

SECRET = b"the secret"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with workspace ``ws``, and a secret beside it."""
    workspace = tmp_path / "root" / "ws"
    (workspace / "deep/er").mkdir(parents=True)
    (workspace / "a.txt").write_bytes(b"0123456789")
    (workspace / "deep/er/b.txt").write_bytes(b"deep")
    (tmp_path / "root" / "secret").write_bytes(SECRET)
    return tmp_path / "root"


@pytest.fixture
def tree(root: Path) -> Tree:
    return Tree.at(root / "ws", root)


def content(tree: Tree, path: bytes) -> bytes:
    opened = tree.open(path)
    assert opened is not None
    with opened:
        return opened.read()


def names(listing: Listing) -> list[bytes]:
    return [entry.name for entry in listing.entries]


def test_files_are_read_and_directories_listed_by_name(tree: Tree) -> None:
    assert content(tree, b"a.txt") == b"0123456789"
    assert content(tree, b"deep/er/b.txt") == b"deep"
    assert tree.open(b"deep") is None
    found = tree.list(b"", limit=10)
    assert [(each.name, each.kind, each.size) for each in found.entries] == [
        (b"a.txt", "file", 10),
        (b"deep", "directory", None),
    ]
    assert found.following is None


@pytest.mark.parametrize(
    "path",
    [
        b"..",
        b"../secret",
        b"deep/../../secret",
        b"deep/..",
        b".",
        b"./a.txt",
        b"/etc/passwd",
        b"//etc/passwd",
        b"deep//er",
        b"deep/",
        b"a.txt\0",
        b"\0",
        b"a.txt/more",
        b"x" * 256,
        b"a/" * 3000 + b"a",
        "．．/secret".encode(),  # full-width dots, which some file systems fold
        b"\xc0\xae\xc0\xae/secret",  # overlong dots
        b"..\\secret",
        b"nothing",
    ],
)
def test_whatever_is_no_way_down_leads_nowhere(tree: Tree, path: bytes) -> None:
    for act in (lambda: tree.open(path), lambda: tree.list(path, limit=10)):
        assert refused(act).slug == "unknown-file"


def test_links_are_shown_and_never_followed(tree: Tree, root: Path) -> None:
    workspace = root / "ws"
    (workspace / "out").symlink_to(root / "secret")
    (workspace / "up").symlink_to(root)
    (workspace / "in").symlink_to(workspace / "a.txt")
    (workspace / "loop").symlink_to(workspace / "loop")
    kinds = {entry.name: (entry.kind, entry.size) for entry in tree.list(b"", limit=10).entries}
    assert {kinds[name] for name in (b"out", b"up", b"in", b"loop")} == {("symlink", None)}
    for path in (b"out", b"up", b"up/secret", b"up/ws/a.txt", b"in", b"loop", b"loop/x"):
        problem = refused(lambda path=path: tree.open(path))  # type: ignore[misc]
        assert problem.slug == "unknown-file", path


def test_a_workspace_that_has_become_a_link_is_not_followed_either(tree: Tree, root: Path) -> None:
    (root / "ws").rename(root / "moved")
    (root / "ws").symlink_to("/etc")
    assert refused(lambda: tree.open(b"passwd")).slug == "unknown-file"
    assert refused(lambda: tree.list(b"", limit=10)).slug == "unknown-file"


def test_pipes_sockets_and_devices_are_shown_and_never_waited_for(tree: Tree, root: Path) -> None:
    os.mkfifo(root / "ws" / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(root / "ws" / "socket"))
        for name in (b"pipe", b"socket"):
            assert refused(lambda name=name: tree.open(name)).slug == "unknown-file"  # type: ignore[misc]
    assert {entry.kind for entry in tree.list(b"", limit=10).entries if entry.name in (b"pipe", b"socket")} == {"other"}
    assert refused(lambda: Tree(Path("/dev")).open(b"zero")).slug == "unknown-file"


def outcomes_during(exchange: Callable[[], None], look: Callable[[], bytes]) -> set[bytes]:
    """What ``look`` gives or is refused with while another thread goes on with ``exchange``: two or more."""
    done = threading.Event()

    def go_on() -> None:
        while not done.is_set():
            exchange()

    seen: set[bytes] = set()
    tries = 0
    deadline = time.monotonic() + 10
    attacker = threading.Thread(target=go_on)
    attacker.start()
    try:
        while (tries < 2000 or len(seen) < 2) and time.monotonic() < deadline:
            tries += 1
            try:
                seen.add(look())
            except Problem as problem:
                seen.add(problem.slug.encode())
    finally:
        done.set()
        attacker.join(10)
    return seen


@pytest.mark.parametrize("bad", ["link", "pipe"])
def test_a_file_exchanged_while_it_is_opened_gives_what_it_was_or_nothing(tree: Tree, root: Path, bad: str) -> None:
    target, spare = root / "ws" / "a.txt", root / "ws" / "spare"

    def exchange() -> None:
        if bad == "link":
            spare.symlink_to(root / "secret")
        else:
            os.mkfifo(spare)
        os.replace(spare, target)
        spare.write_bytes(b"good")
        os.replace(spare, target)

    target.write_bytes(b"good")
    assert outcomes_during(exchange, lambda: content(tree, b"a.txt")) == {b"good", b"unknown-file"}


def test_a_parent_exchanged_for_a_link_leads_nowhere_else(tree: Tree, root: Path) -> None:
    workspace = root / "ws"
    (root / "elsewhere").mkdir()
    (root / "elsewhere" / "b.txt").write_bytes(SECRET)
    (workspace / "deep/b.txt").write_bytes(b"good")

    def exchange() -> None:
        (workspace / "deep").rename(workspace / "real")
        (workspace / "deep").symlink_to(root / "elsewhere")
        (workspace / "deep").unlink()
        (workspace / "real").rename(workspace / "deep")

    assert outcomes_during(exchange, lambda: content(tree, b"deep/b.txt")) == {b"good", b"unknown-file"}


def test_a_large_directory_comes_in_parts_that_miss_nothing(tree: Tree, root: Path) -> None:
    expected = sorted(f"f{number:03}".encode() for number in range(100))
    for name in expected:
        (root / "ws/deep/er" / name.decode()).touch()
    (root / "ws/deep/er/b.txt").unlink()
    seen: list[bytes] = []
    after: bytes | None = b""
    while after is not None:
        part = tree.list(b"deep/er", limit=30, after=after)
        assert len(part.entries) <= 30
        seen += names(part)
        after = part.following
    assert seen == expected


def test_names_that_are_no_text_and_times_beyond_the_calendar_are_harmless(tree: Tree, root: Path) -> None:
    odd = os.fsencode(root / "ws") + b"/\xff\n\x1b[31m"
    with open(odd, "wb") as file:
        file.write(b"odd")
    os.utime(odd, (10.0**12, 10.0**12))
    (entry,) = [each for each in tree.list(b"", limit=10).entries if each.name.startswith(b"\xff")]
    assert 0 <= entry.modified < 253402300800
    assert content(tree, entry.name) == b"odd"


def test_a_part_of_a_file_is_like_a_file(tree: Tree) -> None:
    opened = tree.open(b"a.txt")
    assert isinstance(opened, OpenFile)
    with opened:
        opened.narrow(2, 6)
        assert (opened.seek(0, os.SEEK_END), opened.seek(1), opened.tell()) == (4, 1, 1)
        assert (opened.read(2), opened.read(), opened.read()) == (b"34", b"5", b"")


def test_a_file_that_shrinks_while_it_is_read_is_no_endless_wait_and_one_that_grows_ends(
    tree: Tree, root: Path
) -> None:
    opened = tree.open(b"a.txt")
    assert opened is not None
    with opened:
        with (root / "ws/a.txt").open("ab") as file:
            file.write(b"more")
        assert opened.read(5) == b"01234"
        os.truncate(root / "ws/a.txt", 5)
        with pytest.raises(OSError, match="shorter"):
            opened.read(5)


def test_what_is_opened_is_closed_again(tree: Tree, root: Path) -> None:
    os.mkfifo(root / "ws" / "pipe")
    before = len(os.listdir("/proc/self/fd"))
    for path in (b"a.txt", b"deep", b"pipe", b"..", b"nothing/at/all", b"a.txt/x", b"deep/er/b.txt"):
        try:
            opened = tree.open(path)
            if opened is not None:
                opened.close()
            else:
                tree.list(path, limit=1)
        except Problem:
            pass
    assert len(os.listdir("/proc/self/fd")) == before
