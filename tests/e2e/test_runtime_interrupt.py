"""A person breaks in with words: wherever the agent is, the same session goes on and hears them."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from flower_core import AgentSpec, HumanChannel, Resilience, Runtime, StepResult, coordinator, worker
from flower_core.events import Event
from tests.e2e.conftest import MakeStage
from tests.e2e.stage import LONG_COMMAND, QUICK, Screen, Stage, agent, from_a_thread, parent_of, play, until

pytestmark = pytest.mark.e2e
WORDS = "Use blue instead"
HEARD = {"when": {"prompts": WORDS}, "text": "Blue it is."}
Moment = Callable[[Screen], Awaitable[object]]


async def broken_into(runtime: Runtime, spec: AgentSpec, screen: Screen, moment: Moment, *words: str) -> StepResult:
    """The result of a step that is interrupted with each of ``words`` once ``moment`` has come."""
    running = asyncio.ensure_future(runtime.run(spec, "Paint it", on_event=screen))
    await moment(screen)
    for said in words or (WORDS,):
        assert from_a_thread(lambda said=said: runtime.interrupt(said))  # type: ignore[misc]
    result = await running
    assert runtime.interrupt("too late") is False
    return result


def assert_went_on(stage: Stage, result: StepResult, screen: Screen) -> None:
    """One session, one attempt, paired history, and the words in the newest prompt."""
    assert (result.ok, result.attempts, result.errors) == (True, 1, [])
    assert [request.rejected for request in stage.requests if request.rejected] == []
    assert {event.payload["session_id"] for event in screen.of("result")} == {result.session_id}
    assert WORDS in stage.requests[-1].talk.prompts[-1]
    assert result.text.endswith("Blue it is.")


def interrupt_once(runtime: Runtime, wanted: Callable[[Event], bool]) -> Callable[[Event], None]:
    """A sink that breaks in, on the loop's own thread, the first time it is shown what is ``wanted``."""
    done: list[bool] = []

    def sink(event: Event) -> None:
        if not done and wanted(event):
            done.append(runtime.interrupt(WORDS))

    return sink


def test_nothing_runs_so_there_is_nothing_to_interrupt(staged: MakeStage) -> None:
    assert staged({"agent": [HEARD]}).runtime().interrupt("hello") is False


def test_while_a_command_runs_it_is_stopped_and_the_agent_is_told_why(staged: MakeStage) -> None:
    stage = staged({"agent": [HEARD, {"text": "I run it.", "tools": [["Bash", {"command": LONG_COMMAND}]]}]})
    screen = Screen()

    async def moment(_screen: Screen) -> None:
        await until((stage.workspace / "started.txt").exists)

    result = play(broken_into(stage.runtime(), agent("Bash"), screen, moment))
    assert_went_on(stage, result, screen)
    assert result.text == "I run it.\n\nBlue it is."
    last = stage.requests[-1].talk
    assert [call.name for call in last.calls] == ["Bash"]
    assert "nobody refused the call" in last.prompts[-1]


def test_while_the_model_has_not_said_a_word(staged: MakeStage) -> None:
    stage = staged({"agent": [HEARD, {"text": "Never heard.", "hang": "for ever"}]})
    screen = Screen()

    async def moment(_screen: Screen) -> None:
        await until(lambda: stage.requests)

    result = play(broken_into(stage.runtime(), agent(), screen, moment))
    assert_went_on(stage, result, screen)


def test_while_the_agent_program_is_still_starting(staged: MakeStage) -> None:
    stage = staged({"agent": [HEARD]})
    screen = Screen()

    async def moment(_screen: Screen) -> None:
        await asyncio.sleep(0)  # the step has begun, its program has not

    result = play(broken_into(stage.runtime(), agent(), screen, moment))
    assert_went_on(stage, result, screen)
    (prompt,) = screen.of("prompt")
    assert prompt.text.startswith("Paint it\n\n")
    assert len(stage.requests) == 1


@pytest.mark.parametrize("wanted", ["prompt", "init"])
def test_between_the_prompt_and_the_first_request(staged: MakeStage, wanted: str) -> None:
    stage = staged({"agent": [HEARD, {"text": "Never heard.", "hang": "for ever"}]})
    runtime, screen = stage.runtime(), Screen()
    breaking_in = interrupt_once(runtime, lambda event: wanted in (event.kind, event.text))

    def sink(event: Event) -> None:
        screen(event)
        breaking_in(event)

    result = play(runtime.run(agent(), "Paint it", on_event=sink))
    assert_went_on(stage, result, screen)


