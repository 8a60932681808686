"""What the tests of handoffs share: a policy with a small window, replies that fill it, a handoff to write."""

from __future__ import annotations

from typing import Any

from flower_core import HandoffPolicy
from tests.e2e.stage import Screen

#: Announces at 30,000 tokens, hands over at 50,000.
SMALL = HandoffPolicy(window=100_000)
DOCUMENT = """
## Doing now
Painting the wall.
## Decided
Blue.
## Dead ends
Red ran out.
## Next step
The second coat.
## Scene
wall.txt has one coat.
"""
WRITES = {"text": DOCUMENT}
#: The session in which the second coat is put on.
TAKES_OVER = {"when": {"prompts": "You take over this task"}, "text": "The second coat is on."}


def used(tokens: int) -> dict[str, Any]:
    """The usage of a reply to a conversation of ``tokens``, nearly all of it from the cache."""
    return {"usage": {"input_tokens": 1_000, "cache_read_input_tokens": tokens - 1_000}}


def stopped_at(turn: int) -> dict[str, Any]:
    """The reply that is on its way when the session is stopped: it never comes to its end, and says nothing."""
    return {"when": {"turn": turn, "not": {"prompts": "You take over"}}, "text": "Unheard.", "hang": "for ever"}


def fills(tokens: int, command: str = "pwd", **more: Any) -> dict[str, Any]:
    """A reply to a conversation of ``tokens`` that runs ``command``."""
    return {"text": "I paint.", "tools": [["Bash", {"command": command}]], **used(tokens), **more}


def phases(screen: Screen) -> list[str]:
    """The phases of all handoff events, oldest first."""
    return [event.payload["phase"] for event in screen.of("handoff")]


def done(screen: Screen) -> dict[str, Any]:
    """The payload of the last handoff that was done."""
    return next(event.payload for event in reversed(screen.of("handoff")) if event.payload["phase"] == "done")
