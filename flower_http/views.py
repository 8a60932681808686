"""The parts of a run's view: its step, its questions, what was said to it; and tolerant readers of payload values."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

from flower_core.events import MAX_SAFE_INTEGER
from flower_http.encode import rfc3339

#: A year far beyond any run; later times cannot be formatted.
_LATEST = 4_102_444_800.0


class Stamp(NamedTuple):
    """The number of an event, and when it happened (RFC 3339)."""

    seq: int
    at: str


@dataclass(frozen=True)
class StepView:
    """The step in progress: ``index`` of ``total``, from 1; ``round`` is 1 until a judge sent it back."""

    name: str = ""
    index: int = 0
    total: int = 0
    round: int = 1


NO_STEP = StepView()


@dataclass(frozen=True)
class AskView:
    """One question. ``state``: asked (it waits), answered, timeout, declined, over_budget or invalid.

    ``remaining`` is the number of questions left, -1 without a quota. ``expires_at`` is empty when it waits for ever,
    ``answered_by`` when no person settled it. ``since_seq`` and ``seq`` are the first and the last event about it.
    """

    id: str
    question: str = ""
    options: tuple[str, ...] = ()
    state: str = "asked"
    answer: str = ""
    remaining: int = -1
    asked_at: str = ""
    expires_at: str = ""
    settled_at: str = ""
    answered_by: str = ""
    replayed: bool = False
    since_seq: int = 0
    seq: int = 0

    @classmethod
    def restore(cls, data: Mapping[str, Any]) -> AskView:
        """The question ``dataclasses.asdict`` gave ``data`` for. Raises TypeError or KeyError for anything else."""
        return cls(**{**data, "options": tuple(data["options"])})

    @property
    def waiting(self) -> bool:
        """Whether it has no outcome yet."""
        return self.state == "asked"

    @property
    def waited_s(self) -> float:
        """Seconds from the question to its outcome, or to now; one decimal."""
        if not self.asked_at:
            return 0.0
        end = _seconds(self.settled_at) if self.settled_at else time.time()
        return max(0.0, round(end - _seconds(self.asked_at), 1))

    def to_json(self) -> dict[str, Any]:
        """The ask of the HTTP contract."""
        return {
            "id": self.id,
            "question": self.question,
            "options": list(self.options),
            "state": self.state,
            "answer": self.answer,
            "asked_at": self.asked_at,
            "waited_s": self.waited_s,
            "expires_at": self.expires_at or None,
            "remaining": self.remaining,
            "answered_by": self.answered_by or None,
        }


@dataclass(frozen=True)
class MailView:
    """Something a person said unasked: queued until the agent takes it, then delivered.

    ``amended`` is the file it was appended to, or empty; ``ref`` names the request that said it, where that has a
    name, and stays inside the process; ``since_seq`` and ``seq`` as in :class:`AskView`.
    """

    id: str
    text: str = ""
    state: str = "queued"
    at: str = ""
    amended: str = ""
    since_seq: int = 0
    seq: int = 0
    ref: str = ""

    @property
    def waiting(self) -> bool:
        """Whether the agent has not taken it yet."""
        return self.state == "queued"

    def to_json(self) -> dict[str, Any]:
        """The entry of ``GET …/inbox``."""
        return {"id": self.id, "text": self.text, "state": self.state, "at": self.at, "amended": self.amended}


def fold_ask(asks: tuple[AskView, ...], stamp: Stamp, text: str, payload: Mapping[str, Any]) -> tuple[AskView, ...]:
    """``asks`` after an event about one of them: its being asked, or its outcome."""
    ask_id = words(payload.get("id"))
    place = next((i for i, ask in enumerate(asks) if ask.id == ask_id), len(asks))
    known = asks[place] if place < len(asks) else None
    asked_at = (known.asked_at if known else "") or moment(payload.get("asked_at")) or stamp.at
    options = payload.get("options")
    state = words(payload.get("state")) or "asked"
    ask = AskView(
        id=ask_id,
        question=known.question if known else words(payload.get("question")) or text,
        options=tuple(words(item) for item in options) if isinstance(options, (list, tuple)) else _options(known),
        state=state,
        answer=words(payload.get("answer")),
        remaining=_remaining(payload.get("remaining")),
        asked_at=asked_at,
        expires_at=_expiry(asked_at, payload) or (known.expires_at if known else ""),
        settled_at="" if state == "asked" else stamp.at,
        answered_by=words(payload.get("answered_by")),
        replayed=payload.get("replayed") is True,
        since_seq=known.since_seq if known else stamp.seq,
        seq=stamp.seq,
    )
    return (*asks[:place], ask, *asks[place + 1 :])


def fold_mail(mail: tuple[MailView, ...], stamp: Stamp, text: str, payload: Mapping[str, Any]) -> tuple[MailView, ...]:
    """``mail`` after an event about one entry: its being said, or its being taken."""
    mail_id = words(payload.get("id"))
    place = next((i for i, item in enumerate(mail) if item.id == mail_id), len(mail))
    known = mail[place] if place < len(mail) else MailView(mail_id, text=text, at=stamp.at, since_seq=stamp.seq)
    changed = replace(
        known,
        state=words(payload.get("state")) or known.state,
        amended=words(payload.get("amended")) or known.amended,
        ref=words(payload.get("ref")) or known.ref,
        seq=stamp.seq,
    )
    return (*mail[:place], changed, *mail[place + 1 :])


def settle_leftover(ask: AskView, end: Stamp) -> AskView:
    """The question as it stands after the ``end`` of its run: one that still waited was declined by nobody."""
    return replace(ask, state="declined", settled_at=end.at, seq=end.seq) if ask.waiting else ask


def words(value: Any) -> str:
    """``value`` as text; anything but a string, a number or a boolean is empty."""
    if isinstance(value, str):
        return value
    return "" if value is None or isinstance(value, (Mapping, list, tuple, set)) else str(value)


def count(value: Any) -> int:
    """``value`` as a whole number from 0; 0 for anything that is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return 0
    return min(max(0, int(value)), MAX_SAFE_INTEGER)


def number(value: Any) -> float:
    """``value`` as a finite number from 0; 0.0 for anything that is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return 0.0
    return max(0.0, float(value)) if abs(value) <= MAX_SAFE_INTEGER else 0.0


def moment(value: Any) -> str:
    """A time given as RFC 3339 or as seconds since the epoch, as RFC 3339; empty for anything else."""
    if isinstance(value, str):
        return value if _seconds(value) else ""
    seconds = number(value)
    return rfc3339(seconds) if 0 < seconds < _LATEST else ""


def _remaining(value: Any) -> int:
    return -1 if value is None or (isinstance(value, (int, float)) and value < 0) else count(value)


def _options(known: AskView | None) -> tuple[str, ...]:
    return known.options if known else ()


def _expiry(asked_at: str, payload: Mapping[str, Any]) -> str:
    given = moment(payload.get("expires_at"))
    timeout = number(payload.get("timeout_s"))
    start = _seconds(asked_at)
    return given or (rfc3339(start + timeout) if start and 0 < timeout < _LATEST - start else "")


def _seconds(at: str) -> float:
    try:
        return datetime.fromisoformat(at).timestamp()
    except (ValueError, OverflowError):
        return 0.0