@pytest.mark.parametrize("wanted", ["text", "tool_call", "tool_result"])
def test_at_every_step_of_a_turn(staged: MakeStage, wanted: str) -> None:
    look = {"text": "I look.", "tools": [["Bash", {"command": "pwd"}]]}
    stage = staged({"agent": [HEARD, {"when": {"called": "Bash"}, "text": "There.", "hang": "for ever"}, look]})
    runtime, screen = stage.runtime(), Screen()
    breaking_in = interrupt_once(runtime, lambda event: event.kind == wanted)

    def sink(event: Event) -> None:
        screen(event)
        breaking_in(event)

    result = play(runtime.run(agent("Bash"), "Paint it", on_event=sink))
    assert_went_on(stage, result, screen)


def test_in_the_very_moment_the_turn_ends_the_words_open_one_more_turn(staged: MakeStage) -> None:
    stage = staged({"agent": [HEARD, {"text": "Done."}]})
    runtime, screen = stage.runtime(), Screen()
    breaking_in = interrupt_once(runtime, lambda event: event.kind == "result")

    def sink(event: Event) -> None:
        screen(event)
        breaking_in(event)

    result = play(runtime.run(agent(), "Paint it", on_event=sink))
    assert_went_on(stage, result, screen)
    assert result.text == "Done.\n\nBlue it is."
    assert len(stage.requests) == len(screen.of("result")) == 2


def test_while_a_finished_step_closes_what_cannot_be_heard_is_refused(staged: MakeStage) -> None:
    stage = staged({"agent": [{"text": "Done."}]})
    runtime, screen = stage.runtime(), Screen()

    async def talk_until_refused() -> tuple[StepResult, int]:
        running = asyncio.ensure_future(runtime.run(agent(), "Paint it", on_event=screen))
        await screen.shows("result")
        taken = 0
        while runtime.interrupt(f"word-{taken}."):
            taken += 1
            await asyncio.sleep(0)
        assert not running.done()  # refused while the agent program was still there
        return await running, taken

    result, taken = play(talk_until_refused())
    assert result.ok
    heard = "".join(stage.requests[-1].talk.prompts)
    assert all(f"word-{number}." in heard for number in range(taken))


def test_twice_quickly_both_are_heard_and_only_one_turn_is_lost(staged: MakeStage) -> None:
    stage = staged({"agent": [HEARD, {"text": "I run it.", "tools": [["Bash", {"command": LONG_COMMAND}]]}]})
    screen = Screen()

    async def moment(_screen: Screen) -> None:
        await until((stage.workspace / "started.txt").exists)

    result = play(broken_into(stage.runtime(), agent("Bash"), screen, moment, "And hurry", WORDS))
    assert_went_on(stage, result, screen)
    assert "And hurry" in stage.requests[-1].talk.prompts[-1]
    assert len(screen.of("result")) == 2


def test_without_words_the_agent_is_told_that_it_was_interrupted(staged: MakeStage) -> None:
    stage = staged(
        {
            "agent": [
                {"when": {"prompts": "A person interrupted you"}, "text": "I go on."},
                {"text": "I run it.", "tools": [["Bash", {"command": LONG_COMMAND}]]},
            ]
        }
    )
    screen = Screen()

    async def moment(_screen: Screen) -> None:
        await until((stage.workspace / "started.txt").exists)

    result = play(broken_into(stage.runtime(), agent("Bash"), screen, moment, ""))
    assert (result.ok, result.attempts, result.text) == (True, 1, "I run it.\n\nI go on.")
    assert "said" not in stage.requests[-1].talk.prompts[-1]


def test_while_a_subagent_works_it_is_stopped_and_the_history_stays_paired(staged: MakeStage) -> None:
    dispatch = {"subagent_type": "coder", "description": "Paint", "prompt": "Paint the wall."}
    stage = staged(
        {
            "coordinator": [HEARD, {"text": "Off it goes.", "tools": [["Agent", dispatch]]}],
            "worker/coder": [{"text": "I paint.", "tools": [["Bash", {"command": LONG_COMMAND}]]}],
        }
    )
    spec = coordinator("Lead", "", {"coder": worker("Paints.", "", tools=("Bash",))}, lang="en", env=QUICK)
    screen = Screen()

    async def moment(_screen: Screen) -> None:
        await until((stage.workspace / "started.txt").exists)

    result = play(broken_into(stage.runtime(), spec, screen, moment))
    assert_went_on(stage, result, screen)
    assert [request.speaker for request in stage.requests] == ["coordinator", "worker/coder", "coordinator"]
    assert "I paint." not in result.text


def test_a_step_that_is_cancelled_leaves_nothing_that_would_end_a_process_later(staged: MakeStage) -> None:
    stage = staged({"agent": [{"text": "I run it.", "tools": [["Bash", {"command": LONG_COMMAND}]]}]})

    async def cancelled() -> set[asyncio.Task[Any]]:
        running = asyncio.ensure_future(stage.runtime().run(agent("Bash"), "Paint it"))
        await until((stage.workspace / "started.txt").exists)
        running.cancel()
        await asyncio.wait({running})
        return asyncio.all_tasks() - {asyncio.current_task()}

    assert not {task for task in play(cancelled()) if "unsettled" in repr(task)}


