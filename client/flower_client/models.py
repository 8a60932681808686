"""What the API answers with, typed.

Reading is lenient about what is missing or new (a newer server may say more) and strict about what the
client's own logic rests on. ``raw`` is always the object as it came, for programs that want to hand it on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from flower_client.errors import BadReply

Json = dict[str, Any]

FINAL_STATES = frozenset({"succeeded", "failed", "cancelled"})


@dataclass(frozen=True)
class Event:
    """One thing that happened in a run. ``seq`` is dense from 1 per run; ``at`` is RFC 3339 in UTC."""

    seq: int
    kind: str
    text: str = ""
    tool: str = ""
    at: str = ""
    payload: Json = field(default_factory=dict)
    raw: Json = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def from_json(cls, data: Any) -> Event:
        """Raises BadReply when there is no usable ``seq``."""
        data = as_object(data, "an event")
        return cls(
            seq=as_count(data, "seq"),
            kind=_text(data, "kind"),
            text=_text(data, "text"),
            tool=_text(data, "tool"),
            at=_text(data, "at"),
            payload=_object(data, "payload"),
            raw=data,
        )


@dataclass(frozen=True)
class Gap:
    """The first and the last seq of a stretch of events that the server no longer has."""

    first: int
    last: int


@dataclass(frozen=True)
class Page:
    """One reply of the events endpoint. Events follow ``after``, or ``gap.last`` where there is a gap."""

    run: str
    epoch: str
    state: str
    after: int
    events: tuple[Event, ...]
    next_after: int
    last_seq: int
    pending: int
    final: bool
    gap: Gap | None = None
    retry_after_ms: int = 0

    @classmethod
    def from_json(cls, data: Any) -> Page:
        """Raises BadReply when a member that the cursor rests on is missing or of another type."""
        data = as_object(data, "a page of events")
        events = data.get("events")
        if not isinstance(events, list):
            raise BadReply("a page of events without a list of events")
        gap = data.get("gap")
        return cls(
            run=_text(data, "run"),
            epoch=_text(data, "epoch"),
            state=_text(data, "state"),
            after=as_count(data, "after"),
            events=tuple(Event.from_json(event) for event in events),
            next_after=as_count(data, "next_after"),
            last_seq=as_count(data, "last_seq"),
            pending=as_count(data, "pending"),
            final=data.get("final") is True,
            gap=Gap(as_count(gap, "from"), as_count(gap, "to")) if isinstance(gap, dict) else None,
            retry_after_ms=int(min(max(_number(data, "retry_after_ms"), 0), 1e9)),
        )


@dataclass(frozen=True)
class Verdict:
    """How the judge decided: ``achieved``, ``not_yet``, ``unreachable`` or empty; why; and the checks not passed."""

    state: str = ""
    reason: str = ""
    failed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Progress:
    """The step a run is in: ``index`` counts from 1."""

    name: str = ""
    index: int = 0
    total: int = 0
    round: int = 0


@dataclass(frozen=True)
class Run:
    """A run as ``GET /runs/{id}`` tells it. Times are RFC 3339 in UTC, empty while there is none.

    ``context`` is how many tokens the conversation at work holds, 0 where nobody knows.
    """

    id: str
    state: str
    flow: str = ""
    task: str = ""
    workspace: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    created_at: str = ""
    started_at: str = ""
    ended_at: str = ""
    step: Progress = Progress()
    asks_waiting: int = 0
    result: str = ""
    verdict: Verdict | None = None
    cost_usd: float = 0.0
    num_turns: int = 0
    context: int = 0
    failed_at: str = ""
    aborted: str = ""
    error: str = ""
    last_seq: int = 0
    epoch: str = ""
    raw: Json = field(default_factory=dict, repr=False, compare=False)

    @property
    def final(self) -> bool:
        """Whether the run has ended for good."""
        return self.state in FINAL_STATES

    @classmethod
    def from_json(cls, data: Any) -> Run:
        """Raises BadReply when it has no id or no state."""
        data = as_object(data, "a run")
        if not _text(data, "id") or not _text(data, "state"):
            raise BadReply("a run without an id or a state")
        step = _object(data, "step")
        return cls(
            id=_text(data, "id"),
            state=_text(data, "state"),
            flow=_text(data, "flow"),
            task=_text(data, "task"),
            workspace=_text(data, "workspace"),
            labels={str(key): str(value) for key, value in _object(data, "labels").items()},
            created_at=_text(data, "created_at"),
            started_at=_text(data, "started_at"),
            ended_at=_text(data, "ended_at"),
            step=Progress(
                _text(step, "name"), _integer(step, "index"), _integer(step, "total"), _integer(step, "round")
            ),
            asks_waiting=_integer(data, "asks_waiting"),
            result=_text(data, "result"),
            verdict=_verdict(data.get("verdict")),
            cost_usd=_number(data, "cost_usd"),
            num_turns=_integer(data, "num_turns"),
            context=_integer(data, "context"),
            failed_at=_text(data, "failed_at"),
            aborted=_text(data, "aborted"),
            error=_text(data, "error"),
            last_seq=_integer(data, "last_seq"),
            epoch=_text(data, "epoch"),
            raw=data,
        )


@dataclass(frozen=True)
class Ask:
    """A question of a run. ``remaining`` is how many more may be asked, -1 when there is no quota."""

    id: str
    question: str = ""
    options: tuple[str, ...] = ()
    state: str = "asked"
    answer: str = ""
    answered_by: str = ""
    asked_at: str = ""
    expires_at: str = ""
    waited_s: float = 0.0
    remaining: int = -1
    raw: Json = field(default_factory=dict, repr=False, compare=False)

    @property
    def waiting(self) -> bool:
        """Whether it still waits for an answer."""
        return self.state == "asked"

    @classmethod
    def from_json(cls, data: Any) -> Ask:
        """Raises BadReply when it has no id."""
        data = as_object(data, "a question")
        if not _text(data, "id"):
            raise BadReply("a question without an id")
        options = data.get("options")
        return cls(
            id=_text(data, "id"),
            question=_text(data, "question"),
            options=tuple(str(option) for option in options) if isinstance(options, list) else (),
            state=_text(data, "state") or "asked",
            answer=_text(data, "answer"),
            answered_by=_text(data, "answered_by"),
            asked_at=_text(data, "asked_at"),
            expires_at=_text(data, "expires_at"),
            waited_s=_number(data, "waited_s"),
            remaining=_integer(data, "remaining", -1),
            raw=data,
        )

    @classmethod
    def from_event(cls, event: Event) -> Ask | None:
        """The question an event of kind ``ask`` tells of, asked or settled; None for mail and everything else."""
        payload = event.payload
        if event.kind != "ask" or "kind" in payload or not _text(payload, "id"):
            return None
        return cls.from_json({"question": event.text, **payload})


@dataclass(frozen=True)
class Settled:
    """What answering or declining led to. ``replayed``: the very same answer had been given before."""

    ask: Ask
    replayed: bool = False
    raw: Json = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class RunList:
    """One page of runs, newest first. ``next_cursor`` fetches the next one, empty at the end."""

    runs: tuple[Run, ...]
    next_cursor: str = ""
    raw: Json = field(default_factory=dict, repr=False, compare=False)


def as_object(data: Any, what: str) -> Json:
    """``data`` when it is a JSON object. Raises BadReply, naming ``what`` was expected."""
    if not isinstance(data, dict):
        raise BadReply(f"expected {what}, got {type(data).__name__}")
    return data


def as_count(data: Mapping[str, Any], key: str) -> int:
    """A whole number from 0 up to 2^53-1. Raises BadReply when it is anything else, a bool included."""
    value = data.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**53:
        raise BadReply(f"{key} is not a whole number")
    return value


def _text(data: Mapping[str, Any], key: str) -> str:
    value = data.get(key)
    return value if isinstance(value, str) else ""


def _object(data: Mapping[str, Any], key: str) -> Json:
    value = data.get(key)
    return value if isinstance(value, dict) else {}


def _number(data: Mapping[str, Any], key: str) -> float:
    value = data.get(key)
    try:
        return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else 0.0
    except OverflowError:
        return 0.0


def _integer(data: Mapping[str, Any], key: str, default: int = 0) -> int:
    value = data.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def _verdict(data: Any) -> Verdict | None:
    if not isinstance(data, dict) or not data:
        return None
    failed = data.get("failed")
    checks = tuple(str(check) for check in failed) if isinstance(failed, list) else ()
    return Verdict(_text(data, "state"), _text(data, "reason"), checks)
