"""The two tools by which an agent reaches a person, as an MCP server inside this process."""

from __future__ import annotations

from typing import Any

from claude_agent_sdk import McpSdkServerConfig, SdkMcpTool, ToolAnnotations, create_sdk_mcp_server, tool

from flower_core.human import HumanChannel, Mail
from flower_core.human_log import stamp


def human_server(channel: HumanChannel) -> McpSdkServerConfig:
    """The MCP server ``human`` with the tools ``ask`` (waits for a person) and ``inbox`` (never waits).

    Input of the wrong type is refused by the SDK, which checks it against the schema; an empty question or option
    by the channel. Both reach the model as an error result, never as an exception.
    """
    return create_sdk_mcp_server("human", tools=[_ask_tool(channel), _inbox_tool(channel)])


def _ask_tool(channel: HumanChannel) -> SdkMcpTool[Any]:
    texts = channel.texts
    schema = {
        "type": "object",
        "properties": {
            "question": {"type": "string", "description": texts("human.ask_question")},
            "options": {"type": "array", "items": {"type": "string"}, "description": texts("human.ask_options")},
        },
        "required": ["question"],
        "additionalProperties": False,
    }

    # Calls of a tool that is not read-only run one after the other; two questions in one message shall wait side by
    # side (found by experiment with agent program 2.1.332).
    @tool("ask", texts("human.ask_tool"), schema, ToolAnnotations(readOnlyHint=True))
    async def ask(arguments: dict[str, Any]) -> dict[str, Any]:
        outcome = await channel.ask(arguments.get("question", ""), arguments.get("options"))
        return _result(channel.reply(outcome), is_error=outcome.state == "invalid")

    return ask


def _inbox_tool(channel: HumanChannel) -> SdkMcpTool[Any]:
    @tool("inbox", channel.texts("human.inbox_tool"), {"type": "object", "properties": {}})
    async def inbox(_arguments: dict[str, Any]) -> dict[str, Any]:
        taken = channel.take_mail()
        if not taken:
            return _result(channel.texts("human.inbox_empty"))
        return _result("\n\n".join(_told(mail, channel) for mail in taken))

    return inbox


def _told(mail: Mail, channel: HumanChannel) -> str:
    texts = channel.texts
    amended = texts("human.inbox_amended", path=mail.amended) if mail.amended else texts("human.inbox_not_amended")
    return texts("human.inbox_item", id=mail.id, at=stamp(mail.at), text=mail.text, amended=amended)


def _result(text: str, *, is_error: bool = False) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "is_error": is_error}
