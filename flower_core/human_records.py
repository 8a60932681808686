"""What was asked of a person and what a person said, as immutable records.

A record never changes; the channel replaces it by a newer one. So a snapshot taken in any thread is whole.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from flower_core.events import Event, clean_text, jsonable

AskState = Literal["asked", "answered", "timeout", "declined", "over_budget", "invalid"]
MailState = Literal["queued", "delivered"]


@dataclass(frozen=True)
class Ask:
    """One question put to a person.

    Times are seconds since the epoch. ``timeout_s`` is how long it may wait, None for ever. ``answer`` is what
    the person said, on ``declined`` the reason given. ``answered_by`` names who settled it, where known.
    ``replayed``: not put to anybody again, but answered with what was said to the same question before.
    """

    id: str
    question: str
    options: list[str] = field(default_factory=list)
    asked_at: float = field(default_factory=time.time)
    state: AskState = "asked"
    answer: str = ""
    settled_at: float | None = None
    timeout_s: float | None = None
    answered_by: str = ""
    replayed: bool = False

    @classmethod
    def draft(cls, question: object, options: object, timeout_s: float | None) -> Ask:
        """A question without a number yet; settled as ``invalid`` when it is no text or has options that are none."""
        text = question if isinstance(question, str) else ""
        choices = list(options) if isinstance(options, (list, tuple)) else []
        good_options = options is None or isinstance(options, (list, tuple))
        if text.strip() and good_options and all(isinstance(item, str) and item.strip() for item in choices):
            return cls("", clean_text(text), [clean_text(item) for item in choices], timeout_s=timeout_s)
        return cls("", clean_text(text)).settled("invalid")

    @property
    def waited_s(self) -> float:
        """Seconds it has waited, or did wait until it was settled, to one decimal place."""
        end = time.time() if self.settled_at is None else self.settled_at
        return round(max(0.0, end - self.asked_at), 1)

    @property
    def expires_at(self) -> float | None:
        """When its time runs out, in seconds since the epoch; None when there is no such time."""
        return None if self.timeout_s is None or self.timeout_s <= 0 else self.asked_at + self.timeout_s

    def settled(self, state: AskState, answer: str = "", by: str = "") -> Ask:
        """The same question with its outcome, as of now."""
        # The API takes no message with a lone surrogate in it: once in a session, it would end that for good.
        return replace(self, state=state, answer=clean_text(answer), answered_by=by, settled_at=time.time())

    def event(self, remaining: int = 0) -> Event:
        """The event that shows this state; ``remaining`` is how many questions are left, -1 for no limit."""
        payload: dict[str, Any] = {
            "id": self.id,
            "options": list(self.options),
            "state": self.state,
            "answer": self.answer,
            "remaining": remaining,
            "asked_at": self.asked_at,
            "timeout_s": self.timeout_s,
            "expires_at": self.expires_at,
        }
        if self.answered_by:
            payload["answered_by"] = self.answered_by
        if self.replayed:
            payload["replayed"] = True
        return Event("ask", jsonable(self.question), payload=jsonable(payload), raw=self)


@dataclass(frozen=True)
class Mail:
    """Something a person said without being asked.

    ``at`` is seconds since the epoch; ``amended`` is the path of the file it was appended to, "" for none; ``ref`` is
    what whoever passed it on knows it by.
    """

    id: str
    text: str
    state: MailState = "queued"
    at: float = field(default_factory=time.time)
    amended: str = ""
    ref: str = ""

    def event(self) -> Event:
        """The event that shows this state; ``payload["kind"]`` tells it from a question."""
        payload = {"kind": "mail", "id": self.id, "state": self.state, "at": self.at, "amended": self.amended}
        if self.ref:
            payload["ref"] = self.ref
        return Event("ask", jsonable(self.text), payload=jsonable(payload), raw=self)
