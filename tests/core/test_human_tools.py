"""The two tools, called through MCP as the agent program calls them: over the in-memory transport."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import pytest
from mcp import Client
from mcp.types import TextContent

from flower_core.human import HumanChannel
from flower_core.texts import LANGUAGES, texts_for

T = TypeVar("T")


def with_client(channel: HumanChannel, work: Callable[[Client], Awaitable[T]]) -> T:
    async def run() -> T:
        server = channel.mcp_servers()["human"]
        assert (server["type"], server["name"]) == ("sdk", "human")
        async with Client(server["instance"], mode="legacy") as client:
            return await work(client)

    return asyncio.run(run())


async def called(client: Client, tool: str, arguments: Mapping[str, Any]) -> tuple[str, bool]:
    result = await client.call_tool(tool, dict(arguments))
    [content] = result.content
    assert isinstance(content, TextContent)
    return content.text, bool(result.is_error)


@pytest.mark.parametrize("lang", LANGUAGES)
def test_both_tools_are_offered_and_asking_is_marked_as_read_only(lang: str) -> None:
    channel = HumanChannel(lang=lang)

    async def work(client: Client) -> None:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert [f"mcp__human__{name}" for name in tools] == [channel.tool_name, channel.inbox_name]
        annotations = tools["ask"].annotations
        assert annotations is not None
        assert annotations.read_only_hint is True
        assert tools["ask"].input_schema["required"] == ["question"]
        assert tools["ask"].description == texts_for(lang)("human.ask_tool")

    with_client(channel, work)


def test_the_agent_gets_the_answer_word_for_word_while_two_questions_wait_side_by_side() -> None:
    channel = HumanChannel(lang="en")

    async def work(client: Client) -> None:
        first = asyncio.ensure_future(called(client, "ask", {"question": "a?", "options": ["x", "y"]}))
        second = asyncio.ensure_future(called(client, "ask", {"question": "b?"}))
        by_words = {ask.question: ask for ask in [await channel.next_ask(5), await channel.next_ask(5)] if ask}
        assert by_words["a?"].options == ["x", "y"]
        assert len(channel.pending()) == 2
        channel.answer(by_words["b?"].id, "  line one\n{line} two ")
        assert await second == ("  line one\n{line} two ", False)
        assert not first.done()
        channel.decline(by_words["a?"].id)
        assert await first == (texts_for("en")("human.declined"), False)

    with_client(channel, work)


def test_when_nobody_answers_the_agent_is_told_to_decide() -> None:
    asked = with_client(HumanChannel(timeout_s=0, lang="en"), lambda client: called(client, "ask", {"question": "?"}))
    assert asked == (texts_for("en")("human.timeout"), False)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({}, "question"),
        ({"text": "Which?"}, "question"),
        ({"question": "Which?", "choices": ["a"]}, "choices"),
        ({"question": 5}, "string"),
        ({"question": None}, "string"),
        ({"question": " "}, "question"),
        ({"question": "Which?", "options": "red"}, "array"),
        ({"question": "Which?", "options": [1]}, "string"),
        ({"question": "Which?", "options": ["red", ""]}, "options"),
    ],
)
def test_wrong_input_is_an_error_result_that_says_what_to_send(arguments: dict[str, Any], named: str) -> None:
    channel = HumanChannel(lang="en")
    text, is_error = with_client(channel, lambda client: called(client, "ask", arguments))
    assert is_error
    assert named in text
    assert channel.pending() == []


def test_the_inbox_hands_over_everything_at_once_and_says_what_the_brief_already_has(tmp_path: Any) -> None:
    channel = HumanChannel(lang="en", amend_path=tmp_path / "brief.md")
    texts = texts_for("en")

    async def work(client: Client) -> None:
        assert await called(client, "inbox", {}) == (texts("human.inbox_empty"), False)
        channel.send("count {bytes} too")
        channel.send("and lines")
        text, is_error = await called(client, "inbox", {})
        assert not is_error
        assert text.index("count {bytes} too") < text.index("and lines")
        assert text.count(texts("human.inbox_amended", path=tmp_path / "brief.md")) == 2
        assert await called(client, "inbox", {}) == (texts("human.inbox_empty"), False)

    with_client(channel, work)


def test_the_inbox_says_when_something_is_not_in_the_brief() -> None:
    channel = HumanChannel(lang="en")
    channel.send("hello")
    text, _ = with_client(channel, lambda client: called(client, "inbox", {}))
    assert texts_for("en")("human.inbox_not_amended") in text


def test_a_call_the_agent_program_abandons_leaves_the_waiting_list_and_the_server_goes_on() -> None:
    channel = HumanChannel(lang="en")

    async def work(client: Client) -> None:
        call = asyncio.ensure_future(called(client, "ask", {"question": "a?"}))
        assert await channel.next_ask(5)
        ended = asyncio.Event()
        channel.on_event = lambda _event: ended.set()
        call.cancel()
        async with asyncio.timeout(5):
            await ended.wait()
        assert [ask.state for ask in channel.asks] == ["declined"]
        assert channel.pending() == []
        again = asyncio.ensure_future(called(client, "ask", {"question": "b?"}))
        assert await channel.next_ask(5)
        channel.answer("q2", "yes")
        assert await again == ("yes", False)

    with_client(channel, work)
