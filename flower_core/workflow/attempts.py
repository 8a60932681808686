"""The attempts of one step: run, judge, send back or start over, until it passes or may no longer be repeated."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from flower_core.errors import StepAbort
from flower_core.manifest import StepResult
from flower_core.texts import texts_for
from flower_core.workflow.budget import capped
from flower_core.workflow.step import Context, Runner, Step, render, settled


@dataclass(frozen=True)
class Attempt:
    """One attempt to come: its number from 1, its name in the manifest, what is said to which session."""

    number: int
    name: str
    prompt: str
    resume: str | None = None
    fork: bool = False


@dataclass(frozen=True)
class Outcome:
    """How a step ended: the result of its last attempt, and whether that will do."""

    result: StepResult
    passed: bool


async def run_attempts(
    step: Step,
    runner: Runner,
    ctx: Context,
    first: Attempt,
    before: Callable[[Attempt], None],
) -> Outcome:
    """Run ``step`` from attempt ``first`` on. ``before`` is called with every attempt before it starts.

    A :class:`StepAbort` from the gate or from ``on_reject`` ends the step at once; its message stands in
    ``ctx["_aborted"]``. Other exceptions of callbacks are mistakes in the workflow and pass through.
    """
    attempt = first
    while True:
        before(attempt)
        result = await _run(step, runner, ctx, attempt)
        try:
            passed = await _passes(step, result, ctx)
            if passed or attempt.number > step.retries:
                return Outcome(result, passed)
            attempt = await _next(step, ctx, attempt, result)
        except StepAbort as reason:
            ctx["_aborted"] = str(reason)
            return Outcome(result, passed=False)


async def _run(step: Step, runner: Runner, ctx: Context, attempt: Attempt) -> StepResult:
    spec = capped(step.spec, ctx)
    if spec is None:
        now = time.time()
        error = texts_for(step.spec.lang)("workflow.budget.used_up")
        return StepResult(step=attempt.name, error=error, started_at=now, ended_at=now)
    return await runner.run(
        spec,
        attempt.prompt,
        step_name=attempt.name,
        resume=attempt.resume,
        fork=attempt.fork,
        on_event=ctx["_on_event"],
    )


async def _passes(step: Step, result: StepResult, ctx: Context) -> bool:
    # The gate may have side effects (it freezes files, it runs a judge), so it is asked once and only once.
    if not result.ok or step.gate is None:
        return result.ok
    return bool(await settled(step.gate(result, ctx)))


async def _next(step: Step, ctx: Context, last: Attempt, result: StepResult) -> Attempt:
    number = last.number + 1
    words = ""
    if step.on_reject is not None and result.session_id:
        words = await settled(step.on_reject(result, ctx))
    if words:
        return Attempt(number, f"{step.name}#round{number}", words, resume=result.session_id)
    fresh = first_attempt(step, ctx)
    return Attempt(number, f"{step.name}#retry{last.number}", fresh.prompt, fresh.resume, fresh.fork)


def first_attempt(step: Step, ctx: Context) -> Attempt:
    """The attempt that starts ``step`` from scratch: in a new session, or in the one it declares to continue.

    Raises ValueError when the step named by ``resume_from`` has left no session: a new one in its place
    would quietly drop the memory this step relies on.
    """
    session: str | None = None
    if step.resume_from is not None:
        session = ctx["_sessions"].get(step.resume_from)
        if not session:
            raise ValueError(
                f"step {step.name!r} continues {step.resume_from!r}, which has no session in this run: "
                "it was skipped, or it did not get as far as one"
            )
    return Attempt(1, step.name, render(step.prompt, ctx), session, step.fork)
