from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

import pytest

from flower_core.events import EVENT_KINDS, jsonable
from flower_http.projection import RunView, fold

AT = "2026-01-31T12:00:0{}.000Z"
START = RunView(id="r1", epoch="e1")

Event = dict[str, Any]


def event(kind: str, text: str = "", /, **payload: Any) -> Event:
    return {"kind": kind, "text": text, "tool": "", "payload": payload}


def run_event(name: str, **payload: Any) -> Event:
    return event("system", f"run.{name}", **payload)


def ask(state: str = "asked", text: str = "Which one?", **payload: Any) -> Event:
    return event("ask", text, **{"id": "q1", "options": [], "state": state, "answer": "", "remaining": -1, **payload})


def after(*events: Event, view: RunView = START) -> RunView:
    for number, item in enumerate(events, view.last_seq + 1):
        view = fold(view, number, AT.format(number % 10), item)
    return view


CREATED = run_event(
    "created", id="r1", flow="once", task="t", workspace="w", lang="en", labels={"a": "b"}, params={"x": 1}
)
STARTED = run_event("started")


def test_the_first_event_fills_in_the_row() -> None:
    view = after(CREATED)
    assert (view.state, view.flow, view.task, view.workspace, view.lang) == ("queued", "once", "t", "w", "en")
    assert view.labels == {"a": "b"}
    assert view.params == {"x": 1}
    assert view.created_at == view.last_event_at == AT.format(1)
    assert view.last_seq == 1


def test_a_run_has_exactly_the_fields_of_the_contract() -> None:
    shown = after(CREATED, STARTED, event("step", "Work", index=1, total=2)).to_json()
    assert set(shown) == {
        *("id", "state", "flow", "task", "workspace", "lang", "labels", "created_at", "started_at", "ended_at", "step"),
        *("asks_waiting", "result", "verdict", "context", "cost_usd", "num_turns", "woke", "failed_at", "aborted"),
        *("error", "last_seq", "last_event_at", "epoch"),
    }
    assert shown["step"] == {"name": "Work", "index": 1, "total": 2, "round": 1}
    assert shown["ended_at"] is None
    json.dumps(shown, allow_nan=False)


def test_a_run_waits_while_a_question_waits() -> None:
    states = []
    view = START
    for item in (
        CREATED,
        STARTED,
        ask(),
        ask(id="q2"),
        ask("answered", answer="b"),
        ask("timeout", id="q2"),
        run_event("finished", state="succeeded"),
    ):
        view = after(item, view=view)
        states.append((view.state, view.asks_waiting))
    assert states == [
        ("queued", 0),
        ("running", 0),
        ("waiting", 1),
        ("waiting", 2),
        ("waiting", 1),
        ("running", 0),
        ("succeeded", 0),
    ]


@pytest.mark.parametrize(
    ("said", "state"),
    [("succeeded", "succeeded"), ("cancelled", "cancelled"), ("running", "failed"), (["x"], "failed")],
)
def test_only_a_final_state_can_end_a_run(said: object, state: str) -> None:
    view = after(CREATED, STARTED, run_event("finished", state=said))
    assert view.state == state
    assert view.final
    assert view.ended_at == AT.format(3)


def test_an_interrupted_run_keeps_its_question_and_waits_again_when_resumed() -> None:
    down = after(CREATED, STARTED, ask(), run_event("interrupted", error="the server went down"))
    assert (down.state, down.asks_waiting, down.error) == ("interrupted", 1, "the server went down")
    assert not down.final
    up = after(run_event("resumed"), view=down)
    assert (up.state, up.error) == ("waiting", "")
    assert after(run_event("resumed", state="queued"), view=down).state == "queued"


def test_started_at_is_the_first_start() -> None:
    view = after(CREATED, STARTED, run_event("interrupted"), run_event("resumed"), STARTED)
    assert view.started_at == AT.format(2)


