"""Failures: which are tried again, how, and which say at once what to do."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from flower_core import Resilience, StepResult
from flower_core.rehearsal import RehearsalServer
from flower_core.sessions import SqliteSessionStore
from tests.e2e.conftest import MakeStage
from tests.e2e.stage import BRISK, LONG_COMMAND, Screen, agent, parent_of, play, until

pytestmark = pytest.mark.e2e
OVERLOADED = {"when": {"request": 0}, "error": "overloaded"}


def test_an_overloaded_endpoint_is_asked_again_in_the_same_session(staged: MakeStage) -> None:
    stage = staged({"agent": [OVERLOADED, {"text": "Done."}]})
    screen = Screen()
    result = play(stage.runtime().run(agent(), "Do it", on_event=screen))
    assert (result.ok, result.error, result.attempts, result.text) == (True, "", 2, "Done.")
    assert len(result.errors) == 1
    assert "529" in result.errors[0]
    assert {event.payload["session_id"] for event in screen.of("result")} == {result.session_id}
    assert [event.payload.get("synthetic") for event in screen.of("error")] == [True]
    (retry,) = screen.of("retry")
    assert retry.payload == {"step": "Agent", "attempt": 2}
    assert "attempt 2 of 4" in retry.text


def test_the_prompt_of_a_retry_carries_no_detail_of_the_error(staged: MakeStage) -> None:
    stage = staged({"agent": [OVERLOADED, {"text": "Done."}]})
    play(stage.runtime().run(agent(), "Do it"))
    said = "\n\n".join(stage.requests[-1].talk.prompts)
    assert said.startswith("Do it\n\n")
    assert "cut off in the middle" in said
    assert not re.search(r"529|overload|error|attempt", said, re.IGNORECASE)


def test_attempts_are_bounded(staged: MakeStage) -> None:
    stage = staged({"agent": [{"error": "overloaded"}]})
    screen = Screen()
    policy = Resilience(max_attempts=3, base_delay=0.01, max_delay=0.01)
    result = play(stage.runtime(resilience=policy).run(agent(), "Do it", on_event=screen))
    assert (result.ok, result.attempts, len(result.errors), len(stage.requests)) == (False, 3, 3, 3)
    assert [event.payload["attempt"] for event in screen.of("retry")] == [2, 3]


def test_without_resilience_nothing_is_tried_again(staged: MakeStage) -> None:
    stage = staged({"agent": [OVERLOADED, {"text": "Done."}]})
    result = play(stage.runtime(resilience=False).run(agent(), "Do it"))
    assert (result.ok, result.attempts, len(stage.requests)) == (False, 1, 1)


@pytest.mark.parametrize("compact", [{}, {"DISABLE_COMPACT": "1"}])
def test_a_prompt_too_long_is_a_failure_of_its_own(staged: MakeStage, compact: dict[str, str]) -> None:
    stage = staged({"agent": [{"error": "prompt-too-long"}]})
    result = play(stage.runtime().run(agent(env=compact), "Do it"))
    assert (result.ok, result.attempts) == (False, 1)
    assert "the context window is full" in result.error
    assert "larger window" in result.error


def test_costs_and_turns_add_up_over_attempts(staged: MakeStage) -> None:
    play_of = {
        "agent": [
            {"when": {"request": 0}, "text": "I look.", "tools": [["Bash", {"command": "pwd"}]]},
            {"when": {"request": 1}, "error": "overloaded"},
            {"text": "Done."},
        ]
    }
    screen = Screen()
    result = play(staged(play_of).runtime().run(agent("Bash"), "Do it", on_event=screen))
    results = screen.of("result")
    assert (result.attempts, result.text, len(results)) == (2, "I look.\n\nDone.", 2)
    assert result.num_turns == sum(event.payload["num_turns"] for event in results)
    assert result.cost_usd == pytest.approx(sum(event.payload["cost_usd"] for event in results), abs=1e-5)
    assert all(event.payload["cost_usd"] > 0 for event in results)


def test_while_the_endpoint_is_down_it_waits_and_goes_on_when_it_is_back(staged: MakeStage) -> None:
    stage = staged({"agent": [{"text": "I look.", "tools": [["Bash", {"command": "pwd"}]]}, {"text": "Unheard."}]})
    port, screen = stage.server.port, Screen()

    async def outage() -> StepResult:
        running = asyncio.ensure_future(stage.runtime().run(agent("Bash"), "Do it", on_event=screen))
        await screen.shows("tool_call")
        stage.server.close()
        await until(lambda: len(screen.of("retry")) == 2)
        assert f"127.0.0.1:{port} cannot be reached" in screen.of("retry")[1].text
        stage.server = RehearsalServer({"agent": [{"text": "Back again."}]}, port=port, pace=0).start()
        return await running

    result = play(outage())
    assert (result.ok, result.attempts) == (True, 2)
    assert result.text == "I look.\n\nBack again."
    assert stage.requests[0].talk.prompts[0] == "Do it"


def test_an_interruption_while_offline_is_one_look_more_and_the_words_are_kept(staged: MakeStage) -> None:
    stage = staged({"agent": [{"text": "Unheard."}]})
    port, screen = stage.server.port, Screen()
    stage.server.close()
    policy = Resilience(base_delay=0.01, max_delay=0.01, probe_interval=300.0)
    runtime = stage.runtime(resilience=policy)

    async def outage() -> StepResult:
        running = asyncio.ensure_future(runtime.run(agent(), "Do it", on_event=screen))
        await until(lambda: len(screen.of("retry")) == 2)
        assert runtime.interrupt("Are you there?")
        await _a_few_rounds()
        stage.server = RehearsalServer({"agent": [{"text": "Back again."}]}, port=port, pace=0).start()
        await asyncio.wait({running}, timeout=1)  # looking without pause would find the endpoint in this time
        assert stage.requests == []
        assert runtime.interrupt("Try now.")
        return await running

    result = play(outage())
    assert (result.ok, result.text) == (True, "Back again.")
    said = stage.requests[-1].talk.prompts[-1]
    assert said.index("Are you there?") < said.index("Try now.")


async def _a_few_rounds() -> None:
    """Let the loop go round often enough for one look at an endpoint that refuses at once."""
    for _ in range(200):
        await asyncio.sleep(0)


def test_a_program_that_dies_before_it_spoke_is_given_the_task_again(staged: MakeStage) -> None:
    stage = staged({"agent": [{"text": "Done."}]})
    runtime, screen = stage.runtime(resilience=BRISK), Screen()
    launcher = stage.home / "books" / "agent"
    whole = launcher.read_text()
    launcher.write_text(f'#!/bin/sh\nrm "$0"\ncat > "$0" <<\'end\'\n{whole}end\nchmod 700 "$0"\nexit 7\n')
    launcher.chmod(0o700)
    result = play(runtime.run(agent(), "Do it", on_event=screen))
    assert (result.ok, result.attempts, result.text) == (True, 2, "Done.")
    assert stage.requests[-1].talk.prompts == ["Do it"]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_an_agent_program_that_is_killed_is_started_again_in_its_session(
    staged: MakeStage, number: signal.Signals
) -> None:
    stage = staged({"agent": [{"text": "I run it.", "tools": [["Bash", {"command": LONG_COMMAND}]]}]})
    screen = Screen()

    async def killed() -> StepResult:
        running = asyncio.ensure_future(stage.runtime().run(agent("Bash"), "Do it", on_event=screen))
        await until((stage.workspace / "started.txt").exists)
        stage.replay({"agent": [{"text": "Here again."}]})
        (program,) = [process for process in stage.agent_processes() if parent_of(process) == os.getpid()]
        os.kill(program, number)
        return await running

    result = play(killed())
    for orphan in stage.agent_processes():  # a killed program leaves its command behind
        os.kill(orphan, signal.SIGKILL)
    assert (result.ok, result.attempts, result.text) == (True, 2, "I run it.\n\nHere again.")
    assert [request.rejected for request in stage.requests if request.rejected] == []
    assert stage.requests[-1].session == stage.requests[0].session == result.session_id
    assert stage.requests[-1].talk.prompts[0].startswith("Do it")


class FullDisk(SqliteSessionStore):
    """A store on a disk that takes nothing any more."""

    async def append(self, key: Mapping[str, Any], entries: Sequence[Mapping[str, Any]]) -> None:
        raise OSError(28, "No space left on device")


def test_a_session_store_that_fails_is_told_of_and_ends_nothing(staged: MakeStage) -> None:
    stage = staged({"agent": [{"text": "Done."}]})
    store = FullDisk(stage.home / "full.db")
    runtime = stage.runtime(store=store)
    result = play(runtime.run(agent(), "Do it"))
    store.close()
    assert (result.ok, result.text) == (True, "Done.")
    assert len(runtime.ui_errors) == 1
    assert "No space left on device" in runtime.ui_errors[0]
