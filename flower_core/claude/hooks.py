"""Installing guards as hooks of the agent program."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import cast, get_args

from claude_agent_sdk import HookContext, HookMatcher
from claude_agent_sdk.types import HookCallback, HookEvent, HookInput, HookJSONOutput

from flower_core.guards import GuardRule
from flower_core.hook_input import Guard

#: Seconds a guard may take. On expiry the agent program refuses the call.
GUARD_TIMEOUT_S = 60.0
_EVENTS: frozenset[str] = frozenset(name for literal in get_args(HookEvent) for name in get_args(literal))


def compile_hooks(
    rules: Iterable[GuardRule], extra: Mapping[str, list[HookMatcher]] | None = None
) -> dict[HookEvent, list[HookMatcher]]:
    """The SDK's ``hooks`` option: ``rules`` in their order, then ``extra``, which it is merged with.

    A guard before a tool call that raises refuses the call; without ``on_failure="block"`` the call would go
    through. Raises ValueError for an event the SDK does not know.
    """
    ours: dict[str, list[HookMatcher]] = {}
    for rule in rules:
        matcher = HookMatcher(
            matcher=rule.matcher,
            hooks=[_callback(rule.guard)],
            timeout=GUARD_TIMEOUT_S,
            on_failure="block" if rule.event == "PreToolUse" else None,
        )
        ours.setdefault(rule.event, []).append(matcher)
    return merge_hooks(ours, extra)


def merge_hooks(*mappings: Mapping[str, list[HookMatcher]] | None) -> dict[HookEvent, list[HookMatcher]]:
    """One mapping with, for every event, the matchers of all ``mappings`` one after the other.

    The lists given are left as they are. Raises ValueError for an event the SDK does not know.
    """
    merged: dict[HookEvent, list[HookMatcher]] = {}
    for mapping in mappings:
        for event, matchers in (mapping or {}).items():
            if event not in _EVENTS:
                raise ValueError(f"unknown hook event {event!r}; there are: {', '.join(sorted(_EVENTS))}")
            merged.setdefault(cast("HookEvent", event), []).extend(matchers)
    return merged


def _callback(guard: Guard) -> HookCallback:
    async def call(hook_input: HookInput, tool_use_id: str | None, context: HookContext) -> HookJSONOutput:
        # A guard looks at the disk, and the loop that awaits it also carries every other run's events.
        return cast("HookJSONOutput", await asyncio.to_thread(guard, hook_input))

    return call
