"""Reading requests of the shape the agent program really sends."""

from __future__ import annotations

from typing import Any

import pytest

from flower_core.rehearsal.conversation import Conversation

REMINDER = {"type": "text", "text": "<system-reminder>\nflower-role: nobody\n</system-reminder>\n"}
ENVIRONMENT = {
    "role": "system",
    "content": "# Environment\n - Primary working directory: /srv/my ws\n - Platform: linux",
}


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": b} if isinstance(b, str) else b for b in blocks]}


def assistant(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": [{"type": "text", "text": b} if isinstance(b, str) else b for b in blocks]}


def call(tool_id: str, name: str, **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": tool_id, "name": name, "input": given}


def result(tool_id: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": tool_id, "content": content, **more}


def talk(*messages: Any, system: str = "") -> Conversation:
    blocks = [{"type": "text", "text": "billing line"}, {"type": "text", "text": system}]
    return Conversation({"system": blocks, "messages": list(messages)})


def test_the_system_prompt_names_the_role_and_a_prompt_cannot_override_it() -> None:
    asked = talk(user("flower-role: judge\nDo it"), system="Be good.\n\nflower-role: worker/coder\nYou write.")
    assert asked.role == "worker/coder"
    assert list(asked.speakers()) == ["worker/coder", "worker", "default"]


def test_without_a_role_in_the_system_prompt_the_first_prompt_names_it() -> None:
    assert talk(user(REMINDER, "flower-role: clarify\nDo it")).role == "clarify"


def test_a_request_without_a_role_goes_to_default() -> None:
    assert list(talk(user("Do it")).speakers()) == ["default"]


def test_the_first_turn_line_of_the_newest_prompt_that_has_one_counts() -> None:
    asked = talk(
        user("flower-turn: goal\nSet it"),
        assistant("Set."),
        user("flower-turn: verdict\nJudge. Somebody said:\nflower-turn: goal"),
        assistant("I look."),
        user("Go on."),
        system="flower-role: judge",
    )
    assert list(asked.speakers()) == ["judge/verdict", "judge", "default"]


def test_results_reminders_and_interrupt_notes_are_no_prompts() -> None:
    asked = talk(
        user(REMINDER, "First task"),
        ENVIRONMENT,
        assistant(call("t1", "Bash", command="ls")),
        user(result("t1", "rejected", is_error=True), "[Request interrupted by user for tool use]"),
        assistant("No response requested."),
        user(REMINDER, "Second task"),
    )
    assert asked.prompts == ["First task", "Second task"]
    assert asked.prompt == "Second task"


def test_the_filler_after_an_interrupt_is_no_turn() -> None:
    asked = talk(user("A"), assistant("one"), user("B"), assistant("No response requested."), user("C"))
    assert asked.turn == 1


def test_recent_calls_are_those_since_the_prompt_being_answered() -> None:
    asked = talk(
        user("A"),
        assistant(call("t1", "Read", file_path="x"), call("t2", "Read", file_path="y")),
        user(result("t1", "one"), result("t2", [{"type": "text", "text": "two"}])),
        assistant("Done."),
        user("B"),
        assistant(call("t3", "Bash", command="ls")),
        user(result("t3", "three")),
    )
    assert [(c.name, c.result) for c in asked.recent()] == [("Bash", "three")]
    assert asked.recent("Read") == []
    assert [c.result for c in asked.calls] == ["one", "two", "three"]


def test_a_call_without_a_result_yet_has_none() -> None:
    assert talk(user("A"), assistant(call("t1", "Read"))).recent("Read")[0].result is None


def test_failed_calls_are_not_among_a_tools_results() -> None:
    asked = talk(
        user("A"),
        assistant(call("t1", "mcp__human__ask", question="?")),
        user(result("t1", "No such tool available", is_error=True)),
    )
    assert asked.values()["answer"] == ""
    assert asked.recent("mcp__human__ask")[0].is_error


def test_values_hold_what_the_human_said_and_where_the_work_happens() -> None:
    asked = talk(
        user(REMINDER, "flower-turn: goal\nBuild\nit"),
        ENVIRONMENT,
        assistant(call("t1", "mcp__human__ask", question="?")),
        user(result("t1", "red")),
        assistant(call("t2", "mcp__human__ask", question="?")),
        user(result("t2", "round")),
        assistant(call("t3", "mcp__human__inbox")),
        user(result("t3", "be quick")),
    )
    assert asked.values() == {
        "task": "Build\nit",
        "prompt": "flower-turn: goal\nBuild\nit",
        "answer": "round",
        "answers": "red; round",
        "inbox": "be quick",
        "result": "be quick",
        "workspace": "/srv/my ws",
    }


def test_task_marks_win_over_the_whole_prompt() -> None:
    assert talk(user("Please do:\n<task>\nBuild it\n</task>\nThanks")).task == "Build it"


def test_a_working_directory_named_in_a_prompt_is_not_believed() -> None:
    assert talk(user("Working directory: /etc")).workspace == "."


@pytest.mark.parametrize("body", [{}, {"messages": []}, {"messages": [None, "x", {"role": "user"}], "system": 3}])
def test_odd_requests_read_as_empty_ones(body: dict[str, Any]) -> None:
    asked = Conversation(body)
    assert (asked.role, asked.prompt, asked.task, asked.turn, asked.calls) == ("", "", "", 0, [])
