"""The real agent program against the scripted endpoint: only the model's words are not real."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import (
    AgentDefinition,
    AssistantMessage,
    ClaudeAgentOptions,
    ClaudeSDKClient,
    ResultMessage,
    TextBlock,
    ToolResultBlock,
    UserMessage,
)

from flower_core.rehearsal import RehearsalServer

pytestmark = pytest.mark.e2e
BRIEF = "Carry out this brief:\n\n- The task is: build a weather page\n- The greeting is: Moin"


def options(server: RehearsalServer, home: Path, role: str, tools: Sequence[str], **more: Any) -> ClaudeAgentOptions:
    workspace = home / "work space"
    workspace.mkdir(exist_ok=True)
    return ClaudeAgentOptions(
        cwd=workspace,
        tools=list(tools),
        allowed_tools=list(tools),
        permission_mode="dontAsk",
        setting_sources=[],
        strict_mcp_config=True,
        verbatim_prompts=True,
        system_prompt={"type": "preset", "preset": "claude_code", "append": f"flower-role: {role}", "snapshot": False},
        env={
            "ANTHROPIC_API_KEY": "rehearsal",
            "ANTHROPIC_BASE_URL": server.url,
            "CLAUDE_CONFIG_DIR": str(home / "config"),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
            "CLAUDE_CODE_MAX_RETRIES": "2",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_AUTOUPDATER": "1",
            "ENABLE_TOOL_SEARCH": "false",
        },
        **more,
    )


async def ask(client: ClaudeSDKClient, prompt: str) -> tuple[str, ResultMessage]:
    """The main thread's last words in answer to ``prompt``, and the result."""
    words = ""
    await client.query(prompt)
    async for message in client.receive_response():
        if isinstance(message, AssistantMessage) and message.parent_tool_use_id is None:
            words = "".join(block.text for block in message.content if isinstance(block, TextBlock)) or words
        if isinstance(message, ResultMessage):
            return words, message
    raise AssertionError("the session ended without a result")


def test_a_dispatched_worker_really_writes_and_runs_and_the_second_round_mends_it(tmp_path: Path) -> None:
    async def play(server: RehearsalServer) -> list[str]:
        coder = AgentDefinition(
            description="Writes code.", prompt="flower-role: worker/coder", tools=["Read", "Write", "Bash"]
        )
        work = options(server, tmp_path, "coordinator", ("Agent", "Read", "Write", "Bash"), agents={"coder": coder})
        judge = options(server, tmp_path, "judge", ("Read",))
        verdicts = []
        async with ClaudeSDKClient(work) as coordinator:
            prompt = BRIEF
            for _ in range(2):
                report, result = await ask(coordinator, prompt)
                assert not result.is_error
                assert "greeting.txt is in the workspace" in report
                async with ClaudeSDKClient(judge) as session:
                    verdict, _ = await ask(session, "flower-turn: verdict\nJudge.")
                verdicts.append(verdict)
                prompt = f"The verdict:\n\n{verdict}"
        return verdicts

    with RehearsalServer(pace=0) as server:
        first, second = asyncio.run(play(server))
        assert [request.rejected for request in server.app.requests if request.rejected] == []
        speakers = [request.speaker for request in server.app.requests]
        assert {request.talk.workspace for request in server.app.requests} == {str(tmp_path / "work space")}
    assert "not yet" in first
    assert "achieved" in second
    assert speakers.count("worker/coder") == 3 + 4
    lines = (tmp_path / "work space" / "greeting.txt").read_text(encoding="utf-8").splitlines()
    assert lines == ["Moin", "Task: build a weather page", "Words in the task: 4"]


