"""What a step costs, over any mix of retries, interruptions, handoffs, kills and resumes, against sums of our own."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from flower_core import HandoffPolicy, StepResult
from flower_core.manifest import Manifest
from tests.e2e.conftest import MakeStage
from tests.e2e.stage import LONG_COMMAND, Screen, Stage, agent, parent_of, play, until

pytestmark = pytest.mark.e2e
#: US dollars per million tokens of the model that agent program 2.1.332 takes when nobody names one, by its own prices.
INPUT, OUTPUT, CACHE_READ, CACHE_WRITE = 4.0, 20.0, 0.2, 5.0
RUN_IT = {"tools": [["Bash", {"command": LONG_COMMAND}]]}
LOOK = {"tools": [["Bash", {"command": "pwd"}]]}
BLUE = "Use blue instead"
HEARD = {"when": {"prompts": BLUE}, "text": "Blue it is."}


def usage(**tokens: int) -> dict[str, Any]:
    """Usage of one reply, as a play has it."""
    return {"usage": {"input_tokens": 0, "output_tokens": 0, **tokens}}


def price(*replies: Mapping[str, Any]) -> float:
    """What these replies cost, from their usage alone."""
    total = 0.0
    for reply in replies:
        tokens = reply["usage"]
        total += tokens["input_tokens"] * INPUT + tokens["output_tokens"] * OUTPUT
        total += tokens.get("cache_read_input_tokens", 0) * CACHE_READ
        total += tokens.get("cache_creation_input_tokens", 0) * CACHE_WRITE
    return total / 1e6


A = usage(input_tokens=10_000, output_tokens=100)
B = usage(input_tokens=7_000, output_tokens=30, cache_read_input_tokens=50_000)
C = usage(input_tokens=3_000, output_tokens=10, cache_creation_input_tokens=2_000)


@dataclass
class Case:
    """A play, what happens meanwhile, and the replies that are to be paid for, by step."""

    replies: list[dict[str, Any]]
    paid: list[list[Mapping[str, Any]]]
    disturb: Callable[[Stage, Any], Any] | None = None
    more: dict[str, Any] = field(default_factory=dict)
    speakers: dict[str, Any] = field(default_factory=dict)


async def _break_in(stage: Stage, runtime: Any) -> None:
    await until((stage.workspace / "started.txt").exists)
    runtime.interrupt(BLUE)


def _kill(number: signal.Signals) -> Callable[[Stage, Any], Any]:
    async def kill(stage: Stage, _runtime: Any) -> None:
        await until((stage.workspace / "started.txt").exists)
        (program,) = [process for process in stage.agent_processes() if parent_of(process) == os.getpid()]
        os.kill(program, number)

    return kill


FULL = usage(input_tokens=10_000, output_tokens=50, cache_read_input_tokens=160_000)
HANDOFF = {"text": "Doing now: a look.\nNext step: to say so.\nScene: an empty directory.", **C}
#: Asked for too early to be stopped, and never heard. Without usage, for what a stream's opening names is paid.
TOO_LATE = {"when": {"called": "Bash"}, "text": "I look again.", "hang": "for ever", **usage()}
SMALL = {"handoff": HandoffPolicy(window=200_000)}
OVERLOADED = {"error": "overloaded"}
CASES = {
    "one reply": Case([{"text": "Done.", **A}], [[A]]),
    "a retry between two replies": Case(
        [{"when": {"request": 0}, **LOOK, **A}, {"when": {"request": 1}, **OVERLOADED}, {"text": "Done.", **B}],
        [[A, B]],
    ),
    "two retries, and a resume by another step": Case(
        [
            {"when": {"request": [1, 3]}, **OVERLOADED},
            {"when": {"request": [0, 2]}, **LOOK, **A},
            {"text": "Done.", **B},
        ],
        [[A, A, B], [B]],
    ),
    "an interruption": Case([{**HEARD, **B}, {**RUN_IT, **A}], [[A, B]], _break_in),
    "an interruption, then a resume": Case([{**HEARD, **B}, {**RUN_IT, **A}], [[A, B], [B]], _break_in),
    "a failure, then an interruption": Case(
        [{"when": {"request": 0}, **OVERLOADED}, {**HEARD, **B}, {**RUN_IT, **A}], [[A, B]], _break_in
    ),
    "a handoff": Case(
        [{"when": {"prompts": r"\A<task>\n"}, "text": "Taken over.", **B}, TOO_LATE, {**LOOK, **FULL}],
        [[FULL, C, B]],
        more=SMALL,
        speakers={"agent/handoff": [HANDOFF]},
    ),
    "a retry, a handoff, and a resume": Case(
        [
            {"when": {"request": 0}, **OVERLOADED},
            {"when": {"prompts": r"\A<task>\n"}, "text": "Taken over.", **B},
            TOO_LATE,
            {**LOOK, **FULL},
        ],
        [[FULL, C, B], [B]],
        more=SMALL,
        speakers={"agent/handoff": [HANDOFF]},
    ),
    "a process told to end": Case(
        [{"when": {"request": [0, 1]}, **LOOK, **A}, {"when": {"request": 2}, **RUN_IT, **A}, {"text": "Done.", **B}],
        [[A, A, A, B], [B]],
        _kill(signal.SIGTERM),
    ),
    # It cannot say any more what it has spent: that is lost, and nothing else is.
    "a process killed outright": Case(
        [{"when": {"request": 0}, **LOOK, **A}, {"when": {"request": 1}, **RUN_IT, **A}, {"text": "Done.", **B}],
        [[B], [B]],
        _kill(signal.SIGKILL),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_step_costs_what_its_replies_cost(staged: MakeStage, name: str) -> None:
    case = CASES[name]
    stage = staged({"agent": case.replies, **case.speakers})
    runtime, screen = stage.runtime(**case.more), Screen()

    async def steps() -> list[StepResult]:
        results: list[StepResult] = []
        for number, _ in enumerate(case.paid):
            resume = results[-1].session_id if results else None
            work = runtime.run(agent("Bash"), "Paint it", step_name=f"{number}", resume=resume, on_event=screen)
            running = asyncio.ensure_future(work)
            if case.disturb is not None and not results:
                await case.disturb(stage, runtime)
            results.append(await running)
        return results

    results = play(steps())
    for orphan in stage.agent_processes():  # a killed program leaves its command behind
        os.kill(orphan, signal.SIGKILL)
    assert [result.ok for result in results] == [True] * len(case.paid)
    assert [result.cost_usd for result in results] == pytest.approx([price(*paid) for paid in case.paid], abs=1e-9)
    rows = Manifest(stage.home / "books" / "manifest.json", runtime.run_id).rows()
    assert [row["cost_usd"] for row in rows] == [result.cost_usd for result in results]
    assert runtime.total_cost() == pytest.approx(sum(result.cost_usd for result in results))
    # What events say adds up to the same, with what writing handoffs cost in the events that tell of them.
    bills = sum(event.payload.get("cost_usd", 0.0) for event in screen.events)
    assert bills == pytest.approx(runtime.total_cost(), abs=1e-5)


def test_what_a_step_at_work_has_cost_so_far_survives_us(staged: MakeStage) -> None:
    """Its row is there after every turn, for a process that is killed outright writes nothing any more."""
    stage = staged({"agent": [{**HEARD, **B, "hang": "a word"}, {**RUN_IT, **A}]})
    runtime, manifest = stage.runtime(run_id="r"), Manifest(stage.home / "books" / "manifest.json", "r")

    async def looked_at() -> tuple[list[dict[str, Any]], StepResult]:
        running = asyncio.ensure_future(runtime.run(agent("Bash"), "Paint it"))
        await _break_in(stage, runtime)
        rows = await until(manifest.rows)
        stage.server.app.release("a word")
        return rows, await running

    (row,), result = play(looked_at())
    assert (row["ok"], row["error"], row["ended_at"]) == (False, "unfinished", 0.0)
    assert row["cost_usd"] == pytest.approx(price(A), abs=1e-9)
    assert row["session_id"] == result.session_id
    (final,) = manifest.rows()
    assert (final["ok"], final["error"]) == (True, "")
    assert final["cost_usd"] == pytest.approx(price(A, B), abs=1e-9)
