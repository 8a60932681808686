from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from flower_core.agent import AgentSpec
from flower_core.events import Event
from flower_core.workflow import Step, Workflow
from flower_core.workflow.step import Context
from tests.core.scripted_runner import Call, Reply, ScriptedRunner

SPEC = AgentSpec(name="someone")


def lineage(tmp_path: Path) -> dict[str, str]:
    steps: dict[str, str] = json.loads((tmp_path / "runs" / "lineage.json").read_text())["steps"]
    return steps


def go(tmp_path: Path, *steps: Step, script: Any = None, known: Any = (), **kwargs: Any) -> ScriptedRunner:
    """One process: a runner with a name of its own for its sessions, run to its end."""
    prefix = f"p{len(list(tmp_path.glob('process*')))}-"
    (tmp_path / f"process-{prefix}").touch()
    runner = ScriptedRunner(tmp_path, script or {}, known_sessions=known, prefix=prefix)
    asyncio.run(Workflow(list(steps), **kwargs).run(runner))
    return runner


def test_a_later_run_goes_on_in_the_sessions_of_the_same_names(tmp_path: Path) -> None:
    first = go(tmp_path, Step("a", SPEC, "p"), Step("b", SPEC, "p"))
    second = go(tmp_path, Step("b", SPEC, "p"), Step("new", SPEC, "p"), known=first.sessions)
    assert [(call.name, call.resume) for call in second.calls] == [("b", "p0-2"), ("new", None)]


def test_a_session_taken_up_again_is_told_the_resume_prompt(tmp_path: Path) -> None:
    step = Step("a", SPEC, "everything from the start", resume_prompt=lambda ctx: "go on")
    first = go(tmp_path, step)
    second = go(tmp_path, step, known=first.sessions)
    assert [call.prompt for call in (*first.calls, *second.calls)] == ["everything from the start", "go on"]


def test_without_a_resume_prompt_the_prompt_is_said_again(tmp_path: Path) -> None:
    first = go(tmp_path, Step("a", SPEC, "p"))
    assert go(tmp_path, Step("a", SPEC, "p"), known=first.sessions).calls[0].prompt == "p"


def test_a_session_that_is_gone_from_the_store_is_started_afresh(tmp_path: Path) -> None:
    go(tmp_path, Step("a", SPEC, "p"))
    assert go(tmp_path, Step("a", SPEC, "p"), known=()).calls[0].resume is None


def test_continuous_false_starts_every_step_afresh(tmp_path: Path) -> None:
    first = go(tmp_path, Step("a", SPEC, "p"))
    second = go(tmp_path, Step("a", SPEC, "p"), known=first.sessions, continuous=False)
    assert second.calls[0].resume is None


def test_an_explicit_resume_from_comes_before_the_lineage(tmp_path: Path) -> None:
    steps = (Step("a", SPEC, "p"), Step("b", SPEC, "p"))
    first = go(tmp_path, *steps)
    second = go(tmp_path, steps[0], Step("b", SPEC, "p", resume_from="a"), known=first.sessions)
    assert [call.resume for call in second.calls] == ["p0-1", "p0-1"]


def test_a_session_is_written_down_the_moment_it_is_known(tmp_path: Path) -> None:
    seen: list[dict[str, str]] = []

    def look(call: Call) -> None:
        seen.append(lineage(tmp_path))

    go(tmp_path, Step("a", SPEC, "p"), script={"a": Reply(meanwhile=look)})
    assert seen == [{"a": "p0-1"}]


def test_names_with_a_suffix_never_enter_the_lineage(tmp_path: Path) -> None:
    seen: list[dict[str, str]] = []

    def look(call: Call) -> None:
        seen.append(lineage(tmp_path))

    async def gate(result: Any, ctx: Context) -> bool:
        await ctx["_runtime"].run(SPEC, "judge", step_name="a·判定#1")
        return False

    step = Step("a", SPEC, "p", gate=gate, retries=1, on_fail="skip")
    go(tmp_path, step, script={"a#retry1": Reply(meanwhile=look)})
    assert seen == [{"a": "p0-1"}]
    # The step as a whole left off in the session of its last attempt.
    assert lineage(tmp_path) == {"a": "p0-3"}


