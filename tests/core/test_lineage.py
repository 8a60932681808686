"""Lineage: going on in the session of the last run, or starting afresh without a word."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flower_core.lineage import Lineage, archive


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs" / "lineage.json"


def anything(_: str) -> bool:
    return True


def test_a_session_is_on_disk_the_moment_it_is_set(path: Path, tmp_path: Path) -> None:
    lineage = Lineage(path, tmp_path)
    assert lineage.get("干活") is None
    lineage.set("干活", "s1")
    assert json.loads(path.read_text(encoding="utf-8")) == {
        "workspace": str(tmp_path.resolve()),
        "woke": False,
        "steps": {"干活": "s1"},
    }
    lineage.set("干活", "s2")
    assert Lineage(path, tmp_path).load(anything).get("干活") == "s2"
    assert lineage.steps == {"干活": "s2"}


@pytest.mark.parametrize("name", ["干活#retry1", "Work#round2", "干活·判定#1", "Work·verdict#3", "a·b", ""])
def test_suffixed_names_never_enter(path: Path, tmp_path: Path, name: str) -> None:
    Lineage(path, tmp_path).set(name, "s1")
    assert not path.exists()
    path.parent.mkdir()
    path.write_text(json.dumps({"workspace": str(tmp_path), "woke": False, "steps": {name: "s1", "Work": "s2"}}))
    assert Lineage(path, tmp_path).load(anything).steps == {"Work": "s2"}


def test_a_step_whose_session_is_gone_starts_afresh(path: Path, tmp_path: Path) -> None:
    lineage = Lineage(path, tmp_path)
    lineage.set("a", "alive")
    lineage.set("b", "gone")
    assert Lineage(path, tmp_path).load(lambda session_id: session_id == "alive").steps == {"a": "alive"}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "null",
        '{"steps": {"a": "s"}}',
        '{"workspace": 1, "steps": {"a": "s"}}',
        "[" * 100_000,
        '{"workspace": "/elsewhere", "steps": {"a": "s"}}',
    ],
)
def test_a_corrupt_or_foreign_file_starts_afresh_and_is_no_error(path: Path, tmp_path: Path, content: str) -> None:
    path.parent.mkdir()
    path.write_text(content)
    lineage = Lineage(path, tmp_path).load(anything)
    assert (lineage.steps, lineage.woke) == ({}, False)
    lineage.set("a", "new")
    assert Lineage(path, tmp_path).load(anything).steps == {"a": "new"}


def test_odd_entries_are_left_out(path: Path, tmp_path: Path) -> None:
    path.parent.mkdir()
    odd: list[object] = [[], "x", {"a": 1, "b": "", "c": None}]
    for steps in odd:
        path.write_text(json.dumps({"workspace": str(tmp_path), "woke": "yes", "steps": steps}))
        lineage = Lineage(path, tmp_path).load(anything)
        assert (lineage.steps, lineage.woke) == ({}, False)
    path.write_bytes(b"\xff\xfe")
    assert Lineage(path, tmp_path).load(anything).steps == {}


def test_a_missing_file_starts_afresh_and_loading_writes_nothing(path: Path, tmp_path: Path) -> None:
    assert Lineage(path, tmp_path).load(anything).steps == {}
    assert not path.parent.exists()
    Lineage(path, tmp_path).set("a", "s")
    before = (path.stat().st_mtime_ns, path.stat().st_ino, path.read_bytes())
    Lineage(path, tmp_path).load(lambda _: False)
    assert (path.stat().st_mtime_ns, path.stat().st_ino, path.read_bytes()) == before


def test_the_workspace_is_compared_by_its_real_path(path: Path, tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir()
    link.symlink_to(real)
    Lineage(path, link).set("a", "s")
    assert Lineage(path, real).load(anything).get("a") == "s"
    assert Lineage(path, tmp_path).load(anything).get("a") is None


def test_a_wake_is_remembered(path: Path, tmp_path: Path) -> None:
    lineage = Lineage(path, tmp_path)
    lineage.set("a", "s")
    assert not Lineage(path, tmp_path).load(anything).woke
    lineage.mark_woke()
    assert lineage.woke
    again = Lineage(path, tmp_path).load(anything)
    assert (again.woke, again.steps) == (True, {"a": "s"})


def test_archiving_moves_lineage_and_documents_aside(tmp_path: Path) -> None:
    runs, notes = tmp_path / "runs", tmp_path / "notes"
    Lineage(runs / "lineage.json", tmp_path).set("a", "s")
    notes.mkdir()
    (notes / "需求.md").write_text("brief")
    (notes / "other.md").write_text("stays")
    target = archive(runs, notes, ["需求.md", "目标.md"], "20250102-030405")
    assert target == notes / "archive" / "20250102-030405"
    assert sorted(file.name for file in target.iterdir()) == ["lineage.json", "需求.md"]
    assert sorted(file.name for file in notes.iterdir()) == ["archive", "other.md"]
    assert not (runs / "lineage.json").exists()


def test_archiving_twice_in_one_second_overwrites_nothing(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    targets = []
    for content in ("one", "two", "three"):
        (notes / "brief.md").write_text(content)
        targets.append(archive(tmp_path, notes, ["brief.md"], "stamp"))
    assert [target and (target / "brief.md").read_text() for target in targets] == ["one", "two", "three"]


def test_archiving_nothing_makes_nothing(tmp_path: Path) -> None:
    assert archive(tmp_path / "runs", tmp_path / "notes", ["brief.md"], "stamp") is None
    assert list(tmp_path.iterdir()) == []
