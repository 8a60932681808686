"""The manifest: one row per step, two processes at once, and files somebody broke."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from dataclasses import asdict, fields
from pathlib import Path

import pytest

from flower_core.manifest import Manifest, StepResult

WRITER = """
import sys
from flower_core.manifest import Manifest, StepResult
path, run = sys.argv[1:]
manifest = Manifest(path, run)
print("ready", flush=True)
sys.stdin.readline()
for n in range(25):
    manifest.record(StepResult(step=f"step{n}", started_at=float(n), text="x" * 500))
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs" / "manifest.json"


def test_a_row_is_the_step_result_with_duration_and_run(path: Path) -> None:
    result = StepResult(
        "干活", "s1", True, 0.5, 3, "done", "", 100.0, 102.5, 2, ["e"], resumed=True, retired=["s0"], context=7
    )
    Manifest(path, "run-1").record(result)
    assert Manifest(path, "other").rows() == [{"run": "run-1", **asdict(result), "duration_s": 2.5}]
    assert "干活" in path.read_text(encoding="utf-8")


def test_the_defaults_are_those_of_a_step_that_has_not_run() -> None:
    result = StepResult("x")
    assert [field.name for field in fields(StepResult)][:3] == ["step", "session_id", "ok"]
    assert (result.ok, result.attempts, result.errors, result.retired, result.duration_s) == (False, 1, [], [], 0.0)
    assert StepResult("x", started_at=5.0).duration_s == 0.0
    assert StepResult("x", started_at=5.0, ended_at=4.0).duration_s == 0.0


def test_the_same_step_and_start_replaces_its_row_in_place(path: Path) -> None:
    manifest = Manifest(path, "a")
    manifest.record(StepResult("one", started_at=1.0))
    manifest.record(StepResult("two", started_at=2.0))
    manifest.record(StepResult("one", started_at=1.0, ok=True, ended_at=3.0))
    manifest.record(StepResult("one", started_at=9.0))
    Manifest(path, "b").record(StepResult("one", started_at=1.0))
    rows = [(row["run"], row["step"], row["started_at"], row["ok"]) for row in manifest.rows()]
    assert rows == [
        ("a", "one", 1.0, True),
        ("a", "two", 2.0, False),
        ("a", "one", 9.0, False),
        ("b", "one", 1.0, False),
    ]
    assert [row["step"] for row in manifest.rows("a")] == ["one", "two", "one"]
    assert len(manifest.rows("b")) == 1
    assert manifest.rows("none") == []


def test_two_processes_at_once_lose_nothing(path: Path) -> None:
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), run], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for run in ("a", "b")
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        writer.communicate("go\n", timeout=60)
    assert [writer.returncode for writer in writers] == [0, 0]
    for run in ("a", "b"):
        assert [row["step"] for row in Manifest(path, "x").rows(run)] == [f"step{n}" for n in range(25)]
    assert list(path.parent.glob("*corrupt*")) == []
    assert list(path.parent.glob(".*.tmp")) == []


def test_threads_lose_nothing_either_and_readers_always_see_whole_rows(path: Path) -> None:
    done = threading.Event()
    seen: list[int] = []

    def write(run: str) -> None:
        for number in range(15):
            Manifest(path, run).record(StepResult(f"s{number}", started_at=float(number)))

    def read() -> None:
        while not done.is_set():
            seen.append(len(Manifest(path, "r").rows()))

    reader = threading.Thread(target=read)
    writers = [threading.Thread(target=write, args=(run,)) for run in "abc"]
    for thread in (reader, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    reader.join()
    assert len(Manifest(path, "r").rows()) == 45
    assert seen == sorted(seen)


@pytest.mark.parametrize("content", ["{", "", "{}", "[1]", "null", '[{"run": "a"}', "\x00", "[" * 100_000, "[{}, 3]"])
def test_a_corrupt_manifest_is_set_aside_and_never_an_error(path: Path, content: str) -> None:
    path.parent.mkdir()
    path.write_text(content, encoding="utf-8")
    manifest = Manifest(path, "a")
    assert manifest.rows() == []
    manifest.record(StepResult("one"))
    assert [row["step"] for row in manifest.rows()] == ["one"]
    (aside,) = path.parent.glob("manifest.json.corrupt-*")
    assert aside.read_text(encoding="utf-8") == content


def test_bytes_that_are_no_text_are_set_aside_too(path: Path) -> None:
    path.parent.mkdir()
    for number in range(3):
        path.write_bytes(b"\xff\xfe\x00" + bytes([number]))
        Manifest(path, "a").record(StepResult("one"))
    assert len(list(path.parent.glob("*.corrupt-*"))) == 3


def test_rows_of_a_missing_manifest_are_none_and_make_no_file(path: Path) -> None:
    assert Manifest(path, "a").rows() == []
    assert not path.parent.exists()


def test_what_json_cannot_hold_is_written_all_the_same(path: Path) -> None:
    Manifest(path, "a").record(StepResult("x", text="\ud800", cost_usd=float("nan"), context=2**70))
    (row,) = json.loads(path.read_text(encoding="utf-8"), parse_constant=lambda name: pytest.fail(name))
    assert row["text"] == "?"
    assert row["context"] == str(2**70)


def test_fields_of_a_later_version_are_kept(path: Path) -> None:
    path.parent.mkdir()
    path.write_text('[{"run": "a", "step": "s", "started_at": 1.0, "new": 1}]')
    Manifest(path, "b").record(StepResult("t"))
    assert Manifest(path, "b").rows("a") == [{"run": "a", "step": "s", "started_at": 1.0, "new": 1}]
