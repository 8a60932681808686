"""A run as clients see it, derived from its events and from nothing else.

``fold`` takes the view before an event and gives the view after it. It is pure and total: the same events always
give the same view, whatever they hold. So a view can be rebuilt at any time, and never says what no event said.

Events the server makes are of kind ``system``; their text tells them apart:
``run.created`` (payload: the run's row; always the first), ``run.started``, ``run.interrupted``, ``run.resumed``,
``run.finished`` (payload: state, result, verdict …; always the last).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from flower_http.views import (
    NO_STEP,
    AskView,
    MailView,
    Stamp,
    StepView,
    count,
    fold_ask,
    fold_mail,
    number,
    settle_leftover,
    words,
)

FINAL: Final = frozenset({"succeeded", "failed", "cancelled"})
ACTIVE: Final = frozenset({"running", "waiting"})
STATES: Final = frozenset({"queued", "interrupted"}) | ACTIVE | FINAL

CREATED: Final = "run.created"
STARTED: Final = "run.started"
INTERRUPTED: Final = "run.interrupted"
RESUMED: Final = "run.resumed"
FINISHED: Final = "run.finished"

_ROUND = re.compile(r"(?P<base>.+?)(?:#(?:round|retry)|·[^#·]+#)(?P<round>[1-9][0-9]{0,5})", re.ASCII | re.DOTALL)
_IN_PROCESS = ("params", "fruitless")
#: What an agent says or does; what is not among it also comes from runs that get nowhere.
_PROGRESS: Final = frozenset({"text", "thinking", "tool_call", "tool_result", "result", "handoff", "task"})
#: How often a run is started without a sign of its agent before nobody but a person lets it go on: it may well be what
#: brings the server down.
_MOST_FRUITLESS: Final = 3
GETS_NOWHERE: Final = (
    f"interrupted {_MOST_FRUITLESS} times in a row without a sign of its agent; resume it to try again"
)


@dataclass(frozen=True)
class RunView:
    """One run at one moment. Times are RFC 3339 in UTC, empty when there is none yet; money is US dollars.

    ``params`` is what the run was started with, ``fruitless`` how often it has been started since an agent of it last
    said or did anything; both stay inside the process. ``asks`` and ``mail`` are what is told of and not yet put away
    by :func:`fold_all`.
    """

    id: str
    epoch: str
    state: str = "queued"
    flow: str = ""
    task: str = ""
    workspace: str = ""
    lang: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    created_at: str = ""
    started_at: str = ""
    ended_at: str = ""
    step: StepView = NO_STEP
    asks_waiting: int = 0
    result: str = ""
    verdict: Mapping[str, Any] = field(default_factory=dict)
    context: int = 0
    cost_usd: float = 0.0
    num_turns: int = 0
    woke: bool = False
    failed_at: str = ""
    aborted: str = ""
    error: str = ""
    last_seq: int = 0
    last_event_at: str = ""
    asks: tuple[AskView, ...] = ()
    mail: tuple[MailView, ...] = ()
    params: Mapping[str, Any] = field(default_factory=dict)
    fruitless: int = 0

    @property
    def final(self) -> bool:
        """Whether the run has ended for good."""
        return self.state in FINAL

    @property
    def gets_nowhere(self) -> bool:
        """Whether it has been started, and interrupted, too often in a row without a sign of its agent."""
        return self.fruitless >= _MOST_FRUITLESS and self.state != "queued"

    def ask(self, ask_id: str) -> AskView | None:
        """The question with this id, or None."""
        return next((ask for ask in self.asks if ask.id == ask_id), None)

    def to_json(self) -> dict[str, Any]:
        """The Run of the HTTP contract. Empty times, verdict, failed_at, aborted and error are null."""
        shown = {
            key: getattr(self, key) for key in self.__dataclass_fields__ if key not in (*_IN_PROCESS, "asks", "mail")
        }
        for key in ("started_at", "ended_at", "last_event_at", "verdict", "failed_at", "aborted", "error"):
            shown[key] = shown[key] or None
        return {**shown, "labels": dict(self.labels), "step": asdict(self.step) if self.step.name else None}

    def dump(self) -> dict[str, Any]:
        """Everything, as JSON-serialisable data from which :meth:`restore` makes an equal view."""
        return asdict(self)

    @classmethod
    def restore(cls, data: Mapping[str, Any]) -> RunView:
        """The view that :meth:`dump` gave ``data`` for. Raises TypeError or KeyError for anything else."""
        asks = tuple(AskView.restore(ask) for ask in data["asks"])
        mail = tuple(MailView(**item) for item in data["mail"])
        return cls(**{**data, "step": StepView(**data["step"]), "asks": asks, "mail": mail})


@dataclass
class Settled:
    """What has been told of and needs nobody's attention any more, in the order it was put away."""

    asks: list[AskView] = field(default_factory=list)
    mail: list[MailView] = field(default_factory=list)


