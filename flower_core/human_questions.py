"""The questions of one channel, and the rule they live by: who claims a question settles it, nobody else.

::

    open ──claim──> claimed ──settle──> settled
      ^                │
      └───give back────┘

A person, the timeout and the end of the waiting call all claim under one lock, so of several that come at once
exactly one gets it. Nothing here calls out (no sink, no disk, no event loop), so the lock is never held for long.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

from flower_core.human_records import Ask

#: How a question ends that no person settled.
Ending = Literal["timeout", "declined"]


@dataclass(eq=False)
class Waiting:
    """A question that waits, and the call that waits for it. Only :class:`Questions` changes it.

    ``asked`` is the question as it was put, ``ask`` as it stands now: it may be settled before it has been announced.
    """

    asked: Ask
    loop: asyncio.AbstractEventLoop
    call: asyncio.Future[None]
    phase: Literal["open", "claimed", "settled"] = "open"
    #: What becomes of it if the present claim is given back: its time ran out, or its call ended, meanwhile.
    fallback: Ending | None = None
    abandoned: bool = False
    #: The thread that emits the ``asked`` event, and whether that has been done.
    announcer: int = field(default_factory=threading.get_ident)
    announced: threading.Event = field(default_factory=threading.Event)
    ask: Ask = field(init=False)

    def __post_init__(self) -> None:
        self.ask = self.asked


def words_of(question: str) -> str:
    """What makes two questions the same: their words, however they are spaced."""
    return " ".join(question.split())


class Questions:
    """Every question of a channel, the settled ones included. All methods may be called from any thread."""

    def __init__(self, first_id: int = 1) -> None:
        self._lock = threading.Lock()
        self._next_id = first_id
        self._expected: dict[str, str] = {}
        self._used = 0
        self._asks: dict[str, Ask] = {}
        self._waiting: dict[str, Waiting] = {}

    def go_on(self, first_id: int, used: int) -> None:
        """Give no number below ``first_id`` to a new question, and count ``used`` questions as put already."""
        with self._lock:
            self._next_id = max(self._next_id, first_id)
            self._used = max(self._used, used)

    def expect(self, ask_id: str, question: str) -> None:
        """Should these words be asked, the question is ``ask_id``, which an earlier process left open."""
        with self._lock:
            self._expected[words_of(question)] = ask_id

    def withdraw(self, ask_id: str) -> bool:
        """Expect that question no longer; False when it has been asked again, or was never expected."""
        with self._lock:
            found = next((words for words, known in self._expected.items() if known == ask_id), None)
            return found is not None and self._expected.pop(found) == ask_id

    def admit(self, draft: Ask, max_asks: int | None, loop: asyncio.AbstractEventLoop) -> Ask | Waiting:
        """Number ``draft``; a Waiting if it may wait, else the Ask as it was settled on the spot.

        A draft that is settled already (invalid, replayed) takes nothing from the quota ``max_asks``.
        """
        with self._lock:
            known = self._expected.pop(words_of(draft.question), None) if draft.state == "asked" else None
            ask = replace(draft, id=known or f"q{self._next_id}")
            self._next_id += known is None
            if ask.state == "asked":
                if max_asks is not None and self._used >= max_asks:
                    ask = ask.settled("over_budget")
                else:
                    self._used += 1
                    if ask.timeout_s is not None and ask.timeout_s <= 0:
                        ask = ask.settled("timeout")
            self._asks[ask.id] = ask
            if ask.state != "asked":
                return ask
            waiting = self._waiting[ask.id] = Waiting(ask, loop, loop.create_future())
            return waiting

    def claim(self, ask_id: str) -> Waiting | None:
        """The question, now claimed by the caller; None when it no longer waits or somebody else has claimed it."""
        with self._lock:
            waiting = self._waiting.get(ask_id)
            if waiting is None or waiting.phase != "open":
                return None
            waiting.phase = "claimed"
            return waiting

    def claim_all(self) -> list[Waiting]:
        """Claim whatever is open; what others have claimed will end as declined should they give it back."""
        with self._lock:
            claimed = [waiting for waiting in self._waiting.values() if waiting.phase == "open"]
            for waiting in self._waiting.values():
                waiting.phase, waiting.fallback = "claimed", waiting.fallback or "declined"
            return claimed

    def give_back(self, waiting: Waiting) -> Ending | None:
        """Undo a claim. Not None: it must end this way now, and the caller still holds it and has to settle it."""
        with self._lock:
            if waiting.fallback is None:
                waiting.phase = "open"
            return waiting.fallback

    def claim_to_end(self, waiting: Waiting, ending: Ending, *, abandoned: bool = False) -> str:
        """Claim a question whose time or call is over. The phase it was found in: only ``open`` means it is claimed.

        ``claimed``: whoever holds it will see to it. ``settled``: somebody was faster.
        """
        with self._lock:
            waiting.abandoned = waiting.abandoned or abandoned
            found = waiting.phase
            if found == "open":
                waiting.phase = "claimed"
            elif found == "claimed":
                waiting.fallback = ending
            return found

    def settle(self, waiting: Waiting, ask: Ask) -> bool:
        """Record the outcome of a claimed question; whether its call is still there to hear of it."""
        with self._lock:
            waiting.ask = self._asks[ask.id] = ask
            waiting.phase = "settled"
            del self._waiting[ask.id]
            return not waiting.abandoned

    def first_open(self, ids: Iterable[str]) -> Ask | None:
        """The first of ``ids`` that anybody could answer now."""
        with self._lock:
            found = (self._waiting.get(ask_id) for ask_id in ids)
            return next((waiting.ask for waiting in found if waiting is not None and waiting.phase == "open"), None)

    def still_waiting(self, ids: Iterable[str]) -> list[str]:
        """Those of ``ids`` that are not settled."""
        with self._lock:
            return [ask_id for ask_id in ids if ask_id in self._waiting]

    def remaining(self, max_asks: int | None) -> int:
        """How many more questions may be put; -1 for no limit."""
        with self._lock:
            return -1 if max_asks is None else max(0, max_asks - self._used)

    def get(self, ask_id: str) -> Ask | None:
        """The question as it stands now, or None for an unknown id."""
        with self._lock:
            return self._asks.get(ask_id)

    def pending(self) -> list[Ask]:
        """What waits for an answer, oldest first."""
        with self._lock:
            return [waiting.ask for waiting in self._waiting.values() if not waiting.abandoned]

    def all(self) -> list[Ask]:
        """Every question, oldest first, as it stands now."""
        with self._lock:
            return list(self._asks.values())