def test_a_question_keeps_its_words_and_options_when_it_is_answered() -> None:
    asked = ask(options=["a", "b"], asked_at=1769860800.0, timeout_s=60.0, remaining=4)
    waiting = after(CREATED, STARTED, asked).asks[0].to_json()
    assert waiting["asked_at"] == "2026-01-31T12:00:00.000Z"
    assert waiting["expires_at"] == "2026-01-31T12:01:00.000Z"
    assert waiting["remaining"] == 4
    outcome = ask("answered", text="the answer", answer="b", answered_by="bot")
    outcome["payload"].pop("options")
    settled = after(CREATED, STARTED, asked, outcome).asks[0].to_json()
    assert settled["question"] == "Which one?"
    assert settled["options"] == ["a", "b"]
    assert (settled["state"], settled["answer"], settled["answered_by"]) == ("answered", "b", "bot")
    assert settled["waited_s"] == 4.0
    assert settled["expires_at"] == "2026-01-31T12:01:00.000Z"


def test_a_question_that_was_never_waiting_is_listed_with_its_outcome() -> None:
    view = after(CREATED, STARTED, ask("over_budget", remaining=0))
    assert [(item.state, item.question, item.waited_s) for item in view.asks] == [("over_budget", "Which one?", 0.0)]
    assert view.state == "running"


def test_a_question_left_over_at_the_end_no_longer_waits() -> None:
    view = after(CREATED, STARTED, ask(), run_event("finished", state="cancelled"))
    assert view.asks_waiting == 0
    assert view.asks[0].state == "declined"
    assert view.asks[0].settled_at == AT.format(4)


def test_mail_goes_from_queued_to_delivered() -> None:
    said = event("ask", "mind the gap", kind="mail", id="m1", state="queued", amended="notes/brief.md")
    taken = event("ask", "mind the gap", kind="mail", id="m1", state="delivered", amended="")
    view = after(CREATED, STARTED, said)
    assert view.mail[0].to_json() == {
        "id": "m1",
        "text": "mind the gap",
        "state": "queued",
        "at": AT.format(3),
        "amended": "notes/brief.md",
    }
    assert view.state == "running"
    taken_view = after(taken, view=view)
    assert [(item.state, item.amended, item.at) for item in taken_view.mail] == [
        ("delivered", "notes/brief.md", AT.format(3))
    ]


@pytest.mark.parametrize(
    ("name", "payload", "shown"),
    [
        ("Work", {"index": 3, "total": 3}, ("Work", 3, 3, 1)),
        ("Work#round2", {"index": 3, "total": 3}, ("Work", 3, 3, 2)),
        ("Work#retry3", {}, ("Work", 1, 4, 3)),
        ("干活·判定#2", {}, ("干活", 1, 4, 2)),
        ("Work·verdict#3", {}, ("Work", 1, 4, 3)),
        ("Work", {"round": 4}, ("Work", 1, 4, 4)),
        ("C# #round", {}, ("C# #round", 1, 4, 1)),
    ],
)
def test_a_step_shows_its_place_and_round(name: str, payload: Event, shown: tuple[str, int, int, int]) -> None:
    view = after(CREATED, STARTED, event("step", "Clarify", index=1, total=4), event("step", name, **payload))
    assert (view.step.name, view.step.index, view.step.total, view.step.round) == shown


def test_a_woken_run_stays_woken() -> None:
    assert after(CREATED, STARTED, event("step", "Work", woke=True), event("step", "Next", woke=False)).woke


def test_context_is_that_of_the_main_thread() -> None:
    view = after(CREATED, event("text", "a", context=900), event("text", "b", context=70, subagent="coder"))
    assert view.context == 900


def test_cost_and_turns_are_the_sum_of_the_results() -> None:
    view = after(
        CREATED,
        event("result", "success", session_id="a", cost_usd=0.1, num_turns=2),
        event("result", "error_max_turns", session_id="a", cost_usd=0.25, num_turns=5),
        event("result", "success", session_id="b", cost_usd=0.5, num_turns=1),
    )
    assert (view.cost_usd, view.num_turns) == (0.85, 8)


def test_writing_a_handoff_is_counted_once_it_is_done() -> None:
    view = after(
        CREATED,
        event("result", "success", cost_usd=0.1, num_turns=2),
        event("handoff", "near", phase="near", cost_usd=9.0, num_turns=9),
        event("handoff", "done", phase="done", cost_usd=0.25, num_turns=1),
    )
    assert (view.cost_usd, view.num_turns) == (0.35, 3)