def fold_all(view: RunView, events: Iterable[tuple[int, str, Mapping[str, Any]]]) -> tuple[RunView, Settled]:
    """The view after ``events`` (number, time, event), and what was put away out of it.

    The view holds only questions that wait and words not taken: it does not grow with its run, nor does a fold.
    """
    settled = Settled()
    for seq, at, event in events:
        before, view = view, fold(view, seq, at, event)
        if view.asks is not before.asks or view.mail is not before.mail:
            settled.asks += (ask for ask in view.asks if not ask.waiting)
            settled.mail += (item for item in view.mail if not item.waiting)
            view = replace(
                view,
                asks=tuple(ask for ask in view.asks if ask.waiting),
                mail=tuple(item for item in view.mail if item.waiting),
            )
    return view, settled


_Changes = dict[str, Any]


def fold(view: RunView, seq: int, at: str, event: Mapping[str, Any]) -> RunView:
    """The view after ``event``, which has number ``seq`` and happened ``at`` (RFC 3339). Never raises."""
    changes: _Changes = {"last_seq": seq, "last_event_at": at}
    if event.get("kind", "") in _PROGRESS:
        changes["fruitless"] = 0
    handler = _HANDLERS.get(event.get("kind", ""))
    if handler is not None and not view.final:  # a run that has ended stays as it ended
        payload = event.get("payload")
        changes.update(handler(view, Stamp(seq, at), event, payload if isinstance(payload, Mapping) else {}))
    if "state" in changes or "asks" in changes:
        _settle_state(view, changes)
    return replace(view, **changes)


def _settle_state(view: RunView, changes: _Changes) -> None:
    """A run waits exactly while it is running and one of its questions waits."""
    asks: tuple[AskView, ...] = changes.get("asks", view.asks)
    state: str = changes.get("state", view.state)
    waiting = sum(ask.waiting for ask in asks)
    changes["asks_waiting"] = waiting
    if state in ACTIVE:
        changes["state"] = "waiting" if waiting else "running"


def _on_system(view: RunView, stamp: Stamp, event: Mapping[str, Any], payload: Mapping[str, Any]) -> _Changes:
    handler = _RUN_HANDLERS.get(event.get("text", ""))
    return handler(view, stamp, payload) if handler is not None else {}


def _on_created(view: RunView, stamp: Stamp, payload: Mapping[str, Any]) -> _Changes:
    labels, params = payload.get("labels"), payload.get("params")
    return {
        "created_at": stamp.at,
        **{key: words(payload.get(key)) for key in ("flow", "task", "workspace", "lang")},
        "labels": {key: words(value) for key, value in labels.items()} if isinstance(labels, Mapping) else {},
        "params": dict(params) if isinstance(params, Mapping) else {},
    }


def _on_started(view: RunView, stamp: Stamp, payload: Mapping[str, Any]) -> _Changes:
    return {
        "state": "running",
        "started_at": view.started_at or stamp.at,
        "fruitless": view.fruitless + 1,
        "woke": payload.get("woke") is True or view.woke,
    }


def _on_interrupted(view: RunView, stamp: Stamp, payload: Mapping[str, Any]) -> _Changes:
    return {"state": "interrupted", "error": words(payload.get("error"))}


def _on_resumed(view: RunView, stamp: Stamp, payload: Mapping[str, Any]) -> _Changes:
    state = "queued" if payload.get("state") == "queued" else "running"
    return {"state": state, "error": ""}


