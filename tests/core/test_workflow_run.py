from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from flower_core.agent import AgentSpec
from flower_core.events import Event
from flower_core.human import HumanChannel
from flower_core.manifest import StepResult
from flower_core.workbench import Workbench
from flower_core.workflow import Step, Workflow, clarify_step, with_goal
from flower_core.workflow.step import Context
from tests.core.scripted_runner import Call, Reply, ScriptedRunner

SPEC = AgentSpec(name="someone")


def steps_of(events: list[Event]) -> list[tuple[str, dict[str, Any]]]:
    return [(event.text, event.payload) for event in events if event.kind == "step"]


def test_every_step_is_announced_with_its_place(tmp_path: Path) -> None:
    events: list[Event] = []
    flow = Workflow([Step("a", SPEC, "p"), Step("b", SPEC, "p", resume_from="a")])
    asyncio.run(flow.run(ScriptedRunner(tmp_path), on_event=events.append))
    assert steps_of(events) == [
        ("a", {"index": 1, "total": 2, "resumed": False, "woke": False, "round": 1}),
        ("b", {"index": 2, "total": 2, "resumed": True, "woke": False, "round": 1}),
    ]


def test_a_further_round_is_announced_under_its_own_name(tmp_path: Path) -> None:
    events: list[Event] = []
    step = Step("a", SPEC, "p", retries=1, gate=lambda result, ctx: False, on_reject=lambda result, ctx: "again")
    asyncio.run(Workflow([step]).run(ScriptedRunner(tmp_path), on_event=events.append))
    assert [(text, payload["round"], payload["resumed"]) for text, payload in steps_of(events)] == [
        ("a", 1, False),
        ("a#round2", 2, True),
    ]


def test_on_step_hears_of_every_finished_step_once_failures_included(tmp_path: Path) -> None:
    heard: list[tuple[str, bool, str]] = []

    def on_step(step: Step, result: StepResult) -> None:
        heard.append((step.name, result.ok, result.text))

    script: dict[str, str | Reply] = {"a": Reply("1", ok=False), "a#retry1": "2", "c": Reply("bad", ok=False)}
    flow = Workflow(
        [
            Step("a", SPEC, "p", retries=1),
            Step("b", SPEC, "p", when=lambda ctx: False),
            Step("c", SPEC, "p"),
            Step("d", SPEC, "p"),
        ]
    )
    asyncio.run(flow.run(ScriptedRunner(tmp_path, script), on_step=on_step))
    assert heard == [("a", True, "2"), ("c", False, "bad")]


def test_front_ends_that_raise_do_not_harm_the_run(tmp_path: Path) -> None:
    def broken(step: Step, result: StepResult) -> None:
        raise RuntimeError("no terminal")

    runner = ScriptedRunner(tmp_path)
    ctx = asyncio.run(Workflow([Step("a", SPEC, "p"), Step("b", SPEC, "p")]).run(runner, on_step=broken))
    assert ctx["b"] == "done"
    assert runner.ui_errors == ["RuntimeError: no terminal"]


def test_running_twice_starts_from_a_copy_of_the_context(tmp_path: Path) -> None:
    flow = Workflow([Step("a", SPEC, lambda ctx: ctx["word"])], context={"word": "cat"}, continuous=False)
    first = asyncio.run(flow.run(ScriptedRunner(tmp_path, {"a": Reply(ok=False)})))
    assert first["_failed_at"] == "a"
    second = asyncio.run(flow.run(ScriptedRunner(tmp_path)))
    assert "_failed_at" not in second
    assert second["_results"]["a"].ok
    assert flow.context == {"word": "cat"}


class Channelled:
    """A workflow of one step on a channel, that remembers where the channel reported to while it ran."""

    def __init__(self, tmp_path: Path, **reply: Any) -> None:
        self.channel = HumanChannel()
        self.during: Any = None
        reply.setdefault("meanwhile", self._look)
        self.runner = ScriptedRunner(tmp_path, {"a": Reply(**reply)})
        self.flow = Workflow([Step("a", SPEC, "p")], channel=self.channel)

    def _look(self, call: Call) -> None:
        self.during = self.channel.on_event


def test_the_channel_reports_to_the_sink_of_the_run_and_only_during_it(tmp_path: Path) -> None:
    case = Channelled(tmp_path)
    sink: list[Event] = []
    hand_over = sink.append
    asyncio.run(case.flow.run(case.runner, on_event=hand_over))
    assert case.during is hand_over
    assert case.channel.on_event is None


def test_a_channel_with_a_sink_of_its_own_keeps_it(tmp_path: Path) -> None:
    case = Channelled(tmp_path)
    own: list[Event] = []
    hand_over = own.append
    case.channel.on_event = hand_over
    asyncio.run(case.flow.run(case.runner, on_event=lambda event: None))
    assert case.during is hand_over
    assert case.channel.on_event is hand_over


def test_without_a_sink_the_channel_is_left_alone(tmp_path: Path) -> None:
    case = Channelled(tmp_path)
    asyncio.run(case.flow.run(case.runner))
    assert case.during is None


