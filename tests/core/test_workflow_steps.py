from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from flower_core.agent import AgentSpec
from flower_core.errors import StepAbort
from flower_core.manifest import StepResult
from flower_core.workflow import Step, Workflow
from flower_core.workflow.step import Context
from tests.core.scripted_runner import Reply, ScriptedRunner

SPEC = AgentSpec(name="someone")
FAILED = Reply("half of it", ok=False, error="500")


def run(runner: ScriptedRunner, *steps: Step, **kwargs: Any) -> Context:
    return asyncio.run(Workflow(list(steps), **kwargs).run(runner))


class Counting:
    """A gate that counts its calls and says yes from call ``passes_at`` on."""

    def __init__(self, passes_at: int) -> None:
        self.passes_at = passes_at
        self.calls = 0

    def __call__(self, result: StepResult, ctx: Context) -> bool:
        self.calls += 1
        return self.calls >= self.passes_at


def test_a_step_hands_its_text_to_the_next_through_the_context(tmp_path: Path) -> None:
    runner = ScriptedRunner(tmp_path, {"word": "cat"})
    ctx = run(runner, Step("word", SPEC, "read"), Step("line", SPEC, lambda ctx: f"a line with {ctx['word']}"))
    assert runner.prompt_of("line") == "a line with cat"
    assert ctx["word"] == "cat"
    assert ctx["line"] == "done"
    assert "_failed_at" not in ctx


def test_the_context_holds_results_sessions_runtime_and_sink(tmp_path: Path) -> None:
    runner = ScriptedRunner(tmp_path)
    events: list[Any] = []
    ctx = asyncio.run(Workflow([Step("a", SPEC, "p")]).run(runner, on_event=events.append))
    assert ctx["_results"]["a"].session_id == "s1"
    assert ctx["_sessions"] == {"a": "s1"}
    assert ctx["_runtime"] is runner
    assert ctx["_on_event"] == events.append
    assert ctx["_lineage"] is not None
    assert ctx["_woke"] is False


def test_reduce_makes_what_later_steps_see(tmp_path: Path) -> None:
    runner = ScriptedRunner(tmp_path, {"a": "raw"})
    ctx = run(runner, Step("a", SPEC, "p", reduce=lambda result, ctx: {"length": len(result.text)}))
    assert ctx["a"] == {"length": 3}


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_step_whose_when_is_false_is_skipped_and_writes_nothing(tmp_path: Path, asynchronous: bool) -> None:
    async def later(ctx: Context) -> bool:
        await asyncio.sleep(0)
        return False

    runner = ScriptedRunner(tmp_path)
    when = later if asynchronous else lambda ctx: False
    ctx = run(runner, Step("a", SPEC, "p", when=when), Step("b", SPEC, "p"))
    assert runner.names == ["b"]
    assert "a" not in ctx
    assert set(ctx["_results"]) == {"b"}
    assert set(ctx["_sessions"]) == {"b"}


def test_the_gate_is_not_asked_about_a_failed_result(tmp_path: Path) -> None:
    gate = Counting(1)
    ctx = run(ScriptedRunner(tmp_path, {"a": FAILED}), Step("a", SPEC, "p", gate=gate))
    assert gate.calls == 0
    assert ctx["_failed_at"] == "a"


def test_the_gate_is_asked_once_per_attempt(tmp_path: Path) -> None:
    gate = Counting(99)
    runner = ScriptedRunner(tmp_path)
    run(runner, Step("a", SPEC, "p", gate=gate, retries=2))
    assert (gate.calls, len(runner.calls)) == (3, 3)


def test_the_gate_may_be_async(tmp_path: Path) -> None:
    async def gate(result: StepResult, ctx: Context) -> bool:
        await asyncio.sleep(0)
        return result.text == "good"

    ctx = run(ScriptedRunner(tmp_path, {"b": "bad", "a": "good"}), *(Step(n, SPEC, "p", gate=gate) for n in "ab"))
    assert ctx["a"] == "good"
    assert ctx["_failed_at"] == "b"


def test_retries_without_on_reject_start_from_scratch_under_a_name_of_their_own(tmp_path: Path) -> None:
    runner = ScriptedRunner(tmp_path, {"a": "1", "a#retry1": "2", "a#retry2": "3"})
    ctx = run(runner, Step("a", SPEC, "p", gate=Counting(3), retries=2))
    assert [(call.name, call.prompt, call.resume) for call in runner.calls] == [
        ("a", "p", None),
        ("a#retry1", "p", None),
        ("a#retry2", "p", None),
    ]
    assert ctx["a"] == "3"
    assert ctx["_sessions"]["a"] == "s3"


def test_a_failed_result_is_retried_too(tmp_path: Path) -> None:
    runner = ScriptedRunner(tmp_path, {"a": FAILED})
    assert run(runner, Step("a", SPEC, "p", retries=1))["a"] == "done"
    assert runner.names == ["a", "a#retry1"]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_rejected_session_goes_on_with_the_words_of_on_reject(tmp_path: Path, asynchronous: bool) -> None:
    def words(result: StepResult, ctx: Context) -> str:
        return f"not enough: {result.text}"

    async def later(result: StepResult, ctx: Context) -> str:
        await asyncio.sleep(0)
        return words(result, ctx)

    runner = ScriptedRunner(tmp_path, {"a": "1", "a#round2": "2"})
    run(runner, Step("a", SPEC, "p", gate=Counting(3), retries=2, on_reject=later if asynchronous else words))
    assert [(call.name, call.prompt, call.resume) for call in runner.calls] == [
        ("a", "p", None),
        ("a#round2", "not enough: 1", "s1"),
        ("a#round3", "not enough: 2", "s1"),
    ]


