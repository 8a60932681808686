"""Files: whole or not at all, with the mode they had, and one writer at a time."""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from flower_core.files import MOST_BYTES, append_text, atomic_write, locked, private_file, read_text


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_write_makes_parents_replaces_the_content_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "a.md"
    for content in ("第一\r\n", "second"):
        atomic_write(path, content)
        assert path.read_bytes() == content.encode()
    assert [file.name for file in path.parent.iterdir()] == ["a.md"]


def test_a_written_file_keeps_its_mode_and_a_new_one_has_that_of_any_other(tmp_path: Path) -> None:
    ordinary, new, private = tmp_path / "ordinary", tmp_path / "new", tmp_path / "private"
    ordinary.write_text("x")
    private.write_text("x")
    private.chmod(0o600)
    atomic_write(new, "x")
    atomic_write(private, "y")
    assert mode_of(new) == mode_of(ordinary)
    assert mode_of(private) == 0o600


def test_a_failed_write_leaves_the_old_content_and_no_scraps(tmp_path: Path) -> None:
    target = tmp_path / "a"
    target.mkdir()
    (target / "kept").write_text("kept")
    with pytest.raises(OSError, match="a"):
        atomic_write(target, "new")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (target / "kept").read_text() == "kept"


def test_text_that_cannot_be_encoded_is_written_all_the_same(tmp_path: Path) -> None:
    atomic_write(tmp_path / "a", "a\ud800b")
    append_text(tmp_path / "a", "\udfff")
    assert (tmp_path / "a").read_text() == "a?b?"


def test_appending_makes_the_file_and_keeps_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "notes" / "log.md"
    append_text(path, "one\n")
    append_text(path, "two\r\n")
    assert path.read_bytes() == b"one\ntwo\r\n"


def test_a_lock_is_held_against_threads_too_and_let_go_after_an_error(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    entered = threading.Event()

    def second() -> None:
        with locked(path):
            entered.set()

    def failing() -> None:
        with locked(path):
            thread.start()
            assert not entered.wait(0.1)
            raise KeyError(path)

    thread = threading.Thread(target=second)
    with pytest.raises(KeyError):
        failing()
    assert entered.wait(5)
    thread.join(5)


def test_a_lock_that_is_not_let_go_is_an_error_in_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    later = itertools.count(time.monotonic(), 4.0)
    monkeypatch.setattr(time, "monotonic", lambda: next(later))
    with locked(tmp_path / "lock"), pytest.raises(TimeoutError, match="does not let go"), locked(tmp_path / "lock"):
        raise AssertionError("both have it")


@pytest.mark.parametrize(
    "act",
    [
        read_text,
        lambda path: append_text(path, "x"),
        lambda path: locked(path).__enter__(),
    ],
    ids=["read", "append", "lock"],
)
@pytest.mark.parametrize("kind", ["pipe", "pipe that is read", "directory", "device"])
def test_what_is_no_file_is_an_error_and_not_waited_for(
    tmp_path: Path, kind: str, act: Callable[[Path], object]
) -> None:
    path = tmp_path / "a"
    with contextlib.ExitStack() as undo:
        if kind == "directory":
            path.mkdir()
        elif kind == "device":
            path.symlink_to("/dev/zero")
        else:
            os.mkfifo(path)
        if kind == "pipe that is read":
            undo.callback(os.close, os.open(path, os.O_RDONLY | os.O_NONBLOCK))
        with pytest.raises(OSError, match="a"):
            act(path)


def test_a_file_that_nobody_has_written_by_hand_is_not_read_into_memory(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.touch()
    for size, readable in ((MOST_BYTES + 1, False), (3, True)):
        os.truncate(path, size)
        with contextlib.nullcontext() if readable else pytest.raises(OSError, match="more than"):
            assert read_text(path) == "\0" * 3


def test_line_ends_are_line_feeds(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1\r\n2\r3\n\xff")
    assert read_text(tmp_path / "a") == "1\n2\n3\n\ufffd"


def test_a_private_file_is_for_its_owner_alone_and_keeps_what_it_holds(tmp_path: Path) -> None:
    path = private_file(tmp_path / "deep" / "file")
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_text("kept")
    assert private_file(path).read_text() == "kept"
