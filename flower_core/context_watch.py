"""How full the context of one session is, and when that calls for something.

Only the main thread's context counts: that of a subagent is its own, and gone when it reports.
"""

from __future__ import annotations

from dataclasses import replace

from flower_core.agent import UNKNOWN_WINDOW, HandoffPolicy
from flower_core.events import Event


class ContextWatch:
    """Watches one session from its first event to its end; a session that takes over gets a watch of its own.

    ``level`` is the last known size of the conversation in tokens, 0 before the first reply.
    """

    def __init__(self, policy: HandoffPolicy) -> None:
        self.policy = policy
        self.level = 0
        #: The turn was ended because of the level; what follows is the handoff and nothing else.
        self.stopped = False
        self._open: set[str] = set()
        self._boundary = False
        self._warned = False
        self._asked = False
        self._sure = policy.window is not None

    @property
    def window(self) -> int:
        """The context window to go by, in tokens."""
        return self.policy.window or UNKNOWN_WINDOW

    def begin_turn(self) -> None:
        """A turn is about to begin, perhaps in a new process: what the last one left open is over."""
        self._open.clear()
        self._asked = self.stopped = False

    def absorb(self, event: Event) -> None:
        """Take in one event of the session."""
        self._boundary = False
        if event.payload.get("subagent"):
            return
        level = event.payload.get("context")
        if isinstance(level, int):
            self.level = level
        if event.kind == "tool_call":
            self._open.add(str(event.payload.get("id")))
        elif event.kind == "tool_result":
            self._open.discard(str(event.payload.get("tool_use_id")))
            self._boundary = not self._open

    def wants_window(self) -> bool:
        """Whether to ask, now, how large the window is: once in a turn, from when the answer begins to matter."""
        if self._sure or self._asked or not self.policy.enabled or self.level < self.policy.warn_at:
            return False
        self._asked = True
        return True

    def learn_window(self, tokens: int | None) -> None:
        """Go by a window of ``tokens``; None, or less than a policy allows: nobody knows, so by the default."""
        if tokens is not None and tokens >= 10_000:
            self.policy = replace(self.policy, window=tokens)
        self._sure = True

    def take_warning(self) -> bool:
        """Whether to announce the handoff, now: once."""
        if self._warned or not self._reached(self.policy.warn_at):
            return False
        self._warned = True
        return True

    def take_stop(self) -> bool:
        """Whether to end the turn, now: once in it, with the level reached and no tool of the main thread open.

        The moment after the last open call has come back is the one moment at which nothing is lost: the results,
        a subagent's among them, are part of the conversation, and nothing has been begun with them. A turn that
        ends by itself is left to end.
        """
        if self.stopped or not self._boundary or not self._reached(self.policy.at):
            return False
        self.stopped = True
        return True

    @property
    def full(self) -> bool:
        """Whether this session is to have no further turn."""
        return self.stopped or self._reached(self.policy.at)

    def _reached(self, tokens: int) -> bool:
        return self.policy.enabled and self._sure and self.level >= tokens
