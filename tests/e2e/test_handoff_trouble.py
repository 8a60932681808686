"""Handing over when something is in the way: nothing that was done or said is lost, and there is an end to it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from flower_core import Handoff, HandoffPolicy, Resilience, StepResult
from flower_core.lineage import Lineage
from tests.e2e.conftest import MakeStage
from tests.e2e.handoff_play import DOCUMENT, SMALL, TAKES_OVER, WRITES, done, fills, phases, stopped_at
from tests.e2e.stage import Screen, agent, play, until

pytestmark = pytest.mark.e2e
FULL = [TAKES_OVER, stopped_at(1), fills(60_000)]
WORDS = "Use green instead"


def written(runtime: Any) -> Handoff:
    """The newest handoff on the disk."""
    return Handoff.load(runtime.run_dir / "notes" / "handoff-Agent.md", lang="en")


def test_what_is_left_out_is_asked_for_once_more(staged: MakeStage) -> None:
    half = {"when": {"request": 0}, "text": DOCUMENT.partition("## Next step")[0]}
    stage, screen = staged({"agent": FULL, "agent/handoff": [half, WRITES]}), Screen()
    runtime = stage.runtime(handoff=SMALL)
    result = play(runtime.run(agent("Bash"), "Paint the wall", on_event=screen))
    assert (result.ok, result.attempts) == (True, 1)
    assert written(runtime) == Handoff.parse(DOCUMENT, lang="en")
    (_, again) = (request.talk for request in stage.requests if request.speaker == "agent/handoff")
    assert "missing: Next step, Scene" in again.prompt
    assert len(again.prompts) == 2  # the task and this: the first try has left no trace in the session
    assert done(screen)["num_turns"] == 2


def test_what_nobody_writes_is_put_together_and_says_so(staged: MakeStage) -> None:
    task = "Paint the wall. " + "And mind the cat. " * 200
    stage, screen = staged({"agent": FULL, "agent/handoff": [{"text": "No."}]}), Screen()
    runtime = stage.runtime(handoff=SMALL)
    result = play(runtime.run(agent("Bash"), task, on_event=screen))
    assert (result.ok, result.text) == (True, "I paint.\n\nThe second coat is on.")
    assert done(screen)["degraded"] is True
    handoff = written(runtime)
    assert handoff.degraded
    assert handoff.complete()
    assert handoff.doing == task[:1200].strip()
    assert "[Bash] pwd" in handoff.scene
    assert "I paint." in handoff.scene
    assert "nobody could write" in screen.of("handoff")[-1].text
    assert task.strip() in stage.requests[-1].talk.prompts[0]


def test_the_turn_that_writes_can_do_nothing_else(staged: MakeStage) -> None:
    acts = {"when": {"not": {"called": "Bash"}}, "tools": [["Bash", {"command": "touch acted.txt"}]]}
    stage, screen = staged({"agent": FULL, "agent/handoff": [acts, WRITES]}), Screen()
    result = play(stage.runtime(handoff=SMALL).run(agent("Bash"), "Paint the wall", on_event=screen))
    assert result.ok
    assert done(screen)["degraded"] is False
    assert not (stage.workspace / "acted.txt").exists()
    refused = [request.talk for request in stage.requests if request.speaker == "agent/handoff"][-1]
    assert "no tool can be called" in str(refused.calls[-1].result)


def test_a_failure_of_the_network_meanwhile_is_waited_out(staged: MakeStage) -> None:
    fails = {"when": {"request": 0}, "error": "overloaded"}
    stage, screen = staged({"agent": FULL, "agent/handoff": [fails, WRITES]}), Screen()
    result = play(stage.runtime(handoff=SMALL).run(agent("Bash"), "Paint the wall", on_event=screen))
    assert (result.ok, result.attempts, done(screen)["degraded"]) == (True, 1, False)
    (_, again) = (request.talk for request in stage.requests if request.speaker == "agent/handoff")
    assert "missing" not in again.prompt, "nothing was left out; it was never said"


def test_a_prompt_the_api_finds_too_long_hands_over_at_once(staged: MakeStage) -> None:
    long = {"when": {"not": {"prompts": "You take over"}}, "error": "prompt-too-long"}
    begin = {"when": {"turn": 0, "not": {"prompts": "You take over"}}, **fills(20_000)}
    stage = staged({"agent": [TAKES_OVER, begin, long], "agent/handoff": [{"error": "prompt-too-long"}]})
    screen = Screen()
    runtime = stage.runtime(handoff=SMALL)
    result = play(runtime.run(agent("Bash"), "Paint the wall", on_event=screen))
    assert (result.ok, result.attempts, result.errors, len(result.retired)) == (True, 1, [], 1)
    assert phases(screen) == ["writing", "done"]
    assert written(runtime).degraded
    # Compacting would have been a request of its own, and asking a second time is of no use.
    assert [request.speaker for request in stage.requests] == ["agent", "agent", "agent/handoff", "agent"]


def test_a_session_the_agent_program_holds_to_be_full_hands_over_at_once(staged: MakeStage) -> None:
    """The window given is larger than the model's, and the program refuses by itself to ask for more."""
    stage = staged({"agent": [TAKES_OVER, fills(199_000), {"text": "Not reached."}], "agent/handoff": [WRITES]})
    screen = Screen()
    runtime = stage.runtime(handoff=HandoffPolicy(window=1_000_000))
    result = play(runtime.run(agent("Bash", model="claude-haiku-4-5"), "Paint the wall", on_event=screen))
    assert (result.ok, result.attempts, result.text) == (True, 1, "I paint.\n\nThe second coat is on.")
    assert (phases(screen), done(screen)["degraded"]) == (["writing", "done"], True)