async def frozen_and_broken_into(stage: Stage, wanted: str) -> tuple[StepResult, Screen, float]:
    """A step whose agent program is stopped dead at the first event of kind ``wanted``, and then interrupted."""
    runtime, screen, frozen = stage.runtime(), Screen(), list[int]()

    def freeze(event: Event) -> None:
        screen(event)
        if event.kind == wanted and not frozen:
            frozen.extend(p for p in stage.agent_processes() if parent_of(p) == os.getpid())
            os.kill(frozen[0], signal.SIGSTOP)

    running = asyncio.ensure_future(runtime.run(agent("Bash"), "Paint it", on_event=freeze))
    await until(lambda: frozen)
    begun = time.monotonic()
    assert runtime.interrupt(WORDS)
    return await running, screen, time.monotonic() - begun


def test_a_program_that_does_not_heed_it_is_ended_after_ten_seconds_and_costs_no_attempt(staged: MakeStage) -> None:
    """Frozen before the session is known, and in the middle of a command that would go on for minutes."""
    run_it = {"text": "I run it.", "tools": [["Bash", {"command": LONG_COMMAND}]]}
    stages = [staged({"agent": [HEARD, run_it]}) for _ in range(2)]

    async def both() -> list[tuple[StepResult, Screen, float]]:
        kinds = ("prompt", "tool_call")
        return await asyncio.gather(*map(frozen_and_broken_into, stages, kinds))

    for stage, (result, screen, took) in zip(stages, play(both()), strict=True):
        assert (result.ok, result.attempts, result.errors) == (True, 1, [])
        assert 10 <= took < 30
        assert result.text.endswith("Blue it is.")
        assert "Paint it" in stage.requests[-1].talk.prompts[0]
        assert WORDS in stage.requests[-1].talk.prompts[-1]
        assert [request.rejected for request in stage.requests if request.rejected] == []
        (told,) = screen.of("retry")
        assert "did not heed" in told.text
        assert stage.agent_processes() == []  # nor does its command go on


def test_while_a_question_waits_it_leaves_the_list_and_settles_as_declined(staged: MakeStage) -> None:
    question = {"question": "Which colour?"}
    stage = staged({"agent": [HEARD, {"tools": [["mcp__human__ask", question]]}]})
    screen = Screen()
    channel = HumanChannel(on_event=screen, lang="en")
    spec = agent(channel.tool_name, mcp_servers=channel.mcp_servers())

    async def moment(_screen: Screen) -> None:
        await until(channel.pending)

    result = play(broken_into(stage.runtime(), spec, screen, moment))
    assert_went_on(stage, result, screen)
    assert channel.pending() == []
    assert [event.payload["state"] for event in screen.of("ask")] == ["asked", "declined"]
    assert channel.answer("q1", "red") is False


def test_during_the_wait_before_a_retry_the_words_cut_it_short(staged: MakeStage) -> None:
    stage = staged({"agent": [{"when": {"request": 0}, "error": "overloaded"}, HEARD]})
    runtime = stage.runtime(resilience=Resilience(base_delay=300.0, max_delay=300.0))
    screen = Screen()

    async def moment(_screen: Screen) -> None:
        await screen.shows("retry")

    result = play(broken_into(runtime, agent(), screen, moment))
    # The second attempt is the retry's; the interruption cost none.
    assert (result.ok, result.attempts, result.text) == (True, 2, "Blue it is.")
    assert WORDS in stage.requests[-1].talk.prompts[-1]
    assert {event.payload["session_id"] for event in screen.of("result")} == {result.session_id}


def test_words_reach_a_session_that_had_to_be_begun_anew(staged: MakeStage) -> None:
    """The first process dies before anything of its session was kept: task and words are both said again."""
    stage = staged({"agent": [HEARD]})
    runtime, screen = stage.runtime(resilience=Resilience(base_delay=300.0, max_delay=300.0)), Screen()
    launcher = stage.home / "books" / "agent"
    whole = launcher.read_text()
    launcher.write_text("#!/bin/sh\nexit 7\n")

    async def moment(_screen: Screen) -> None:
        await screen.shows("retry")
        launcher.write_text(whole)

    result = play(broken_into(runtime, agent(), screen, moment))
    assert (result.ok, result.attempts) == (True, 2)
    (said,) = stage.requests[-1].talk.prompts
    assert said.startswith("Paint it")
    assert WORDS in said


def test_words_that_cannot_reach_the_agent_any_more_are_named_in_the_errors(staged: MakeStage) -> None:
    stage = staged({"agent": [{"error": "authentication"}]})
    runtime = stage.runtime()
    breaking_in = interrupt_once(runtime, lambda event: event.kind == "result")
    result: Any = play(runtime.run(agent(), "Paint it", on_event=breaking_in))
    assert not result.ok
    assert WORDS in result.errors[-1]