def test_empty_words_of_on_reject_mean_from_scratch(tmp_path: Path) -> None:
    runner = ScriptedRunner(tmp_path)
    run(runner, Step("a", SPEC, "p", gate=Counting(2), retries=1, on_reject=lambda result, ctx: ""))
    assert [(call.name, call.resume) for call in runner.calls] == [("a", None), ("a#retry1", None)]


def test_a_rejected_attempt_without_a_session_starts_from_scratch(tmp_path: Path) -> None:
    runner = ScriptedRunner(tmp_path, {"a": Reply(session=False)})
    run(runner, Step("a", SPEC, "p", gate=Counting(2), retries=1, on_reject=lambda result, ctx: "go on"))
    assert [(call.name, call.prompt) for call in runner.calls] == [("a", "p"), ("a#retry1", "p")]


def test_step_abort_spends_no_further_attempt_and_leaves_its_reason(tmp_path: Path) -> None:
    def gate(result: StepResult, ctx: Context) -> bool:
        raise StepAbort("no network in here")

    runner = ScriptedRunner(tmp_path)
    ctx = run(runner, Step("a", SPEC, "p", gate=gate, retries=5), Step("b", SPEC, "p"))
    assert runner.names == ["a"]
    assert ctx["_aborted"] == "no network in here"
    assert ctx["_failed_at"] == "a"


def test_step_abort_respects_on_fail(tmp_path: Path) -> None:
    def gate(result: StepResult, ctx: Context) -> bool:
        raise StepAbort("enough")

    ctx = run(ScriptedRunner(tmp_path), Step("a", SPEC, "p", gate=gate, on_fail="skip"), Step("b", SPEC, "p"))
    assert ctx["_aborted"] == "enough"
    assert ctx["b"] == "done"
    assert "_failed_at" not in ctx


def test_other_exceptions_of_a_gate_are_not_swallowed(tmp_path: Path) -> None:
    def gate(result: StepResult, ctx: Context) -> bool:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(ScriptedRunner(tmp_path), Step("a", SPEC, "p", gate=gate, retries=3))


def test_stop_ends_the_run_names_the_step_and_writes_no_value(tmp_path: Path) -> None:
    runner = ScriptedRunner(tmp_path, {"a": FAILED})
    ctx = run(runner, Step("a", SPEC, "p"), Step("b", SPEC, "p"))
    assert runner.names == ["a"]
    assert ctx["_failed_at"] == "a"
    assert "a" not in ctx
    assert ctx["_results"]["a"].error == "500"


def test_skip_goes_on_without_a_value(tmp_path: Path) -> None:
    ctx = run(ScriptedRunner(tmp_path, {"a": FAILED}), Step("a", SPEC, "p", on_fail="skip"), Step("b", SPEC, "p"))
    assert "a" not in ctx
    assert ctx["b"] == "done"
    assert "_failed_at" not in ctx


def test_continue_goes_on_with_the_raw_text(tmp_path: Path) -> None:
    step = Step("a", SPEC, "p", on_fail="continue", reduce=lambda result, ctx: "reduced")
    ctx = run(ScriptedRunner(tmp_path, {"a": FAILED}), step, Step("b", SPEC, lambda ctx: ctx["a"]))
    assert ctx["a"] == "half of it"
    assert "_failed_at" not in ctx


def test_resume_from_continues_the_session_of_an_earlier_step(tmp_path: Path) -> None:
    runner = ScriptedRunner(tmp_path)
    ctx = run(
        runner,
        Step("a", SPEC, "p"),
        Step("b", SPEC, "p", resume_from="a"),
        Step("c", SPEC, "p", resume_from="a", fork=True),
    )
    assert [(call.resume, call.fork) for call in runner.calls] == [(None, False), ("s1", False), ("s1", True)]
    assert ctx["_sessions"] == {"a": "s1", "b": "s1", "c": "s3"}


def test_resume_from_a_skipped_step_is_an_error_not_a_new_session(tmp_path: Path) -> None:
    runner = ScriptedRunner(tmp_path)
    with pytest.raises(ValueError, match=r"'b' continues 'a', which has no session"):
        run(runner, Step("a", SPEC, "p", when=lambda ctx: False), Step("b", SPEC, "p", resume_from="a"))
    assert runner.calls == []


def test_resume_from_a_step_that_does_not_come_before_is_found_before_anything_runs(tmp_path: Path) -> None:
    runner = ScriptedRunner(tmp_path)
    with pytest.raises(ValueError, match="no step before it"):
        run(runner, Step("a", SPEC, "p"), Step("b", SPEC, "p", resume_from="c"), Step("c", SPEC, "p"))
    assert runner.calls == []


def test_names_that_stand_twice_are_refused() -> None:
    with pytest.raises(ValueError, match="stand twice: a"):
        Workflow([Step("a", SPEC, "p"), Step("b", SPEC, "p"), Step("a", SPEC, "q")])


@pytest.mark.parametrize(
    ("kwargs", "said"),
    [
        ({"name": "_x"}, "underscore"),
        ({"name": ""}, "needs a name"),
        ({"on_fail": "explode"}, "unknown on_fail 'explode'"),
        ({"retries": -1}, "retries"),
        ({"fork": True}, "fork needs resume_from"),
    ],
)
def test_a_step_that_cannot_work_is_refused_at_construction(kwargs: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Step(**{"name": "a", "spec": SPEC, "prompt": "p", **kwargs})
