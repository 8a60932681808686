"""What the agent program says about a tool call, and the form of a guard that answers it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

#: From hook input to hook output; ``{}`` is no opinion.
Guard = Callable[[Mapping[str, Any]], dict[str, Any]]


def is_main_thread(hook: Mapping[str, Any]) -> bool:
    """Whether the call is the session's own and not a subagent's."""
    return not hook.get("agent_id")


def given(hook: Mapping[str, Any]) -> Mapping[str, Any]:
    """The input of the call, empty when there is none."""
    found = hook.get("tool_input")
    return found if isinstance(found, Mapping) else {}
