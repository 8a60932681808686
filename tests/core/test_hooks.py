"""Guards as hooks of the SDK."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import HookMatcher
from claude_agent_sdk.types import HookContext, PreToolUseHookInput

from flower_core.agent import AgentSpec
from flower_core.claude.hooks import compile_hooks, merge_hooks
from flower_core.guards import GuardRule, deny, rules_for, whitelist
from flower_core.workbench import Workbench

HOOK: PreToolUseHookInput = {
    "hook_event_name": "PreToolUse",
    "session_id": "s",
    "transcript_path": "",
    "cwd": "/",
    "tool_name": "Write",
    "tool_input": {"file_path": "x"},
    "tool_use_id": "t1",
}


def ask(matcher: HookMatcher) -> Any:
    async def call() -> Any:
        return await matcher.hooks[0](HOOK, "t1", HookContext(signal=None))

    return asyncio.run(call())


def test_a_guard_answers_through_its_hook() -> None:
    hooks = compile_hooks([GuardRule("PreToolUse", "Write", whitelist([], "en"))])
    assert list(hooks) == ["PreToolUse"]
    assert hooks["PreToolUse"][0].matcher == "Write"
    assert ask(hooks["PreToolUse"][0])["hookSpecificOutput"]["permissionDecision"] == "deny"


def test_only_guards_before_a_call_refuse_when_they_break(tmp_path: Path) -> None:
    rules = rules_for(AgentSpec("x"), workspace=tmp_path, workbench=Workbench(tmp_path))
    hooks = compile_hooks(rules)
    assert [matcher.on_failure for matcher in hooks["PreToolUse"]] == ["block", "block"]
    assert [matcher.on_failure for matcher in hooks["PostToolUse"]] == [None]
    assert all(matcher.timeout for matchers in hooks.values() for matcher in matchers)


def test_a_guard_that_raises_reaches_the_agent_program_as_a_failure() -> None:
    def broken(hook: Mapping[str, Any]) -> dict[str, Any]:
        raise OSError("disk gone")

    matcher = compile_hooks([GuardRule("PreToolUse", None, broken)])["PreToolUse"][0]
    with pytest.raises(OSError, match="disk gone"):
        ask(matcher)
    assert matcher.on_failure == "block"


def test_a_guard_does_not_run_on_the_loop_thread() -> None:
    seen: list[int] = []

    def guard(hook: Mapping[str, Any]) -> dict[str, Any]:
        seen.append(threading.get_ident())
        return {}

    assert ask(compile_hooks([GuardRule("PreToolUse", None, guard)])["PreToolUse"][0]) == {}
    assert seen != [threading.get_ident()]
    assert len(seen) == 1


def test_hooks_of_the_specification_come_after_ours_and_stay_as_they_are() -> None:
    theirs = HookMatcher(matcher="Bash")
    stop = HookMatcher()
    extra = {"PreToolUse": [theirs], "Stop": [stop]}
    hooks = compile_hooks([GuardRule("PreToolUse", "Write", lambda hook: deny("no"))], extra)
    assert hooks["PreToolUse"][1:] == [theirs]
    assert hooks["Stop"] == [stop]
    assert extra == {"PreToolUse": [theirs], "Stop": [stop]}


def test_merging_concatenates_by_event_in_the_order_given() -> None:
    first, second, third = HookMatcher(matcher="a"), HookMatcher(matcher="b"), HookMatcher(matcher="c")
    merged = merge_hooks({"PreToolUse": [first]}, None, {"PostToolUse": [second], "PreToolUse": [third]})
    assert merged == {"PreToolUse": [first, third], "PostToolUse": [second]}
    assert merge_hooks() == {}


def test_an_unknown_event_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="PreToolUsed"):
        merge_hooks({"PreToolUsed": [HookMatcher()]})
