"""Long outputs, as the model gets to see them: a pointer and the beginning, and the file behind it can be read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from flower_core import AgentSpec, Workbench, coordinator, worker
from flower_core.rehearsal import Request
from tests.e2e.conftest import MakeStage
from tests.e2e.stage import QUICK, Stage, agent, play

pytestmark = pytest.mark.e2e
POINTER = re.compile(r"\[(\d+) characters of output; all of it is in (/\S+\.txt)\.")
LINES = "".join(f"line {number} of a file that goes on and on\n" for number in range(1, 301))
PRINT = "python3 -c \"print('begin ' + 'x' * 4994 + 'end', end='')\""
PRINT_MUCH = "python3 -c \"print('begin'); print('x\\n' * 20000); print('the last line')\""


@dataclass(frozen=True)
class Shown:
    """One result as the model was given it."""

    text: str

    @property
    def pointed_to(self) -> Path:
        """The file the first line names."""
        found = POINTER.search(self.text.splitlines()[0])
        assert found, self.text[:300]
        return Path(found[2])


def shown(stage: Stage, spec: AgentSpec, speaker: str, **more: Any) -> list[Shown]:
    """What ``speaker`` had been given back for each of its calls when it spoke last, in the order of the calls."""
    result = play(stage.runtime(**more).run(spec, "Go"))
    assert (result.ok, result.error) == (True, "")
    last: Request = [request for request in stage.requests if request.speaker == speaker][-1]
    assert [request.rejected for request in stage.requests if request.rejected] == []
    return [Shown(call.result or "") for call in last.talk.calls]


def one_by_one(*tools: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """A part that makes each call in a message of its own."""
    return [*({"tools": [list(tool)]} for tool in tools), {"text": "Enough."}]


def bench_of(stage: Stage) -> Workbench:
    (stage.workspace / "long.txt").write_text(LINES)
    return Workbench(stage.workspace, lang="en").ensure()


def test_long_outputs_go_into_files_that_can_be_read_back(staged: MakeStage) -> None:
    long = "{workspace}/long.txt"
    script = one_by_one(
        ("Bash", {"command": PRINT}),
        ("Read", {"file_path": "{spilled}"}),
        ("Grep", {"pattern": "line", "path": long, "output_mode": "content", "head_limit": 0}),
        ("Bash", {"command": PRINT_MUCH}),
        ("Bash", {"command": "python3 -c \"print('y' * 3999)\""}),
    )
    spilled = {"pattern": r"all of it is in (/\S+\.txt)\.", "in": "Bash", "default": "nothing"}
    stage = staged({"facts": {"spilled": spilled}, "agent": script})
    bash, back, grep, much, short = shown(stage, agent("Bash", "Read", "Grep"), "agent", workbench=bench_of(stage))

    whole = "begin " + "x" * 4994 + "end"
    assert bash.text == f"{bash.text.splitlines()[0]}\n{whole[:400]}"
    assert bash.pointed_to.read_text() == whole
    assert bash.pointed_to.parent == stage.workspace / ".flower" / "spill"
    assert bash.pointed_to.stat().st_mode & 0o777 == 0o600
    assert back.text.strip() == f"1\t{whole}"
    assert "line 300 of a file" in grep.pointed_to.read_text()
    assert len(grep.text) < 700
    # Above 30,000 characters the agent program itself hands on only a part; the file has all of it.
    assert much.pointed_to.read_text().endswith("the last line\n")
    assert "persisted-output" not in much.text
    assert list((stage.home / "books").rglob("tool-results/*")) == []
    assert short.text == "y" * 3999


def test_a_read_is_cut_on_the_main_thread_and_keeps_the_numbers_of_its_lines(staged: MakeStage) -> None:
    long = "{workspace}/long.txt"
    script = one_by_one(("Read", {"file_path": long}), ("Read", {"file_path": long, "offset": 100, "limit": 150}))
    stage = staged({"agent": script})
    cut, part = shown(stage, agent("Read"), "agent", workbench=bench_of(stage))
    pointer, first, second, *_ = cut.text.splitlines()
    assert pointer.startswith(f"0\t[{len(LINES)} characters, of which only the beginning is shown.")
    assert str(stage.workspace / "long.txt") in pointer
    assert first == "1\tline 1 of a file that goes on and on"
    assert second.startswith("2\tline 2")
    assert len(cut.text) < 800
    assert part.text.splitlines()[0] == "100\tline 100 of a file that goes on and on"
    assert part.text.splitlines()[149].startswith("249\t")
    assert not (stage.workspace / ".flower" / "spill").exists()


def test_a_worker_reads_whole_and_its_commands_are_spilled(staged: MakeStage) -> None:
    dispatch = ("Agent", {"subagent_type": "coder", "description": "Look", "prompt": "Look."})
    hands = {"coder": worker("Codes.", "", tools=("Bash", "Read"))}
    script = one_by_one(("Read", {"file_path": "{workspace}/long.txt"}), ("Bash", {"command": PRINT}))
    stage = staged({"coordinator": one_by_one(dispatch), "worker/coder": script})
    spec = coordinator("Lead", "", hands, lang="en", env=QUICK)
    read, bash = shown(stage, spec, "worker/coder", workbench=bench_of(stage))
    assert read.text.splitlines()[299] == "300\tline 300 of a file that goes on and on"
    assert bash.pointed_to.read_text().endswith("xend")


@pytest.mark.parametrize("how", ["no workbench", "threshold 0", "failed", "no place"])
def test_what_the_guard_cannot_or_may_not_cut_passes_whole(staged: MakeStage, how: str) -> None:
    stage = staged({"agent": one_by_one(("Bash", {"command": PRINT + ("; exit 3" if how == "failed" else "")}))})
    more: dict[str, Any] = {"workbench": bench_of(stage), "spill_threshold": 0 if how == "threshold 0" else 4000}
    if how == "no place":
        (stage.workspace / ".flower" / "spill").write_text("a file where the directory should be")
    (bash,) = shown(stage, agent("Bash"), "agent", **({} if how == "no workbench" else more))
    assert bash.text.endswith("xend")