def test_a_first_prompt_that_is_too_long_is_not_handed_on(staged: MakeStage) -> None:
    stage, screen = staged({"agent": [{"error": "prompt-too-long"}]}), Screen()
    result = play(stage.runtime(handoff=SMALL).run(agent(), "Do it", on_event=screen))
    assert (result.ok, len(stage.requests), screen.of("handoff")) == (False, 1, [])
    assert "larger window" in result.error


def test_there_is_an_end_to_handing_over(staged: MakeStage) -> None:
    unheard = {"when": {"turn": 1}, "text": "Unheard.", "hang": "for ever"}
    stage, screen = staged({"agent": [unheard, fills(60_000)], "agent/handoff": [WRITES]}), Screen()
    policy = HandoffPolicy(window=100_000, max_generations=2)
    result = play(stage.runtime(handoff=policy).run(agent("Bash"), "Paint the wall", on_event=screen))
    assert (result.ok, len(result.retired)) == (False, 2)
    assert result.session_id not in result.retired
    assert result.error.startswith("window too small for this role")
    assert phases(screen) == ["near", "writing", "done"] * 2 + ["near"]


def test_what_is_said_while_it_writes_reaches_the_fresh_session(staged: MakeStage) -> None:
    waits = {**WRITES, "hang": "writing"}
    heard = {"when": {"prompt": WORDS}, "text": "Green it is."}
    stage, screen = staged({"agent": [heard, *FULL], "agent/handoff": [waits]}), Screen()
    runtime = stage.runtime(handoff=SMALL)

    async def said_meanwhile() -> StepResult:
        running = asyncio.ensure_future(runtime.run(agent("Bash"), "Paint the wall", on_event=screen))
        await until(lambda: any(request.speaker == "agent/handoff" for request in stage.requests))
        assert runtime.interrupt(WORDS)
        stage.server.app.release("writing")
        return await running

    result = play(said_meanwhile())
    assert (result.ok, result.attempts, result.text) == (True, 1, "I paint.\n\nGreen it is.")
    assert done(screen)["degraded"] is False


def test_what_was_said_before_is_part_of_what_the_fresh_session_is_told(staged: MakeStage) -> None:
    """Said with an interrupt that comes as the context is full: it hands over first, then heeds the words."""
    waits = {"when": {"turn": 0, "not": {"prompts": "Paint it well"}}, "text": "I think it over.", "hang": "for ever"}
    well = {"when": {"prompts": "Paint it well", "not": {"prompts": "You take over"}}, **fills(60_000)}
    stage = staged({"agent": [TAKES_OVER, stopped_at(1), waits, well], "agent/handoff": [WRITES]})
    screen, runtime = Screen(), stage.runtime(handoff=SMALL)

    async def told_early() -> StepResult:
        running = asyncio.ensure_future(runtime.run(agent("Bash"), "Paint the wall", on_event=screen))
        await until(lambda: stage.requests)
        assert runtime.interrupt("Paint it well")
        return await running

    result = play(told_early())
    assert (result.ok, len(result.retired)) == (True, 1)
    (prompt,) = stage.requests[-1].talk.prompts
    assert prompt.startswith("<task>\nPaint the wall\n</task>")
    assert "people said the following" in prompt
    assert "Paint it well" in prompt