def test_the_channel_is_let_go_when_the_run_ends_by_an_exception(tmp_path: Path) -> None:
    def explode(call: Call) -> None:
        raise OSError("disk gone")

    case = Channelled(tmp_path, meanwhile=explode)
    with pytest.raises(OSError, match="disk gone"):
        asyncio.run(case.flow.run(case.runner, on_event=lambda event: None))
    assert case.channel.on_event is None


def test_channel_and_runtime_are_let_go_when_the_run_is_cancelled(tmp_path: Path) -> None:
    case = Channelled(tmp_path, hang=True)
    heard: list[str] = []

    def listener(step: str, session: str) -> None:
        heard.append(step)

    case.runner.on_session = listener

    async def cancel() -> None:
        task = asyncio.create_task(case.flow.run(case.runner, on_event=lambda event: None))
        await case.runner.hanging.wait()
        assert case.during is not None
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert case.channel.on_event is None
    assert case.runner.on_session is listener
    assert heard == ["a"]


def test_a_second_workbench_is_refused(tmp_path: Path) -> None:
    mine, theirs = Workbench(tmp_path / "mine"), Workbench(tmp_path / "theirs")
    runner = ScriptedRunner(tmp_path, workbench=theirs)
    with pytest.raises(ValueError, match=r"workbench=workflow\.workbench"):
        asyncio.run(Workflow([Step("a", SPEC, "p")], workbench=mine).run(runner))
    assert runner.calls == []


def test_a_runtime_without_the_workflows_workbench_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="missing"):
        asyncio.run(Workflow([], workbench=Workbench(tmp_path)).run(ScriptedRunner(tmp_path)))


def test_the_shared_workbench_is_accepted(tmp_path: Path) -> None:
    bench = Workbench(tmp_path / "workspace")
    ctx = asyncio.run(Workflow([Step("a", SPEC, "p")], workbench=bench).run(ScriptedRunner(tmp_path, workbench=bench)))
    assert ctx["a"] == "done"


@pytest.mark.parametrize("which", ["brief", "goal"])
def test_a_brief_or_goal_outside_the_workbench_is_refused(tmp_path: Path, which: str) -> None:
    channel = HumanChannel(timeout_s=0)
    bench = Workbench(tmp_path / "workspace")
    stray = tmp_path / "elsewhere" / "notes.md"
    step = (
        clarify_step(channel, brief_path=stray, prompt="p", spec=SPEC)
        if which == "brief"
        else with_goal(Step("a", SPEC, "p"), channel, goal_path=stray, spec=SPEC)
    )
    with pytest.raises(ValueError, match="outside the workbench"):
        Workflow([step], workbench=bench)
    with pytest.raises(ValueError, match="outside the workbench"):
        asyncio.run(Workflow([step]).run(ScriptedRunner(tmp_path, workbench=bench)))


def test_a_budget_bounds_all_steps_and_attempts_together(tmp_path: Path) -> None:
    script = {"a": Reply(cost=0.6, ok=False), "a#retry1": Reply(cost=0.5)}
    runner = ScriptedRunner(tmp_path, script)
    flow = Workflow([Step("a", SPEC, "p", retries=1), Step("b", SPEC, "p")], budget_usd=1.0)
    ctx = asyncio.run(flow.run(runner))
    allowed = [call.spec.max_budget_usd for call in runner.calls]
    assert allowed == [1.0, pytest.approx(0.4)]
    assert ctx["_failed_at"] == "b"
    assert ctx["_results"]["b"].error


def test_a_specs_own_smaller_budget_stands(tmp_path: Path) -> None:
    runner = ScriptedRunner(tmp_path)
    spec = AgentSpec(name="thrifty", max_budget_usd=0.2)
    asyncio.run(Workflow([Step("a", spec, "p")], budget_usd=1.0).run(runner))
    assert runner.calls[0].spec.max_budget_usd == 0.2


def test_a_budget_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="budget_usd must be above 0"):
        Workflow([], budget_usd=0)


def test_the_opening_stands_before_the_first_prompt_only(tmp_path: Path) -> None:
    runner = ScriptedRunner(tmp_path)
    flow = Workflow(
        [Step("s", SPEC, "p", when=lambda ctx: False), Step("a", SPEC, "do a"), Step("b", SPEC, "do b")],
        opening="q3 was answered: yes",
    )
    asyncio.run(flow.run(runner))
    assert [call.prompt for call in runner.calls] == ["q3 was answered: yes\n\ndo a", "do b"]


def test_a_gate_finds_what_it_needs_to_run_an_agent_of_its_own(tmp_path: Path) -> None:
    async def gate(result: StepResult, ctx: Context) -> bool:
        side = await ctx["_runtime"].run(SPEC, "look", step_name="side", on_event=ctx["_on_event"])
        return bool(side.text == "fine")

    events: list[Event] = []
    runner = ScriptedRunner(tmp_path, {"side": "fine"})
    ctx = asyncio.run(Workflow([Step("a", SPEC, "p", gate=gate)]).run(runner, on_event=events.append))
    assert ctx["a"] == "done"
    assert "fine" in [event.text for event in events]
