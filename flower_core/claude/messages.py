"""From the SDK's messages to :class:`~flower_core.events.Event`: the only place that knows both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from claude_agent_sdk import (
    AssistantMessage,
    ConversationResetMessage,
    ResultMessage,
    ServerToolResultBlock,
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

from flower_core.events import Event, clean_text, jsonable

SUMMARY_CHARS = 200
RESULT_CHARS = 500
#: The model name the agent program gives to messages it wrote itself.
SYNTHETIC = "<synthetic>"
#: What it inserts between a stopped turn and the next prompt; no error and nobody's words.
_NO_RESPONSE = "No response requested."
#: Where the one-line summary of a tool call is looked for, in this order.
_SUMMARY_KEYS = ("file_path", "command", "pattern", "notebook_path", "question", "description", "url", "query", "path")
_RESETS = {"compact_boundary", "microcompact_boundary"}
_CONTEXT_KEYS = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
_TASKS = (TaskStartedMessage, TaskProgressMessage, TaskNotificationMessage, TaskUpdatedMessage)


def normalize(message: object) -> list[Event]:
    """The events one SDK message stands for, in order; none for a message without content.

    Never raises: a message of an unknown class, or one whose shape is not the expected one, becomes a single
    event of kind ``unknown`` whose text is the class name.
    """
    try:
        events = _normalize(message)
        for event in events:
            # The agent program counts in UTF-16: what it cuts off may end in half a character.
            event.text = clean_text(event.text)
    except Exception:  # a message of a future SDK must not end a run
        return [Event("unknown", type(message).__name__, raw=message)]
    return events


def context_level(usage: object) -> int | None:
    """Tokens the model was given: input, cache reads and cache writes. None where there is no usage."""
    if not isinstance(usage, dict):
        return None
    return sum(int(usage.get(key) or 0) for key in _CONTEXT_KEYS)


def _normalize(message: object) -> list[Event]:
    if isinstance(message, AssistantMessage):
        return _assistant(message)
    if isinstance(message, UserMessage):
        return _user(message)
    if isinstance(message, ResultMessage):
        return [_result(message)]
    if isinstance(message, ConversationResetMessage):
        return [_reset("conversation_reset", {}, message)]
    if isinstance(message, _TASKS):
        return [_task(message)]
    if isinstance(message, SystemMessage):
        return [_system(message)]
    return [Event("unknown", type(message).__name__, raw=message)]


def _marks(message: AssistantMessage | UserMessage) -> dict[str, Any]:
    parent = message.parent_tool_use_id
    return {"subagent": True, "parent_tool_use_id": parent} if parent else {}


def _assistant(message: AssistantMessage) -> list[Event]:
    marks = _marks(message)
    if message.error is not None or message.model == SYNTHETIC:
        return _synthetic(message, marks)
    level = context_level(message.usage)
    if level is not None:
        marks["context"] = level
    events = []
    for block in message.content:
        event = _block(block)
        event.payload.update(marks)
        event.raw = message
        events.append(event)
    return events


def _synthetic(message: AssistantMessage, marks: dict[str, Any]) -> list[Event]:
    text = "\n".join(block.text for block in message.content if isinstance(block, TextBlock))
    if message.error is None and text.strip() in ("", _NO_RESPONSE):
        return []
    payload: dict[str, Any] = {"synthetic": True, **marks}
    if message.error is not None:
        payload["error"] = str(message.error)
    return [Event("error", text or str(message.error), payload=payload, raw=message)]


def _block(block: object) -> Event:
    make = _BLOCKS.get(type(block))
    return make(block) if make else Event("unknown", type(block).__name__)


def _tool_call(block: Any) -> Event:
    given = jsonable(block.input if isinstance(block.input, dict) else {"input": block.input})
    return Event("tool_call", _summary(given), tool=block.name, payload={"id": block.id, "input": given})


def _summary(given: dict[str, Any]) -> str:
    for key in _SUMMARY_KEYS:
        value = given.get(key)
        if isinstance(value, str) and value:
            return value[:SUMMARY_CHARS]
    return ""


def _tool_result(block: Any) -> Event:
    payload = {"tool_use_id": block.tool_use_id, "is_error": bool(getattr(block, "is_error", False))}
    return Event("tool_result", result_text(block.content)[:RESULT_CHARS], payload=payload)


def result_text(content: object) -> str:
    """The text of a tool result: the string itself, or its text blocks joined; "" for anything else."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = [block.get("text") for block in content if isinstance(block, dict) and block.get("type") == "text"]
        return "\n".join(part for part in parts if isinstance(part, str))
    return ""


_BLOCKS: dict[type, Callable[[Any], Event]] = {
    TextBlock: lambda block: Event("text", block.text),
    ThinkingBlock: lambda block: Event("thinking", block.thinking),
    ToolUseBlock: _tool_call,
    ServerToolUseBlock: _tool_call,
    ToolResultBlock: _tool_result,
    ServerToolResultBlock: _tool_result,
}


def _user(message: UserMessage) -> list[Event]:
    blocks: list[Any] = message.content if isinstance(message.content, list) else [TextBlock(message.content)]
    marks = _marks(message)
    events = []
    for block in blocks:
        event = Event("prompt", block.text) if isinstance(block, TextBlock) else _block(block)
        event.payload.update(marks)
        event.raw = message
        events.append(event)
    return events


def _result(message: ResultMessage) -> Event:
    payload = {
        "session_id": message.session_id,
        "cost_usd": message.total_cost_usd or 0.0,
        "num_turns": message.num_turns,
        "is_error": message.is_error,
    }
    return Event("result", message.subtype, payload=jsonable(payload), raw=message)


def _task(message: SystemMessage) -> Event:
    fields = {key: value for key, value in vars(message).items() if key not in ("subtype", "data")}
    return Event("task", payload=jsonable({**fields, "kind": type(message).__name__}), raw=message)


def _system(message: SystemMessage) -> Event:
    if message.subtype in _RESETS:
        return _reset(message.subtype, message.data, message)
    return Event("system", message.subtype, payload={"data": jsonable(message.data)}, raw=message)


def _reset(subtype: str, data: dict[str, Any], message: object) -> Event:
    found = data.get("compact_metadata") or data.get("microcompact_metadata") or {}
    trigger = found.get("trigger") or subtype
    before, after = found.get("pre_tokens"), found.get("post_tokens")
    shown = [f"{count}" if count is not None else "?" for count in (before, after)]
    payload = {
        "trigger": trigger,
        "pre_tokens": before,
        "post_tokens": after,
        "micro": subtype.startswith("micro"),
        "subtype": subtype,
    }
    text = f"compacted ({trigger}) {shown[0]} → {shown[1]} tokens"
    return Event("reset", text, payload=jsonable(payload), raw=message)
