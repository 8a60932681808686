"""Whatever the agent is doing when a person breaks in: its session goes on now, and resumes in a new process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from claude_agent_sdk import HookMatcher

from flower_core import HumanChannel, StepResult, worker
from tests.e2e.conftest import MakeStage
from tests.e2e.stage import LONG_COMMAND, Screen, Stage, agent, play, until

pytestmark = pytest.mark.e2e
WORDS = "Use blue instead"
HEARD = {"when": {"prompts": WORDS}, "text": "Blue it is."}
RUN_IT = ["Bash", {"command": LONG_COMMAND}]
DISPATCH = ["Agent", {"subagent_type": "coder", "description": "Paint", "prompt": "Paint the wall."}]
Moment = Callable[[Stage, Screen], Any]


def started(stage: Stage, _screen: Screen) -> bool:
    """The command runs."""
    return (stage.workspace / "started.txt").exists()


def asked(stage: Stage, _screen: Screen) -> bool:
    """The model has been asked."""
    return bool(stage.requests)


def retrying(_stage: Stage, screen: Screen) -> bool:
    """The agent program waits before it asks again by itself."""
    return any(event.text == "api_retry" for event in screen.of("system"))


@dataclass
class State:
    """Something an agent can be in the middle of. ``said`` is what is left of what it said before."""

    reply: dict[str, Any]
    moment: Moment
    said: str = ""
    calls: int = 0
    env: dict[str, str] = field(default_factory=dict)


async def _for_ever(*_: object) -> Any:
    await asyncio.Event().wait()
    return {}


def _text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


STATES = {
    # Its second block: only whole blocks are told of, so the first is how a test knows that the second streams.
    "text streams": State(
        {"content": [_text("I paint it."), _text("Red and " * 20)], "hang": "for ever"},
        lambda _stage, screen: bool(screen.of("text")),
        "I paint it.",
    ),
    "thoughts stream": State({"thinking": "Which colour? " * 20, "text": "Red.", "hang": "for ever"}, asked),
    "a request is pending": State({"text": "Red.", "delay": 600}, asked),
    "the agent program retries by itself": State(
        {"error": "rate-limit", "headers": {"retry-after": "30"}}, retrying, env={"CLAUDE_CODE_MAX_RETRIES": "5"}
    ),
    "a command runs": State({"text": "I run it.", "tools": [RUN_IT]}, started, "I run it.", 1),
    "three calls in one message": State(
        {"text": "All at once.", "tools": [RUN_IT, ["Bash", {"command": "pwd"}], ["Glob", {"pattern": "*"}]]},
        started,
        "All at once.",
        3,
    ),
    "a hook is pending": State(
        {"text": "I look.", "tools": [["Glob", {"pattern": "*"}]]},
        lambda _stage, screen: bool(screen.of("tool_call")),
        "I look.",
        1,
    ),
    "a question waits": State(
        {"text": "Say.", "tools": [["mcp__human__ask", {"question": "Which colour?"}]]},
        lambda _stage, screen: bool(screen.of("ask")),
        "Say.",
        1,
    ),
    "two subagents work": State({"text": "Off.", "tools": [DISPATCH, DISPATCH]}, started, "Off.", 2),
}


@pytest.mark.parametrize("name", STATES)
def test_in_every_state_the_session_goes_on_and_can_be_resumed(staged: MakeStage, name: str) -> None:
    state, screen = STATES[name], Screen()
    hands = [{"text": "I paint.", "tools": [RUN_IT]}]
    stage = staged({"agent": [HEARD, state.reply], "worker/coder": hands})
    stage.server.app.pace = 1
    channel = HumanChannel(on_event=screen, lang="en")
    spec = agent(
        *("Bash", "Glob", "Agent", channel.tool_name),
        agents={"coder": worker("Paints.", "flower-role: worker/coder", tools=("Bash",))},
        mcp_servers=channel.mcp_servers(),
        hooks={"PreToolUse": [HookMatcher(matcher="Glob", hooks=[_for_ever])]} if "hook" in name else None,
        env=state.env,
    )
    runtime = stage.runtime()

    async def broken_into() -> tuple[StepResult, StepResult]:
        running = asyncio.ensure_future(runtime.run(spec, "Paint it", on_event=screen))
        await until(lambda: state.moment(stage, screen))
        assert runtime.interrupt(WORDS)
        result = await running
        return result, await runtime.run(spec, "And again", resume=result.session_id)

    result, again = play(broken_into())
    assert (result.ok, result.attempts, result.errors) == (True, 1, [])
    assert result.text.startswith(state.said)
    assert result.text.endswith("Blue it is.")
    assert (again.ok, again.session_id, again.text) == (True, result.session_id, "Blue it is.")
    assert [request.rejected for request in stage.requests if request.rejected] == []
    last = stage.requests[-1].talk
    assert len(last.calls) == state.calls
    assert all(call.result is not None for call in last.calls)
    assert WORDS in "\n".join(last.prompts)
    assert screen.of("retry") == []
    assert channel.pending() == []
