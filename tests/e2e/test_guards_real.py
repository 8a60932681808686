"""The walls around a role, tried by a scripted model that does its worst."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flower_core import AgentSpec, HumanChannel, Workbench, clarify, coordinator, judge, oracle, worker
from tests.e2e.conftest import MakeStage
from tests.e2e.stage import QUICK, Screen, Stage, agent, play
from tests.repositories import git, repository

pytestmark = pytest.mark.e2e
SECRET = "the secret of another directory"


def acts(*tools: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """A part that calls ``tools``, one after the other in one message, and then has done."""
    return [{"tools": [list(tool) for tool in tools]}, {"text": "Enough."}]


def results(stage: Stage, spec: AgentSpec, **more: Any) -> list[tuple[bool, str]]:
    """Whether each call of the step was an error, and what it gave back, in the order of the calls."""
    screen = Screen()
    result = play(stage.runtime(**more).run(replace(spec, env={**QUICK, **spec.env}), "Go", on_event=screen))
    assert (result.ok, result.error) == (True, "")
    given = {event.payload["tool_use_id"]: event for event in screen.of("tool_result")}
    calls = [event.payload["id"] for event in screen.of("tool_call")]
    return [(given[call].payload["is_error"], given[call].text) for call in calls]


def roles() -> dict[str, AgentSpec]:
    """One of every role that reads, by the name a play knows it under."""
    hands = {"coder": worker("Codes.", "", tools=("Bash", "Read", "Write"))}
    return {
        "judge": judge("Judge", HumanChannel(lang="en"), lang="en"),
        "clarify": clarify("Clarifier", HumanChannel(lang="en"), lang="en"),
        "oracle": oracle("Oracle", lang="en"),
        "coordinator": coordinator("Lead", "", hands, lang="en"),
    }


def led(*tools: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    """A play in which the coordinator dispatches a coder, and the coder calls ``tools``."""
    dispatch = ("Agent", {"subagent_type": "coder", "description": "Work", "prompt": "Do it."})
    return {"coordinator": acts(dispatch), "worker/coder": acts(*tools)}


WRITES = (
    ("Write", {"file_path": "{workspace}/written.txt", "content": "x"}),
    ("Bash", {"command": "echo x > run.txt"}),
    ("Edit", {"file_path": "{workspace}/there.txt", "old_string": "old", "new_string": "new"}),
)


@pytest.mark.parametrize("role", ["judge", "clarify", "oracle"])
def test_what_a_role_may_not_use_does_not_exist_for_it(staged: MakeStage, role: str) -> None:
    stage = staged({role: acts(*WRITES)})
    (stage.workspace / "there.txt").write_text("old")
    for failed, text in results(stage, roles()[role]):
        assert failed
        assert "No such tool available" in text
    assert [path.name for path in stage.workspace.iterdir()] == ["there.txt"]
    assert (stage.workspace / "there.txt").read_text() == "old"


def test_an_output_too_long_to_show_can_be_read_back(staged: MakeStage) -> None:
    noisy = "python3 -c \"print('begin'); print('x\\n' * 20000); print('the last line')\""
    saved = {"pattern": r"(/\S+/tool-results/\S+\.txt)", "in": "Bash", "default": "nothing was saved"}
    script = [
        {"tools": [["Bash", {"command": noisy}]]},
        {"tools": [["Read", {"file_path": "{saved}", "limit": 1}]]},
        {"text": "Enough."},
    ]
    stage = staged({"facts": {"saved": saved}, "agent": script})
    shown, read = results(stage, agent("Bash", "Read"))
    assert "tool-results" in shown[1]
    assert (read[0], read[1].strip()) == (False, "1\tbegin")


@pytest.mark.parametrize("mode", ["dontAsk", "bypassPermissions"])
def test_a_wider_tool_list_of_ones_own_still_meets_the_whitelist(staged: MakeStage, mode: Any) -> None:
    """The tools exist, as a worker has them; on the main thread the hook says no, whatever the permission mode."""
    root_may_bypass = {"IS_SANDBOX": "1"}  # the agent program refuses the last mode to root without it
    stage = staged({"agent": acts(*WRITES)})
    (stage.workspace / "there.txt").write_text("old")
    hands = {"coder": worker("Codes.", "", tools=("Bash", "Write", "Edit"))}
    for failed, text in results(stage, agent("Read", agents=hands, permission_mode=mode, env=root_may_bypass)):
        assert failed
        assert "is not part of this role. That is intended" in text
    assert (stage.workspace / "there.txt").read_text() == "old"
    assert [path.name for path in stage.workspace.iterdir()] == ["there.txt"]


def outside(stage: Stage) -> tuple[list[tuple[str, dict[str, Any]]], Path]:
    """Reads that lead out of the workspace, each in its own way, and the file inside."""
    (stage.home / "secret.txt").write_text(SECRET)
    (stage.workspace / "link.txt").symlink_to(stage.home / "secret.txt")
    (stage.workspace / "way").symlink_to(stage.home)
    inside = stage.workspace / "inside.txt"
    inside.write_text("what lies inside")
    ways = [
        str(stage.home / "secret.txt"),
        "../secret.txt",
        f"{stage.workspace}/../secret.txt",
        str(stage.workspace / "link.txt"),
        str(stage.workspace / "way" / "secret.txt"),
        "/etc/hostname",
    ]
    return [("Read", {"file_path": way}) for way in ways], inside


@pytest.mark.parametrize("role", ["judge", "clarify", "coordinator"])
def test_no_role_reads_outside_the_workspace(staged: MakeStage, role: str) -> None:
    stage = staged({role: [{"text": "-"}]})
    reads, inside = outside(stage)
    stage.replay({role: acts(*reads, ("Read", {"file_path": str(inside)}))})
    *refused, (failed, text) = results(stage, roles()[role])
    assert len(refused) == len(reads)
    for denied, reason in refused:
        assert denied
        assert "lies outside the directories" in reason
    assert (failed, "what lies inside" in text) == (False, True)
    assert SECRET not in str(stage.requests[-1].body)


def test_no_worker_reads_outside_the_workspace(staged: MakeStage) -> None:
    stage = staged({"coordinator": [{"text": "-"}]})
    reads, inside = outside(stage)
    stage.replay(led(*reads, ("Read", {"file_path": str(inside)})))
    _, *refused, (failed, text) = results(stage, roles()["coordinator"])
    assert [(denied, "lies outside the directories" in reason) for denied, reason in refused] == [(True, True)] * 6
    assert (failed, "what lies inside" in text) == (False, True)
    assert all(SECRET not in str(request.body) for request in stage.requests)


@pytest.mark.parametrize("tool", ["Grep", "Glob"])
def test_searching_outside_the_workspace_is_refused_too(staged: MakeStage, tool: str) -> None:
    stage = staged({"judge": [{"text": "-"}]})
    outside(stage)
    searches = [{"pattern": "secret*", "path": str(stage.home)}, {"pattern": "inside*", "path": str(stage.workspace)}]
    stage.replay({"judge": acts(*((tool, search) for search in searches))})
    (denied, reason), (failed, _) = results(stage, roles()["judge"])
    assert (denied, failed) == (True, False)
    assert "lies outside the directories" in reason


def test_directories_the_spec_names_are_inside(staged: MakeStage) -> None:
    stage = staged({"agent": [{"text": "-"}]})
    reads, _ = outside(stage)
    stage.replay({"agent": acts(reads[0])})
    ((failed, text),) = results(stage, agent("Read", dirs=(str(stage.home),)))
    assert (failed, SECRET in text) == (False, True)


def test_the_coordinator_is_sent_to_its_worker_who_runs_the_very_same(staged: MakeStage) -> None:
    run = ("Bash", {"command": "python3 x.py"})
    stage = staged(
        {
            "coordinator": [
                {"tools": [list(run)]},
                {"tools": [["Agent", {"subagent_type": "coder", "description": "Run", "prompt": "Run x.py."}]]},
                {"text": "It ran."},
            ],
            "worker/coder": acts(run),
        }
    )
    (stage.workspace / "x.py").write_text("open('ran.txt', 'a').write('once')")
    own, _, workers = results(stage, roles()["coordinator"])
    assert (own[0], workers[0]) == (True, False)
    told = stage.requests[-1].talk.calls[0].result or ""
    assert "read-only look" in told
    assert "dispatch a worker with the Agent tool" in told
    assert (stage.workspace / "ran.txt").read_text() == "once"


def test_the_coordinator_may_glance_and_nothing_more(staged: MakeStage) -> None:
    commands = [
        "git status --short",
        "ls",
        "ls && python3 x.py",
        "ls > list.txt",
        "echo $(touch made.txt)",
        "pwd; wc x.py",
    ]
    stage = staged({"coordinator": acts(*(("Bash", {"command": command}) for command in commands))})
    (stage.workspace / "x.py").write_text("open('ran.txt', 'w')")
    shown = results(stage, roles()["coordinator"])
    refused = ["read-only look" in text for _, text in shown]
    assert refused == [False, False, True, True, True, False]
    assert "x.py" in shown[1][1]
    assert [path.name for path in stage.workspace.iterdir()] == ["x.py"]


def test_a_look_starts_no_program_of_the_repository_and_is_remembered_as_it_was_asked(staged: MakeStage) -> None:
    look = "git status --short && git diff --stat"
    stage = staged({"coordinator": [{"tools": [["Bash", {"command": look}]]}, {"text": "Seen."}]})
    repository(stage.workspace)
    trap = stage.home / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {stage.home}/sprung\n")
    trap.chmod(0o755)
    for name in ("core.fsmonitor", "diff.external"):
        git(stage.workspace, "config", name, str(trap))
    (stage.workspace / "README").write_text("Changed.\n")
    spec = replace(roles()["coordinator"], env=QUICK)
    runtime, screen = stage.runtime(), Screen()
    first = play(runtime.run(spec, "Look", on_event=screen))
    ((_, text),) = [(event.payload["is_error"], event.text) for event in screen.of("tool_result")]
    assert text.split()[:4] == ["M", "README", "README", "|"]
    assert not (stage.home / "sprung").exists()
    # What may expire later is told by the command in the history: it must still be a look there.
    play(runtime.run(spec, "Go on", resume=first.session_id))
    assert [call.input["command"] for call in stage.requests[-1].talk.calls] == [look]


def test_a_look_at_what_never_ends_is_ended(staged: MakeStage) -> None:
    """The limit is a minute; here the model asks for less, so that nobody has to wait for it."""
    stage = staged({"coordinator": acts(("Bash", {"command": "cat pipe", "timeout": 1000}))})
    os.mkfifo(stage.workspace / "pipe")
    ((failed, text),) = results(stage, roles()["coordinator"])
    assert (failed, "timed out" in text) == (True, True)


def test_a_coordinator_without_glance_runs_nothing(staged: MakeStage) -> None:
    stage = staged({"coordinator": acts(("Bash", {"command": "ls"}))})
    spec = coordinator("Lead", "", {"coder": worker("Codes.", "", tools=("Bash",))}, glance=False, lang="en")
    ((denied, reason),) = results(stage, spec)
    assert denied
    assert "you direct the work and do none of it" in reason


def test_the_coordinator_writes_nothing(staged: MakeStage) -> None:
    stage = staged({"coordinator": acts(WRITES[0])})
    ((denied, reason),) = results(stage, roles()["coordinator"])
    assert denied
    assert "you direct the work and do none of it" in reason
    assert list(stage.workspace.iterdir()) == []


def test_a_worker_runs_and_writes_without_approval_and_only_inside(staged: MakeStage) -> None:
    stage = staged({"coordinator": [{"text": "-"}]})
    writes = ("Write", {"file_path": str(stage.home / "out.txt"), "content": "x"})
    stage.replay(led(*WRITES[:2], ("Bash", {"command": "touch touched.txt; curl --version"}), writes))
    _, wrote, ran, touched, out = results(stage, roles()["coordinator"])
    assert (wrote[0], ran[0], touched[0], out[0]) == (False, False, False, True)
    assert {path.name for path in stage.workspace.iterdir()} == {"written.txt", "run.txt", "touched.txt"}
    assert not (stage.home / "out.txt").exists()


def test_what_a_worker_writes_into_the_workbench_stands_in_its_index_at_once(staged: MakeStage) -> None:
    stage = staged({"coordinator": [{"text": "-"}]})
    bench = Workbench(stage.workspace, lang="en").ensure()
    script = {"file_path": str(bench.scripts / "count.py"), "content": "# desc: counts the words\nprint(1)\n"}
    stage.replay(led(("Write", script)))
    assert [failed for failed, _ in results(stage, roles()["coordinator"], workbench=bench)] == [False, False]
    assert "counts the words" in bench.index_path.read_text()


def test_a_resumed_session_is_told_todays_index(staged: MakeStage) -> None:
    stage = staged({"coordinator": [{"text": "First."}, {"text": "Second."}]})
    bench = Workbench(stage.workspace, lang="en").ensure()
    runtime = stage.runtime(workbench=bench)
    spec = replace(roles()["coordinator"], env=QUICK)
    first = play(runtime.run(spec, "Begin"))
    (bench.scripts / "late.py").write_text("# desc: made between the two\n")
    play(runtime.run(spec, "Go on", resume=first.session_id))
    begun, resumed = (request.talk.system for request in stage.requests)
    assert "made between the two" not in begun
    assert "made between the two" in resumed