def test_a_further_round_that_hands_over_takes_the_step_along(tmp_path: Path) -> None:
    seen: list[dict[str, str]] = []
    runner = ScriptedRunner(tmp_path)

    def moved(_call: Call) -> None:
        assert runner.on_session is not None
        runner.on_session("a#round2", "fresh")
        seen.append(lineage(tmp_path))

    runner.script = {"a#round2": Reply(meanwhile=moved)}
    step = Step("a", SPEC, "p", gate=lambda result, _: result.step != "a", retries=1, on_reject=lambda *_: "again")
    asyncio.run(Workflow([step]).run(runner))
    assert seen == [{"a": "fresh"}]


def test_the_listener_of_the_runtime_still_hears_of_every_session(tmp_path: Path) -> None:
    heard: list[tuple[str, str]] = []
    runner = ScriptedRunner(tmp_path)
    runner.on_session = lambda step, session: heard.append((step, session))
    asyncio.run(Workflow([Step("a", SPEC, "p")]).run(runner))
    assert heard == [("a", "s1")]


def test_a_wake_is_told_to_gates_and_front_ends(tmp_path: Path) -> None:
    runner = ScriptedRunner(tmp_path)
    flow = Workflow([Step("a", SPEC, "p")])
    first = asyncio.run(flow.run(runner))
    events: list[Event] = []
    second = asyncio.run(flow.run(runner, on_event=events.append))
    assert (first["_woke"], second["_woke"]) == (False, True)
    (step,) = [event for event in events if event.kind == "step"]
    assert (step.payload["resumed"], step.payload["woke"]) == (True, True)


def test_a_corrupt_lineage_means_starting_afresh(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "lineage.json").write_text("{not json")
    runner = go(tmp_path, Step("a", SPEC, "p"))
    assert runner.calls[0].resume is None
    assert lineage(tmp_path) == {"a": "p0-1"}


def test_a_retry_from_scratch_leaves_the_old_session_alone(tmp_path: Path) -> None:
    step = Step("a", SPEC, "p", retries=1, gate=lambda result, ctx: result.step != "a", resume_prompt="go on")
    first = go(tmp_path, Step("a", SPEC, "p"))
    second = go(tmp_path, step, known=first.sessions)
    assert [(call.prompt, call.resume) for call in second.calls] == [("go on", "p0-1"), ("p", None)]


def test_sessions_a_gate_opens_for_itself_never_enter_the_lineage(tmp_path: Path) -> None:
    async def gate(result: Any, ctx: Context) -> bool:
        await ctx["_runtime"].run(SPEC, "look", step_name="side")
        return True

    go(tmp_path, Step("a", SPEC, "p", gate=gate))
    assert lineage(tmp_path) == {"a": "p0-1"}


def test_a_run_that_was_cut_off_counts_its_rounds_on_and_was_woken_by_nobody(tmp_path: Path) -> None:
    seen: list[tuple[str, int, bool]] = []

    def sink(event: Event) -> None:
        if event.kind == "step":
            seen.append((event.text, event.payload["round"], event.payload["woke"]))

    step = Step("a", SPEC, "p", retries=2, gate=lambda result, ctx: False, on_reject=lambda result, ctx: "again")
    first = go(tmp_path, Step("a", SPEC, "p"))
    runner = ScriptedRunner(tmp_path, {}, known_sessions=first.sessions, prefix="again-")
    ctx = asyncio.run(Workflow([step], cut_off=("a", 2)).run(runner, on_event=sink))
    assert seen == [("a#round2", 2, False), ("a#round3", 3, False)]
    assert runner.calls[0].resume == next(iter(first.sessions))
    assert ctx["_failed_at"] == "a"


def test_what_was_cut_off_elsewhere_changes_nothing(tmp_path: Path) -> None:
    first = go(tmp_path, Step("a", SPEC, "p"))
    runner = go(tmp_path, Step("a", SPEC, "p"), known=first.sessions, cut_off=("b", 3))
    assert [call.name for call in runner.calls] == ["a"]
    fresh = go(tmp_path, Step("c", SPEC, "p"), cut_off=("c", 2))
    assert [call.name for call in fresh.calls] == ["c"], "without a session there is no round to go on with"
