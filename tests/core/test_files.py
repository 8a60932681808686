"""Files: whole or not at all, with the mode they had, and one writer at a time."""

from __future__ import annotations

import stat
import threading
from pathlib import Path

import pytest

from flower_core.files import append_text, atomic_write, locked, private_file


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


def test_a_private_file_is_for_its_owner_alone_and_keeps_what_it_holds(tmp_path: Path) -> None:
    path = private_file(tmp_path / "deep" / "file")
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_text("kept")
    assert private_file(path).read_text() == "kept"
