"""Sessions that are resumed after they were rewritten: what the model is given, on an endpoint that checks pairing."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import HookMatcher

from flower_core import AgentSpec, Runtime, coordinator, worker
from flower_core.rehearsal import RehearsalServer
from flower_core.rehearsal.conversation import Call
from flower_core.sessions import SqliteSessionStore
from tests.e2e.conftest import MakeStage
from tests.e2e.stage import LONG_COMMAND, QUICK, Screen, Stage, agent, play, until

pytestmark = pytest.mark.e2e
GO_ON = {"when": {"prompts": "Go on"}, "text": "On we went."}
FAILING = "python3 -c \"print('begin of a failure ' + 'z' * 3000)\"; exit 3"
RAW = "python3 -c \"print('begin'); print('x\\n' * 20000); print('the last line')\""
STALE = "has gone stale and was removed"


@dataclass
class Resumed:
    """What the model was asked at the end of a session, and as that was resumed."""

    stage: Stage
    before: list[Call]
    after: list[Call]

    def result_of(self, command: str) -> str:
        """What the resumed session says came of a call with ``command``."""
        (found,) = [call.result for call in self.after if call.input.get("command") == command]
        return found or ""


def resume(stage: Stage, spec: AgentSpec, first: Callable[[Runtime], Any], **more: Any) -> Resumed:
    """Run ``first``, which gives a result, and go on with its session in another runtime."""
    begun = play(first(stage.runtime(**more)))
    before = stage.requests[-1].talk.calls
    went_on = play(stage.runtime(**more).run(spec, "Go on", resume=begun.session_id))
    assert (went_on.ok, went_on.text) == (True, "On we went.")
    assert went_on.session_id == begun.session_id
    assert [request.rejected for request in stage.requests if request.rejected] == []
    return Resumed(stage, before, stage.requests[-1].talk.calls)


@pytest.fixture(scope="module")
def long_ago(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Resumed]:
    """A session with something of every kind, resumed. No workbench, so that nothing is spilled on the way."""
    home = tmp_path_factory.mktemp("long-ago").resolve()
    (home / "space").mkdir()
    (home / "space" / "note.txt").write_text("a note")
    denied, note = ["Read", {"file_path": "/etc/hostname"}], ["Read", {"file_path": "{workspace}/note.txt"}]
    looks = [["Bash", {"command": f"ls -{flags}"}] for flags in ("a", "l", "1", "al", "a1", "l1", "al1", "A")]
    script = [
        GO_ON,
        {"tools": [["Bash", {"command": FAILING}], ["Bash", {"command": RAW}]]},
        {"thinking": "Only a refusal will come of it.", "tools": [denied]},
        {"thinking": "Hm.", "text": "I try.", "tools": [denied, ["Bash", {"command": "echo between"}], denied]},
        {"tools": looks},
        {"tools": [note] * 12},
        {"tools": [denied, denied]},
        {"text": "Enough."},
    ]
    stage = Stage(RehearsalServer({"agent": script}, pace=0).start(), home)
    spec = agent("Bash", "Read")
    yield resume(stage, spec, lambda runtime: runtime.run(spec, "Begin"))
    stage.close()


def test_of_the_refusals_only_the_last_is_left_and_all_else_in_its_order(long_ago: Resumed) -> None:
    def told(calls: list[Call]) -> list[Any]:
        return [call.input for call in calls if "/etc/hostname" not in str(call.input)]

    refused = [call for call in long_ago.after if "/etc/hostname" in str(call.input)]
    assert len([call for call in long_ago.before if "/etc/hostname" in str(call.input)]) == 5
    assert ["lies outside the directories" in (call.result or "") for call in refused] == [True]
    assert told(long_ago.after) == told(long_ago.before)
    assert long_ago.result_of("echo between") == "between"
    said = str(long_ago.stage.requests[-1].body["messages"])
    assert "I try." in said
    assert "Only a refusal will come of it." not in said


def test_looks_older_than_the_last_six_have_expired(long_ago: Resumed) -> None:
    looks = [call for call in long_ago.after if str(call.input.get("command")).startswith("ls -")]
    # They ran side by side, so which of them were the first is not said.
    assert sorted(STALE in (call.result or "") for call in looks) == [False] * 6 + [True] * 2
    assert sum("note.txt" in (call.result or "") for call in looks) == 6


@pytest.mark.parametrize(("command", "first", "last"), [(FAILING, "Exit code 3", "zzz"), (RAW, "begin", "last line\n")])
def test_a_failure_and_a_raw_output_of_long_ago_lie_in_files_of_the_workspace(
    long_ago: Resumed, command: str, first: str, last: str
) -> None:
    found = re.fullmatch(
        r"\[\d+ characters of output; all of it is in (/\S+\.txt)\. [^\n]*\]", long_ago.result_of(command)
    )
    assert found
    file = Path(found[1])
    assert file.is_relative_to(long_ago.stage.workspace)
    assert file.read_text().startswith(first)
    assert file.read_text().endswith(last)


def test_a_copy_of_a_rewritten_session_can_be_resumed_too(long_ago: Resumed) -> None:
    runtime = long_ago.stage.runtime()
    (session,) = {request.session for request in long_ago.stage.requests}
    copy = play(runtime.run(agent("Bash", "Read"), "Go on", resume=session, fork=True))
    again = play(runtime.run(agent("Bash", "Read"), "Go on", resume=copy.session_id))
    assert (copy.ok, again.ok) == (True, True)
    assert [(c.input, c.result) for c in long_ago.stage.requests[-1].talk.calls] == [
        (c.input, c.result) for c in long_ago.after
    ]


def cut_off(long_ago: Resumed, where: int, run_dir: Path) -> str:
    """Keep in ``run_dir`` what the store had of the session when it held ``where`` entries, and return its id."""
    with closing(sqlite3.connect(long_ago.stage.home / "books" / "sessions.db")) as db:
        rows = db.execute("SELECT project_key, session_id, entry FROM entries ORDER BY id").fetchall()
    key = {"project_key": rows[0][0], "session_id": rows[0][1]}
    assert where < len(rows)
    with closing(SqliteSessionStore(run_dir / "sessions.db")) as store:
        asyncio.run(
            store.append(key, [json.loads(entry) for _, session, entry in rows if session == rows[0][1]][:where])
        )
    return str(key["session_id"])


@pytest.mark.parametrize("where", [14, 27, 44, 63])
def test_a_session_cut_off_anywhere_is_accepted(long_ago: Resumed, where: int, tmp_path: Path) -> None:
    session = cut_off(long_ago, where, tmp_path)
    runtime = long_ago.stage.runtime(run_dir=tmp_path, keep_denials=0)
    asked = len(long_ago.stage.requests)
    result = play(runtime.run(agent("Bash", "Read"), "Go on", resume=session))
    assert (result.ok, result.session_id) == (True, session)
    (request,) = long_ago.stage.requests[asked:]
    assert request.rejected == ""
    assert request.talk.prompts[0].endswith("Begin")
    assert "lies outside" not in str(request.body["messages"])


def test_an_interruption_is_told_neutrally_and_the_refused_words_are_gone(staged: MakeStage) -> None:
    calls = [["Bash", {"command": LONG_COMMAND}], ["Bash", {"command": "echo two"}]]
    stage = staged({"agent": [GO_ON, {"when": {"prompts": "interrupted you"}, "text": "Then not."}, {"tools": calls}]})

    async def first(runtime: Runtime) -> Any:
        running = asyncio.ensure_future(runtime.run(agent("Bash"), "Begin"))
        await until((stage.workspace / "started.txt").exists)
        runtime.interrupt()
        return await running

    resumed = resume(stage, agent("Bash"), first)
    assert ["doesn't want to proceed" in (call.result or "") for call in resumed.before] == [True, True]
    for call in resumed.after:
        assert call.is_error
        assert call.result is not None
        assert call.result.startswith("[This call was stopped because a person interrupted")


def test_a_coordinator_whose_worker_was_interrupted_goes_on(staged: MakeStage) -> None:
    dispatch = ["Agent", {"subagent_type": "coder", "description": "Work", "prompt": "Work."}]
    denied = ["Bash", {"command": "touch x"}]
    done = {"when": {"prompts": "interrupted you"}, "text": "Then not."}
    stage = staged(
        {
            "coordinator": [GO_ON, done, {"tools": [denied]}, {"tools": [denied, dispatch]}],
            "worker/coder": [
                {"tools": [["Read", {"file_path": "/etc/hostname"}], ["Bash", {"command": LONG_COMMAND}]]}
            ],
        }
    )
    spec = coordinator("Lead", "", {"coder": worker("Codes.", "", tools=("Bash", "Read"))}, lang="en", env=QUICK)

    async def first(runtime: Runtime) -> Any:
        running = asyncio.ensure_future(runtime.run(spec, "Begin"))
        await until((stage.workspace / "started.txt").exists)
        runtime.interrupt()
        return await running

    resumed = resume(stage, spec, first)
    assert [call.name for call in resumed.before] == ["Bash", "Bash", "Agent"]
    assert [call.name for call in resumed.after] == ["Bash", "Agent"]
    assert "[This call was stopped" in (resumed.after[1].result or "")


def test_a_session_that_ended_in_a_failure_of_the_api_goes_on_without_it(staged: MakeStage) -> None:
    denied = ["Read", {"file_path": "/etc/hostname"}]
    stage = staged({"agent": [GO_ON, {"tools": [denied]}, {"tools": [denied]}, {"error": "authentication"}]})
    resumed = resume(stage, agent("Read"), lambda runtime: runtime.run(agent("Read"), "Begin"))
    assert (len(resumed.before), len(resumed.after)) == (2, 1)
    assert "API Error" not in str(stage.requests[-1].body["messages"])


def test_all_of_it_can_be_switched_off(staged: MakeStage) -> None:
    denied = ["Read", {"file_path": "/etc/hostname"}]
    looks = [["Bash", {"command": f"ls -{flags}"}] for flags in ("a", "l", "1", "al", "a1", "l1", "al1", "A")]
    stage = staged({"agent": [GO_ON, {"tools": [denied] * 3}, {"tools": looks}, {"text": "Enough."}]})
    spec = agent("Bash", "Read")
    resumed = resume(stage, spec, lambda runtime: runtime.run(spec, "Begin"), ephemeral=False, keep_denials=9)
    assert [(c.input, c.result) for c in resumed.after] == [(c.input, c.result) for c in resumed.before]


def test_a_call_stays_whose_neighbour_in_the_same_reply_was_refused_after_it(staged: MakeStage) -> None:
    """The chain of entries goes on from the refusal, and ends with the text, so both have to find their way back."""
    screen = Screen()

    async def late(*_: object) -> Any:
        await until(lambda: screen.results_of("Glob"))
        return {}

    refused = ["Read", {"file_path": "/etc/hostname"}]
    calls = {"tools": [refused, ["Glob", {"pattern": "*.txt"}]]}
    stage = staged(
        {
            "agent": [
                GO_ON,
                {"when": {"turn": 0}, **calls},
                {"when": {"turn": 1}, "tools": [refused]},
                {"text": "Enough."},
            ]
        }
    )
    (stage.workspace / "note.txt").write_text("a note")
    hooks = {"PreToolUse": [HookMatcher(matcher="Read", hooks=[late])]}
    spec = agent("Read", "Glob", hooks=hooks)
    found = resume(stage, spec, lambda runtime: runtime.run(spec, "Begin", on_event=screen))
    assert [call.name for call in found.before] == ["Read", "Glob", "Read"]
    assert [call.name for call in found.after] == ["Glob", "Read"]
    assert "note.txt" in (found.after[0].result or "")
