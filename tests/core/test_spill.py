"""The spill guard: which outputs it cuts, and what it makes of them."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from flower_core.agent import AgentSpec
from flower_core.guards import rules_for
from flower_core.output_files import OutputFiles, is_pointer
from flower_core.spill import spill
from flower_core.texts import LANGUAGES
from flower_core.workbench import Workbench

LONG = "0123456789" * 400
BASH = {"stdout": LONG, "stderr": "", "interrupted": False, "isImage": False, "noOutputExpected": False}
READ = {
    "type": "text",
    "file": {"filePath": "/space/a.txt", "content": LONG, "numLines": 1, "startLine": 1, "totalLines": 1},
}


@pytest.fixture
def outputs(tmp_path: Path) -> OutputFiles:
    return OutputFiles(tmp_path.resolve() / "spill", "en")


def call(tool: str, response: Any, *, agent_id: str | None = None, **given: Any) -> dict[str, Any]:
    thread = {} if agent_id is None else {"agent_id": agent_id}
    return {"tool_name": tool, "tool_input": given, "tool_response": response, **thread}


def cut(outputs: OutputFiles, hook: dict[str, Any], threshold: int = 4000) -> Any:
    """What the guard puts in place of the output, None when it has no opinion; what it was given is unchanged."""
    before = copy.deepcopy(hook)
    answer = spill(outputs, threshold, "en")(hook)
    assert hook == before
    if answer == {}:
        return None
    assert answer["hookSpecificOutput"]["hookEventName"] == "PostToolUse"
    return answer["hookSpecificOutput"]["updatedToolOutput"]


@pytest.mark.parametrize("agent_id", [None, "a1"])
@pytest.mark.parametrize(
    ("tool", "field", "rest"),
    [
        ("Bash", "stdout", {**BASH, "stdout": ""}),
        ("Bash", "stderr", {**BASH, "stdout": "short"}),
        ("Grep", "content", {"mode": "content", "numFiles": 0, "filenames": [LONG], "numLines": 9}),
        ("WebFetch", "result", {"bytes": 9, "code": 200, "url": "http://x.example/", "durationMs": 1}),
        ("Glob", "note", {"filenames": ["a"] * 5000, "numFiles": 5000, "truncated": False}),
    ],
)
def test_a_long_text_of_any_thread_goes_into_a_file_and_the_rest_stays(
    outputs: OutputFiles, tool: str, field: str, rest: dict[str, Any], agent_id: str | None
) -> None:
    after = cut(outputs, call(tool, {**rest, field: LONG}, agent_id=agent_id))
    (file,) = outputs.folder.iterdir()
    pointer, beginning = after[field].split("\n")
    assert (pointer, beginning) == (outputs.pointer(file, 4000), LONG[:400])
    assert file.read_text() == LONG
    assert {**after, field: ""} == {**rest, field: ""}


@pytest.mark.parametrize(
    ("tool", "response"),
    [
        ("Bash", {**BASH, "stdout": LONG[:-1]}),
        ("Bash", {**BASH, "isImage": True}),
        ("Bash", LONG),
        ("Bash", None),
        ("Glob", {"filenames": [LONG], "numFiles": 1}),
        ("Write", {"type": "create", "content": LONG}),
        ("mcp__human__ask", [{"type": "text", "text": LONG}]),
    ],
)
def test_everything_else_passes_whole(outputs: OutputFiles, tool: str, response: Any) -> None:
    assert cut(outputs, call(tool, response)) is None
    assert not outputs.folder.exists()


def test_a_read_of_the_main_thread_refers_to_the_file_itself(outputs: OutputFiles) -> None:
    after = cut(outputs, call("Read", READ, file_path="/space/a.txt"))
    pointer, beginning = after["file"]["content"].split("\n")
    assert "/space/a.txt" in pointer
    assert beginning == LONG[:400]
    assert (after["type"], after["file"]["startLine"], after["file"]["numLines"]) == ("text", 0, 2)
    assert after["file"]["totalLines"] == 1
    assert not outputs.folder.exists()


@pytest.mark.parametrize(
    "more",
    [{"agent_id": "a1"}, {"limit": 5}, {"offset": 1}, {"pages": "1-2"}],
    ids=["worker", "limit", "offset", "pages"],
)
def test_a_workers_read_and_one_of_a_part_pass_whole(outputs: OutputFiles, more: dict[str, Any]) -> None:
    assert cut(outputs, call("Read", READ, file_path="/space/a.txt", **more)) is None


@pytest.mark.parametrize(
    "response", [{"type": "image", "file": {"base64": LONG}}, {"type": "text", "file": None}, LONG]
)
def test_a_read_of_another_shape_passes_whole(outputs: OutputFiles, response: Any) -> None:
    assert cut(outputs, call("Read", response, file_path="/space/a.txt")) is None


def test_a_read_of_a_spilled_output_passes_whole(outputs: OutputFiles) -> None:
    file = outputs.keep(LONG)
    response = {**READ, "file": {**READ["file"], "filePath": str(file)}}  # type: ignore[dict-item]
    assert cut(outputs, call("Read", response, file_path=str(file))) is None


def test_of_an_output_the_agent_program_has_put_aside_all_is_kept(outputs: OutputFiles, tmp_path: Path) -> None:
    aside = tmp_path / "b1.txt"
    aside.write_bytes(b"begin\r\n" + b"x" * 50_000 + b"\xff")
    response = {**BASH, "persistedOutputPath": str(aside), "persistedOutputSize": 50_008}
    after = cut(outputs, call("Bash", response))
    (file,) = outputs.folder.iterdir()
    assert file.read_bytes() == b"begin\r\n" + b"x" * 50_000 + "�".encode()
    assert after["stdout"].startswith(outputs.pointer(file, 50_008))
    assert {**after, "stdout": LONG} == BASH
    assert not aside.exists()


def test_an_output_put_aside_that_is_gone_is_kept_as_far_as_it_is_known(outputs: OutputFiles, tmp_path: Path) -> None:
    after = cut(outputs, call("Bash", {**BASH, "persistedOutputPath": str(tmp_path / "gone.txt")}))
    assert after["stdout"].startswith("[4000 characters")


def test_the_same_output_is_kept_once_privately_and_mended_when_it_was_cut(outputs: OutputFiles) -> None:
    file = outputs.keep("é" * 10)
    assert outputs.keep("é" * 10) == file
    assert [path.name for path in outputs.folder.iterdir()] == [file.name]
    assert (file.name, file.stat().st_mode & 0o777) == ("c229567bca77bffd.txt", 0o600)
    file.write_text("cut")
    assert outputs.keep("é" * 10).read_text() == "é" * 10


@pytest.mark.parametrize("linked", ["folder", "file"])
def test_nothing_is_written_through_a_link(outputs: OutputFiles, tmp_path: Path, linked: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    if linked == "folder":
        outputs.folder.symlink_to(elsewhere)
    else:
        file = outputs.keep(LONG)
        file.unlink()
        file.symlink_to(elsewhere / "x.txt")
    with pytest.raises(OSError, match="leads elsewhere"):
        outputs.keep(LONG)
    assert list(elsewhere.iterdir()) == []


def test_only_a_pointer_alone_is_one(outputs: OutputFiles) -> None:
    for lang in LANGUAGES:
        line = OutputFiles(outputs.folder, lang).pointer(outputs.keep(LONG), 4000)
        assert is_pointer(line)
        assert not is_pointer(f"{line}\nand the beginning")
    assert not is_pointer("a.txt")


@pytest.mark.parametrize(
    ("bench", "threshold", "installed"), [(True, 4000, 1), (True, 0, 0), (True, None, 0), (False, 4000, 0)]
)
def test_it_is_installed_with_a_workbench_and_a_threshold(
    tmp_path: Path, bench: bool, threshold: int | None, installed: int
) -> None:
    workbench = Workbench(tmp_path) if bench else None
    rules = rules_for(AgentSpec("a"), workspace=tmp_path, workbench=workbench, spill_threshold=threshold)
    spilling = [rule for rule in rules if rule.event == "PostToolUse" and "Grep" in str(rule.matcher)]
    assert len(spilling) == installed
    for rule in spilling:
        answer = rule.guard(call("Bash", BASH))
        assert str(tmp_path / ".flower" / "spill") in str(answer)
