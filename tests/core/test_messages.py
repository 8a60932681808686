"""From SDK messages to events: every row of the table of event kinds, and whatever the future may send."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from claude_agent_sdk import (
    AssistantMessage,
    ConversationResetMessage,
    ResultMessage,
    ServerToolUseBlock,
    SystemMessage,
    TaskNotificationMessage,
    TaskProgressMessage,
    TaskStartedMessage,
    TaskUpdatedMessage,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
)

from flower_core.claude.messages import context_level, normalize
from flower_core.events import Event

USAGE = {"input_tokens": 5, "cache_read_input_tokens": 70, "cache_creation_input_tokens": 600, "output_tokens": 1}
SUBAGENT = {"subagent": True, "parent_tool_use_id": "toolu_parent"}


def said(*blocks: Any, **more: Any) -> AssistantMessage:
    return AssistantMessage(content=list(blocks), model="claude", **more)


def only(message: object) -> Event:
    (event,) = normalize(message)
    assert event.raw is message
    json.dumps(event.payload, allow_nan=False)
    return event


def test_text_is_the_words_with_the_context_level() -> None:
    event = only(said(TextBlock("Hello"), usage=USAGE))
    assert (event.kind, event.text, event.payload) == ("text", "Hello", {"context": 675})


def test_thinking_is_the_thought() -> None:
    event = only(said(ThinkingBlock("Hm.", "signature"), usage=USAGE))
    assert (event.kind, event.text, event.payload) == ("thinking", "Hm.", {"context": 675})


@pytest.mark.parametrize(
    "message",
    [
        said(TextBlock("half \ud83d")),
        said(ThinkingBlock("half \ud83d", "signature")),
        said(TextBlock("half \ud83d"), error="server_error"),
        UserMessage(content="half \ud83d", parent_tool_use_id="toolu_parent"),
        UserMessage(content=[ToolResultBlock("toolu_1", "half \ud83d")]),
    ],
    ids=["text", "thinking", "error", "prompt", "tool_result"],
)
def test_half_a_character_at_a_cut_can_be_shown_and_sent_on(message: object) -> None:
    assert only(message).text == "half ?"


def test_without_usage_there_is_no_context_level() -> None:
    assert only(said(TextBlock("Hello"))).payload == {}
    assert context_level({}) == 0
    assert context_level(None) is None


@pytest.mark.parametrize("kind", ["text", "thinking", "tool_call"])
def test_everything_a_subagent_says_is_marked(kind: str) -> None:
    blocks = {
        "text": TextBlock("x"),
        "thinking": ThinkingBlock("x", ""),
        "tool_call": ToolUseBlock("toolu_1", "Read", {}),
    }
    event = only(said(blocks[kind], parent_tool_use_id="toolu_parent", usage=USAGE))
    assert event.kind == kind
    assert event.payload.items() >= {**SUBAGENT, "context": 675}.items()


def test_one_message_with_several_blocks_is_several_events_in_order() -> None:
    message = said(ThinkingBlock("a", ""), TextBlock("b"), ToolUseBlock("toolu_1", "Read", {"file_path": "c"}))
    events = normalize(message)
    assert [(event.kind, event.text) for event in events] == [("thinking", "a"), ("text", "b"), ("tool_call", "c")]


def test_user_side_input_is_a_prompt() -> None:
    assert (only(UserMessage("Do it")).kind, only(UserMessage("Do it")).text) == ("prompt", "Do it")
    brief = only(UserMessage([TextBlock("Count.")], parent_tool_use_id="toolu_parent"))
    assert (brief.kind, brief.text, brief.payload) == ("prompt", "Count.", SUBAGENT)


@pytest.mark.parametrize(
    ("given", "summary"),
    [
        ({"file_path": "/a/b", "content": "c"}, "/a/b"),
        ({"command": "ls", "description": "look"}, "ls"),
        ({"pattern": "*.py", "path": "/a"}, "*.py"),
        ({"command": "x" * 300}, "x" * 200),
        ({"question": "Why?"}, "Why?"),
        ({"todos": [1, 2]}, ""),
        ({"command": 7}, ""),
        ({}, ""),
    ],
)
def test_a_tool_call_is_summed_up_by_what_it_is_about(given: dict[str, Any], summary: str) -> None:
    event = only(said(ToolUseBlock("toolu_1", "Tool", given)))
    assert (event.kind, event.tool, event.text) == ("tool_call", "Tool", summary)
    assert event.payload == {"id": "toolu_1", "input": given}
    assert str(event) == f"[Tool] {summary}"


def test_the_input_of_a_tool_call_is_plain_json_whatever_the_model_made_of_it() -> None:
    wild = {"command": "a\ud83d", "n": float("nan"), "big": 2**70, "b": b"\xff"}
    event = only(said(ToolUseBlock("toolu_1", "Bash", wild)))
    assert event.payload["input"] == {"command": "a?", "n": "nan", "big": str(2**70), "b": "\ufffd"}
    no_table: Any = "no table"
    assert only(said(ToolUseBlock("toolu_2", "Bash", no_table))).payload["input"] == {"input": "no table"}


def test_a_tool_of_the_servers_own_is_a_tool_call_too() -> None:
    event = only(said(ServerToolUseBlock("srvtoolu_1", "web_search", {"query": "roses"})))
    assert (event.kind, event.tool, event.text) == ("tool_call", "web_search", "roses")


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("done", "done"),
        ("x" * 600, "x" * 500),
        ([{"type": "text", "text": "a"}, {"type": "image", "source": {}}, {"type": "text", "text": "b"}], "a\nb"),
        ([{"type": "image", "source": {}}], ""),
        (None, ""),
    ],
)
def test_a_tool_result_shows_its_first_500_characters(content: Any, text: str) -> None:
    event = only(UserMessage([ToolResultBlock("toolu_1", content)]))
    assert (event.kind, event.text) == ("tool_result", text)
    assert event.payload == {"tool_use_id": "toolu_1", "is_error": False}


def test_a_tool_result_tells_errors_and_subagents() -> None:
    event = only(UserMessage([ToolResultBlock("toolu_1", "no", True)], parent_tool_use_id="toolu_parent"))
    assert event.payload == {"tool_use_id": "toolu_1", "is_error": True, **SUBAGENT}


def test_a_result_is_its_subtype_and_its_figures() -> None:
    message = ResultMessage("success", 10, 5, False, 3, "session-1", total_cost_usd=0.25, result="All done")
    event = only(message)
    assert (event.kind, event.text) == ("result", "success")
    assert event.payload == {"session_id": "session-1", "cost_usd": 0.25, "num_turns": 3, "is_error": False}
    assert only(dataclasses.replace(message, total_cost_usd=None)).payload["cost_usd"] == 0.0


def test_an_api_error_the_program_reports_as_a_message_is_an_error() -> None:
    event = only(said(TextBlock("API Error: Overloaded"), error="server_error"))
    assert (event.kind, event.text) == ("error", "API Error: Overloaded")
    assert event.payload == {"synthetic": True, "error": "server_error"}


def test_a_synthetic_message_without_an_error_class_is_an_error_too() -> None:
    event = only(AssistantMessage([TextBlock("Something is wrong")], "<synthetic>", "toolu_parent"))
    assert (event.kind, event.text, event.payload) == ("error", "Something is wrong", {"synthetic": True, **SUBAGENT})


def test_what_the_program_puts_in_after_an_interrupt_is_nobodys_words() -> None:
    assert normalize(AssistantMessage([TextBlock("No response requested.")], "<synthetic>")) == []


@pytest.mark.parametrize(("subtype", "micro"), [("compact_boundary", False), ("microcompact_boundary", True)])
def test_a_compaction_is_a_reset(subtype: str, micro: bool) -> None:
    found = {"trigger": "auto", "pre_tokens": 900, "post_tokens": 80}
    key = "microcompact_metadata" if micro else "compact_metadata"
    event = only(SystemMessage(subtype, {key: found}))
    assert (event.kind, event.text) == ("reset", "compacted (auto) 900 → 80 tokens")
    assert event.payload == {**found, "micro": micro, "subtype": subtype}


def test_a_reset_without_figures_says_so() -> None:
    event = only(ConversationResetMessage("c", "u", "s"))
    assert (event.kind, event.text) == ("reset", "compacted (conversation_reset) ? → ? tokens")
    assert (event.payload["subtype"], event.payload["pre_tokens"]) == ("conversation_reset", None)


TASK: dict[str, Any] = {"subtype": "task", "data": {"raw": 1}, "task_id": "t1", "uuid": "u", "session_id": "s"}


@pytest.mark.parametrize(
    "message",
    [
        TaskStartedMessage(**TASK, description="count"),
        TaskProgressMessage(**TASK, description="count", usage={"total_tokens": 1, "tool_uses": 1, "duration_ms": 1}),
        TaskNotificationMessage(**TASK, status="completed", output_file="", summary="six"),
        TaskUpdatedMessage(**TASK, patch={"status": "killed"}),
    ],
    ids=lambda message: type(message).__name__,
)
def test_news_of_a_task_carries_its_kind_and_its_plain_fields(message: Any) -> None:
    event = only(message)
    fields = {key: value for key, value in vars(message).items() if key not in ("subtype", "data")}
    assert (event.kind, event.text, event.payload) == ("task", "", {**fields, "kind": type(message).__name__})


def test_any_other_system_message_is_its_subtype_and_data() -> None:
    event = only(SystemMessage("api_retry", {"attempt": 1, "odd": {1, 2}}))
    assert (event.kind, event.text) == ("system", "api_retry")
    assert event.payload == {"data": {"attempt": 1, "odd": [1, 2]}}


@dataclasses.dataclass
class MessageOfTheFuture:
    """A class this SDK does not have."""

    content: Any = None


def test_what_nobody_knows_is_unknown_and_never_raises() -> None:
    assert (only(MessageOfTheFuture()).kind, only(MessageOfTheFuture()).text) == ("unknown", "MessageOfTheFuture")
    block: Any = MessageOfTheFuture()
    assert [(event.kind, event.text) for event in normalize(said(TextBlock("a"), block))] == [
        ("text", "a"),
        ("unknown", "MessageOfTheFuture"),
    ]


def test_a_known_message_of_an_unknown_shape_is_unknown_and_never_raises() -> None:
    broken: Any = 5
    assert only(AssistantMessage(broken, "claude")).kind == "unknown"
    assert only(SystemMessage("compact_boundary", broken)).text == "SystemMessage"