@pytest.mark.parametrize("speaker", ["agent/handoff", "agent"], ids=["while it writes", "before the other answers"])
def test_a_run_that_dies_meanwhile_finds_the_session_as_it_was_and_hands_over_again(
    staged: MakeStage, speaker: str
) -> None:
    """Cancelled here, which leaves on the disk what a kill does: the old session, in the lineage and in the store."""
    writes, takes_over = dict(WRITES), dict(TAKES_OVER)
    (writes if speaker == "agent/handoff" else takes_over)["hang"] = "for ever"
    stage, screen = staged({"agent": [takes_over, *FULL[1:]], "agent/handoff": [writes]}), Screen()
    runtime = stage.runtime(handoff=SMALL)
    lineage = Lineage(runtime.run_dir / "lineage.json", runtime.workspace)
    runtime.on_session = lineage.set

    def moment() -> bool:
        seen = [request.speaker for request in stage.requests]
        return "agent/handoff" in seen and seen[-1] == speaker

    async def cut_off() -> None:
        running = asyncio.ensure_future(runtime.run(agent("Bash"), "Paint the wall", on_event=screen))
        await until(moment)
        running.cancel()
        await asyncio.wait({running})

    play(cut_off())
    left = lineage.load(runtime.has_session).get("Agent")
    assert left == stage.requests[0].session
    unheard = {"when": {"prompt": "Go on", "called": "Bash"}, "text": "Unheard.", "hang": "for ever"}
    stage.replay({"agent": [TAKES_OVER, unheard, fills(60_000)], "agent/handoff": [WRITES]})
    result = play(runtime.run(agent("Bash"), "Go on", resume=left, step_name="Agent", on_event=screen))
    assert (result.ok, result.retired) == (True, [left])
    asked = [request.talk for request in stage.requests if request.speaker == "agent/handoff"][-1]
    assert [prompt.split("\n")[0] for prompt in asked.prompts] == ["Paint the wall", "Go on", "flower-turn: handoff"]
    (prompt,) = stage.requests[-1].talk.prompts
    assert prompt.startswith("<task>\nPaint the wall\n</task>")
    assert "it was told:\n\nGo on" in prompt
    assert lineage.get("Agent") == result.session_id


def dear(tokens: int, **more: Any) -> dict[str, Any]:
    """A reply whose price is that of ``tokens`` of input and nothing else."""
    return {"text": "Words.", "usage": {"input_tokens": tokens, "output_tokens": 0}, **more}


def test_costs_add_up_over_retries_interrupts_handoffs_and_resumes(staged: MakeStage) -> None:
    """Measured against what the same tokens cost in one reply; nothing is counted twice, nothing is left out."""
    look = {"tools": [["Bash", {"command": "pwd"}]]}
    script = [
        ({"prompts": "And again"}, dear(90_000)),
        # More than the session before it has cost: the two are not to be taken for one.
        ({"prompts": "You take over"}, dear(100_000)),
        ({"request": 0}, dear(20_000, **look)),
        ({"request": 1}, {"error": "overloaded"}),
        ({"request": 2}, dear(0, hang="for ever")),  # the person breaks in here
        ({"prompt": "Go on", "not": {"called": "Bash"}}, dear(60_000, **look)),
        ({"prompt": "Go on"}, dear(0, hang="for ever")),  # the session is stopped here
    ]
    replies = [{**reply, "when": when} for when, reply in script]
    stage = staged({"agent": replies, "agent/handoff": [dear(70_000, text=DOCUMENT)], "measure": [dear(100_000)]})
    screen = Screen()
    runtime = stage.runtime(handoff=SMALL, resilience=Resilience(base_delay=0.01, max_delay=0.01))

    async def mixed() -> list[StepResult]:
        running = asyncio.ensure_future(runtime.run(agent("Bash"), "Paint the wall", on_event=screen))
        await until(lambda: len(stage.requests) == 3)
        assert runtime.interrupt("Go on")
        one = await running
        return [one, await runtime.run(agent("Bash"), "And again", resume=one.session_id, on_event=screen)]

    results = play(mixed())
    assert [(result.ok, result.attempts, len(result.retired)) for result in results] == [(True, 2, 1), (True, 1, 0)]
    measured = play(runtime.run(agent(name="M", instructions="flower-role: measure"), "Measure")).cost_usd
    assert [result.cost_usd / measured for result in results] == pytest.approx([2.5, 0.9], rel=1e-3)
    bills = [event.payload for event in screen.events if "cost_usd" in event.payload]
    assert sum(bill["cost_usd"] for bill in bills) / measured == pytest.approx(3.4, rel=1e-3)
    assert sum(result.num_turns for result in results) == sum(bill["num_turns"] for bill in bills)
    assert runtime.total_cost() == pytest.approx(4.4 * measured, rel=1e-3)
