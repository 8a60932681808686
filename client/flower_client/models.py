"""What the API answers with, typed.

Reading is lenient about what is missing or new (a newer server may say more) and strict about what the
client's own logic rests on. ``raw`` is always the object as it came, for programs that want to hand it on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from flower_client.errors import BadReply
from flower_client.fields import Json, as_count, as_object, integer_of, number_of, object_of, text_of

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
            kind=text_of(data, "kind"),
            text=text_of(data, "text"),
            tool=text_of(data, "tool"),
            at=text_of(data, "at"),
            payload=object_of(data, "payload"),
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
            run=text_of(data, "run"),
            epoch=text_of(data, "epoch"),
            state=text_of(data, "state"),
            after=as_count(data, "after"),
            events=tuple(Event.from_json(event) for event in events),
            next_after=as_count(data, "next_after"),
            last_seq=as_count(data, "last_seq"),
            pending=as_count(data, "pending"),
            final=data.get("final") is True,
            gap=Gap(as_count(gap, "from"), as_count(gap, "to")) if isinstance(gap, dict) else None,
            retry_after_ms=int(min(max(number_of(data, "retry_after_ms"), 0), 1e9)),
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
        if not text_of(data, "id") or not text_of(data, "state"):
            raise BadReply("a run without an id or a state")
        step = object_of(data, "step")
        return cls(
            id=text_of(data, "id"),
            state=text_of(data, "state"),
            flow=text_of(data, "flow"),
            task=text_of(data, "task"),
            workspace=text_of(data, "workspace"),
            labels={str(key): str(value) for key, value in object_of(data, "labels").items()},
            created_at=text_of(data, "created_at"),
            started_at=text_of(data, "started_at"),
            ended_at=text_of(data, "ended_at"),
            step=Progress(
                text_of(step, "name"), integer_of(step, "index"), integer_of(step, "total"), integer_of(step, "round")
            ),
            asks_waiting=integer_of(data, "asks_waiting"),
            result=text_of(data, "result"),
            verdict=_verdict(data.get("verdict")),
            cost_usd=number_of(data, "cost_usd"),
            num_turns=integer_of(data, "num_turns"),
            context=integer_of(data, "context"),
            failed_at=text_of(data, "failed_at"),
            aborted=text_of(data, "aborted"),
            error=text_of(data, "error"),
            last_seq=integer_of(data, "last_seq"),
            epoch=text_of(data, "epoch"),
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
        if not text_of(data, "id"):
            raise BadReply("a question without an id")
        options = data.get("options")
        return cls(
            id=text_of(data, "id"),
            question=text_of(data, "question"),
            options=tuple(str(option) for option in options) if isinstance(options, list) else (),
            state=text_of(data, "state") or "asked",
            answer=text_of(data, "answer"),
            answered_by=text_of(data, "answered_by"),
            asked_at=text_of(data, "asked_at"),
            expires_at=text_of(data, "expires_at"),
            waited_s=number_of(data, "waited_s"),
            remaining=integer_of(data, "remaining", -1),
            raw=data,
        )

    @classmethod
    def from_event(cls, event: Event) -> Ask | None:
        """The question an event of kind ``ask`` tells of, asked or settled; None for mail and everything else."""
        payload = event.payload
        if event.kind != "ask" or "kind" in payload or not text_of(payload, "id"):
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


def _verdict(data: Any) -> Verdict | None:
    if not isinstance(data, dict) or not data:
        return None
    failed = data.get("failed")
    checks = tuple(str(check) for check in failed) if isinstance(failed, list) else ()
    return Verdict(text_of(data, "state"), text_of(data, "reason"), checks)
