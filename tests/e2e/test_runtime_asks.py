"""An agent asks a person through the real agent program, and each answer finds its own question."""

from __future__ import annotations

import asyncio

import pytest

from flower_core import HumanChannel, StepResult, coordinator, worker
from tests.e2e.conftest import MakeStage
from tests.e2e.stage import QUICK, Screen, agent, from_a_thread, play, until

pytestmark = pytest.mark.e2e
TWO = [["mcp__human__ask", {"question": "Which colour?", "options": ["red", "blue"]}]]
TWO += [["mcp__human__ask", {"question": "Which size?"}]]


def test_two_questions_in_one_message_wait_side_by_side_and_get_their_own_answers(staged: MakeStage) -> None:
    stage = staged({"agent": [{"tools": TWO}, {"text": "You said: {answers}"}]})
    screen = Screen()
    channel = HumanChannel(on_event=screen, lang="en")
    spec = agent(channel.tool_name, mcp_servers=channel.mcp_servers())

    async def ask_both() -> StepResult:
        running = asyncio.ensure_future(stage.runtime().run(spec, "Paint it", on_event=screen))
        colour, size = await until(lambda: waiting if len(waiting := channel.pending()) == 2 else [])
        assert (colour.question, colour.options, size.question) == ("Which colour?", ["red", "blue"], "Which size?")
        assert from_a_thread(lambda: channel.answer(size.id, "huge"))
        assert from_a_thread(lambda: channel.answer(colour.id, "blue"))
        return await running

    result = play(ask_both())
    assert result.text == "You said: blue; huge"
    calls = stage.requests[-1].talk.calls
    assert [(call.input["question"], call.result) for call in calls] == [
        ("Which colour?", "blue"),
        ("Which size?", "huge"),
    ]


def test_two_workers_each_wait_for_their_own_answer(staged: MakeStage) -> None:
    def dispatch(what: str) -> list[object]:
        return ["Agent", {"subagent_type": "coder", "description": what, "prompt": f"Find out the {what}."}]

    stage = staged(
        {
            "coordinator": [{"tools": [dispatch("colour"), dispatch("size")]}, {"text": "Both are back."}],
            "worker/coder": [
                {"when": {"called": "mcp__human__ask"}, "text": "It is {answer}."},
                {"when": {"prompt": "colour"}, "tools": TWO[:1]},
                {"when": {"prompt": "size"}, "tools": TWO[1:]},
            ],
        }
    )
    channel, screen = HumanChannel(lang="en"), Screen()
    hands = {"coder": worker("Asks.", "", tools=(channel.tool_name,))}
    spec = coordinator("Lead", "", hands, channel=channel, lang="en", env=QUICK)

    async def ask_both() -> StepResult:
        running = asyncio.ensure_future(stage.runtime().run(spec, "Paint it", on_event=screen))
        waiting = await until(lambda: asks if len(asks := channel.pending()) == 2 else [])
        for ask in reversed(waiting):
            assert channel.answer(ask.id, "blue" if "colour" in ask.question else "huge")
        return await running

    result = play(ask_both())
    assert (result.ok, result.text) == (True, "Both are back.")
    reports = [call.result or "" for call in stage.requests[-1].talk.calls]
    assert ["blue" in report for report in reports] == [True, False]
    assert ["huge" in report for report in reports] == [False, True]


def test_nobody_there_the_agent_is_told_to_decide_itself(staged: MakeStage) -> None:
    stage = staged({"agent": [{"tools": TWO[:1]}, {"text": "Then: {answer}"}]})
    channel = HumanChannel(timeout_s=0, lang="en")
    spec = agent(channel.tool_name, mcp_servers=channel.mcp_servers())
    result = play(stage.runtime().run(spec, "Paint it"))
    assert "Decide yourself" in result.text


def test_what_was_said_unprompted_is_in_the_inbox(staged: MakeStage) -> None:
    stage = staged({"agent": [{"tools": [["mcp__human__inbox", {}]]}, {"text": "Read: {inbox}"}]})
    channel = HumanChannel(lang="en")
    channel.send("Mind the door")
    spec = agent(channel.inbox_name, mcp_servers=channel.mcp_servers())
    result = play(stage.runtime().run(spec, "Paint it"))
    assert "Mind the door" in result.text
    assert channel.pending_mail() == []