def test_a_session_interrupted_in_a_tool_call_goes_on_with_paired_history(tmp_path: Path) -> None:
    loop_forever = "while true; do read -t 0.2 <> <(:); done"
    script = {
        "default": [
            {"when": {"prompt": "Start"}, "text": "I run it.", "tools": [["Bash", {"command": loop_forever}]]},
            {"when": {"prompt": "Go on", "called": "Bash"}, "text": "It gave: {result}"},
            {"when": {"prompt": "Go on"}, "text": "Again.", "tools": [["Bash", {"command": "echo $((6*7))"}]]},
        ]
    }

    async def play(server: RehearsalServer) -> tuple[str, str | None]:
        async with ClaudeSDKClient(options(server, tmp_path, "default", ("Bash",))) as client:
            await client.query("Start")
            async for message in client.receive_response():
                if isinstance(message, AssistantMessage) and not isinstance(message.content[0], TextBlock):
                    await client.interrupt()
                if isinstance(message, ResultMessage):
                    reason = message.terminal_reason
            words, _ = await ask(client, "Go on")
        return words, reason

    with RehearsalServer(script) as server:
        words, reason = asyncio.run(play(server))
        last = server.app.requests[-1]
    assert words == "It gave: 42"
    assert (reason or "").startswith("aborted")
    assert (last.rejected, last.talk.prompts) == ("", ["Start", "Go on"])


@pytest.mark.parametrize(
    ("trouble", "requests"),
    [
        ({"error": "overloaded", "headers": {"retry-after": "0"}}, 2),
        ({"text": "x" * 400, "cut": 5}, 2),
        ({"sse_error": ["overloaded_error", "Overloaded"]}, 2),
    ],
)
def test_the_program_recovers_from_scripted_trouble(tmp_path: Path, trouble: dict[str, Any], requests: int) -> None:
    async def play(server: RehearsalServer) -> tuple[str, ResultMessage]:
        async with ClaudeSDKClient(options(server, tmp_path, "default", ())) as client:
            words, result = await ask(client, "Do it")
        return words, result

    script = {"default": [{**trouble, "when": {"request": 0}}, {"text": "Done."}]}
    with RehearsalServer(script) as server:
        words, result = asyncio.run(play(server))
        assert len(server.app.requests) == requests
    assert (words, result.is_error) == ("Done.", False)


@pytest.mark.parametrize(
    ("name", "status", "reason"),
    [("credit", 400, "api_error"), ("permission", 403, "api_error"), ("prompt-too-long", 400, "prompt_too_long")],
)
def test_the_program_takes_scripted_errors_for_what_they_name(
    tmp_path: Path, name: str, status: int, reason: str
) -> None:
    async def play(server: RehearsalServer) -> ResultMessage:
        settings = options(server, tmp_path, "default", ())
        settings.env["DISABLE_COMPACT"] = "1"
        async with ClaudeSDKClient(settings) as client:
            _, result = await ask(client, "Do it")
        return result

    with RehearsalServer({"default": [{"error": name}]}) as server:
        result = asyncio.run(play(server))
    assert (result.is_error, result.terminal_reason) == (True, reason)
    assert result.api_error_status == status


def test_tool_results_of_the_program_are_what_conditions_see(tmp_path: Path) -> None:
    async def play(server: RehearsalServer) -> list[Any]:
        async with ClaudeSDKClient(options(server, tmp_path, "default", ("Read",))) as client:
            await client.query("Do it")
            messages = [message async for message in client.receive_response()]
        users = [message for message in messages if isinstance(message, UserMessage)]
        return [block.content for user in users for block in user.content if isinstance(block, ToolResultBlock)]

    (tmp_path / "work space").mkdir()
    (tmp_path / "work space" / "a.txt").write_text("alpha\nbeta\n", encoding="utf-8")
    look = {"when": {"not": {"called": "Read"}}, "tools": [["Read", {"file_path": "{workspace}/a.txt"}]]}
    found = {"when": {"result": {"Read": "alpha.*beta"}}, "text": "found"}
    with RehearsalServer({"default": [look, found]}) as server:
        shown = asyncio.run(play(server))
        assert [call.result for call in server.app.requests[-1].talk.recent("Read")] == shown