def test_a_judged_round_shows_its_verdict_before_the_run_ends() -> None:
    payload = {"kind": "verdict", "state": "not_yet", "reason": "no tests", "failed": ["tests pass"], "round": 1}
    view = after(CREATED, STARTED, event("task", "Verdict of round 1: not yet", **payload))
    assert view.verdict == {"state": "not_yet", "reason": "no tests", "failed": ["tests pass"]}
    assert after(event("task", "", kind="TaskStartedMessage", state="x"), view=view).verdict == view.verdict


def test_the_end_carries_result_verdict_and_what_went_wrong() -> None:
    verdict = {"state": "not_yet", "reason": "no tests", "failed": ["tests pass"]}
    view = after(
        CREATED,
        STARTED,
        run_event("finished", state="failed", result="r", verdict=verdict, failed_at="Work", aborted="a", error="e"),
    )
    assert (view.result, view.verdict, view.failed_at, view.aborted, view.error) == ("r", verdict, "Work", "a", "e")


def test_a_run_that_has_ended_stays_as_it_ended() -> None:
    ended = after(CREATED, STARTED, run_event("finished", state="failed", result="r"))
    later = after(STARTED, ask(), run_event("finished", state="succeeded"), view=ended)
    assert (later.state, later.asks, later.result, later.last_seq) == ("failed", (), "r", 6)


def junk(rng: random.Random, depth: int = 0) -> Any:
    simple: Sequence[Any] = (
        None,
        True,
        -1,
        10**30,
        1e308,
        "x",
        "",
        "9",
        b"\xff",
        float("nan"),
        float("-inf"),
        "\ud800",
    )
    kind = rng.randrange(4 if depth < 3 else 2)
    if kind == 2:
        return [junk(rng, depth + 1) for _ in range(rng.randrange(3))]
    if kind == 3:
        return {str(junk(rng, 9)): junk(rng, depth + 1) for _ in range(rng.randrange(3))}
    return rng.choice(simple)


KEYS = (
    *(
        "id",
        "state",
        "options",
        "answer",
        "remaining",
        "asked_at",
        "expires_at",
        "timeout_s",
        "kind",
        "amended",
        "index",
    ),
    *(
        "total",
        "round",
        "woke",
        "context",
        "subagent",
        "session_id",
        "cost_usd",
        "num_turns",
        "run_cost_usd",
        "verdict",
    ),
    *("labels", "params", "task", "result", "error", "replayed", "question"),
)
RUN_TEXTS = ("run.created", "run.started", "run.interrupted", "run.resumed")


def random_events(seed: int, count: int) -> list[Event]:
    rng = random.Random(seed)  # noqa: S311 - test data
    found = []
    for _ in range(count):
        payload = {key: junk(rng) for key in rng.sample(KEYS, 8)}
        kind = rng.choice((*EVENT_KINDS, "ask", "system", "from-the-future"))
        text = rng.choice((*RUN_TEXTS, "q", "Work#round2", ""))
        found.append(jsonable({"kind": kind, "text": text, "tool": "", "payload": payload}))
    return found


@pytest.mark.parametrize("seed", range(20))
def test_no_event_can_break_the_projection_and_every_view_is_json(seed: int) -> None:
    view = START
    for number, item in enumerate(random_events(seed, 100), 1):
        view = fold(view, number, AT.format(number % 10), item)
        json.dumps(view.to_json(), allow_nan=False)
        json.dumps([ask.to_json() for ask in view.asks], allow_nan=False)
        assert (view.state == "waiting") == (view.asks_waiting > 0 and view.state not in ("queued", "interrupted"))
    assert view.last_seq == 100


@pytest.mark.parametrize("payload", [None, [], "text", 7])
def test_an_event_without_a_usable_payload_only_moves_the_cursor(payload: object) -> None:
    view = fold(START, 1, AT.format(1), {"kind": "result", "payload": payload})
    assert (view.last_seq, view.cost_usd) == (1, 0.0)


@pytest.mark.parametrize("seed", range(5))
def test_a_kept_view_can_stand_for_all_the_events_before_it(seed: int) -> None:
    events = random_events(seed, 60)
    whole = after(*events)
    for cut in range(0, 60, 7):
        kept = json.loads(json.dumps(after(*events[:cut]).dump()))
        assert after(*events[cut:], view=RunView.restore(kept)) == whole