def _on_finished(view: RunView, stamp: Stamp, payload: Mapping[str, Any]) -> _Changes:
    state = payload.get("state")
    changes: _Changes = {
        "state": state if isinstance(state, str) and state in FINAL else "failed",
        "ended_at": stamp.at,
        # Whoever ends a run settles its questions first; should one be left, nobody can answer it any more.
        "asks": tuple(settle_leftover(ask, stamp) for ask in view.asks),
    }
    changes.update({key: words(payload[key]) for key in ("result", "failed_at", "aborted", "error") if key in payload})
    changes.update(_verdict(payload))
    if "cost_usd" in payload:
        changes["cost_usd"] = number(payload["cost_usd"])
    if "num_turns" in payload:
        changes["num_turns"] = count(payload["num_turns"])
    return changes


def _on_step(view: RunView, stamp: Stamp, event: Mapping[str, Any], payload: Mapping[str, Any]) -> _Changes:
    name = words(event.get("text"))
    match = _ROUND.fullmatch(name)
    turn = count(payload.get("round")) or (int(match["round"]) if match else 1)
    step = StepView(
        name=match["base"] if match else name,
        index=count(payload.get("index")) or view.step.index,
        total=count(payload.get("total")) or view.step.total,
        round=turn,
    )
    return {"step": step, "woke": view.woke or payload.get("woke") is True, **_verdict(payload)}


def _on_words(view: RunView, stamp: Stamp, event: Mapping[str, Any], payload: Mapping[str, Any]) -> _Changes:
    """Anything the main thread says carries how full its context is; a subagent's context is not the run's."""
    context = count(payload.get("context"))
    return {"context": context} if context and not payload.get("subagent") else {}


def _on_result(view: RunView, stamp: Stamp, event: Mapping[str, Any], payload: Mapping[str, Any]) -> _Changes:
    """A result says what its turn cost, so a run's figures are the sum of its results."""
    cost = view.cost_usd + number(payload.get("cost_usd"))
    return {"cost_usd": round(cost, 6), "num_turns": view.num_turns + count(payload.get("num_turns"))}


def _on_handoff(view: RunView, at: Stamp, event: Mapping[str, Any], payload: Mapping[str, Any]) -> _Changes:
    """Nobody sees the turn that writes a handoff, so its figures come with the handoff and not in a result."""
    return _on_result(view, at, event, payload) if payload.get("phase") == "done" else {}


def _on_ask(view: RunView, stamp: Stamp, event: Mapping[str, Any], payload: Mapping[str, Any]) -> _Changes:
    if payload.get("kind") == "mail":
        return {"mail": fold_mail(view.mail, stamp, words(event.get("text")), payload)}
    return {"asks": fold_ask(view.asks, stamp, words(event.get("text")), payload)}


def _on_task(view: RunView, stamp: Stamp, event: Mapping[str, Any], payload: Mapping[str, Any]) -> _Changes:
    """A round that was judged is told as a task of kind ``verdict``."""
    return _verdict({"verdict": payload} if payload.get("kind") == "verdict" else {})


def _verdict(payload: Mapping[str, Any]) -> _Changes:
    found = payload.get("verdict")
    if not isinstance(found, Mapping) or not found:
        return {}
    failed = found.get("failed")
    listed = [words(item) for item in failed] if isinstance(failed, (list, tuple)) else []
    return {"verdict": {"state": words(found.get("state")), "reason": words(found.get("reason")), "failed": listed}}


_RUN_HANDLERS: dict[str, Callable[[RunView, Stamp, Mapping[str, Any]], _Changes]] = {
    CREATED: _on_created,
    STARTED: _on_started,
    INTERRUPTED: _on_interrupted,
    RESUMED: _on_resumed,
    FINISHED: _on_finished,
}
_HANDLERS: dict[str, Callable[[RunView, Stamp, Mapping[str, Any], Mapping[str, Any]], _Changes]] = {
    "system": _on_system,
    "step": _on_step,
    "text": _on_words,
    "thinking": _on_words,
    "tool_call": _on_words,
    "result": _on_result,
    "handoff": _on_handoff,
    "ask": _on_ask,
    "task": _on_task,
}
