"""Where handoffs are kept: the newest of each step under its name, the older ones numbered in the archive."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flower_core.documents import Handoff, frozen_handoffs


def handoff(doing: str) -> Handoff:
    return Handoff(doing=doing, next="n", scene="s", lang="en")


def dated(path: Path, seconds: int) -> Path:
    """``path`` with a time of writing that leaves no doubt about the order."""
    os.utime(path, (seconds, seconds))
    return path


def test_the_newest_keeps_the_name_and_the_older_ones_are_numbered(tmp_path: Path) -> None:
    for number in range(1, 13):
        newest = dated(handoff(f"d{number}").freeze(tmp_path, "Work"), number)
    assert newest == tmp_path / "handoff-Work.md"
    assert Handoff.load(newest, lang="en").doing == "d12"
    kept = frozen_handoffs(tmp_path)
    assert [path.name for path in kept] == [f"handoff-Work-{n}.md" for n in range(1, 12)] + ["handoff-Work.md"]
    assert [Handoff.load(path, lang="en").doing for path in kept] == [f"d{n}" for n in range(1, 13)]


def test_every_step_has_its_own_and_the_list_is_in_order_of_time(tmp_path: Path) -> None:
    first = dated(handoff("a").freeze(tmp_path, "Work"), 1)
    second = dated(handoff("b").freeze(tmp_path, "Clarify"), 2)
    assert frozen_handoffs(tmp_path) == [first, second]
    third = dated(handoff("c").freeze(tmp_path, "Work"), 3)
    assert frozen_handoffs(tmp_path) == [tmp_path / "archive" / "handoff-Work-1.md", second, third]


@pytest.mark.parametrize(
    ("step", "name"),
    [
        ("干活·判定#1", "handoff-干活·判定#1.md"),
        ("../../etc/passwd", "handoff-etc-passwd.md"),
        ("a b/c\nd", "handoff-a-b-c-d.md"),
        ("///", "handoff-step.md"),
        ("x" * 300, f"handoff-{'x' * 50}.md"),
    ],
)
def test_a_step_of_any_name_gets_a_file_inside_the_notes(tmp_path: Path, step: str, name: str) -> None:
    assert handoff("a").freeze(tmp_path, step) == tmp_path / name


def test_what_is_no_file_is_no_handoff(tmp_path: Path) -> None:
    assert frozen_handoffs(tmp_path / "nothing") == []
    (tmp_path / "handoff-folder.md").mkdir()
    (tmp_path / "secret").write_text("s")
    (tmp_path / "handoff-link.md").symlink_to(tmp_path / "secret")
    assert frozen_handoffs(tmp_path) == []
