"""Events: what they say as text, that every payload is JSON, and that a broken sink harms nothing."""

from __future__ import annotations

import json
import math

import pytest

from flower_core.events import EVENT_KINDS, MAX_NOTES, MAX_SAFE_INTEGER, Event, SafeSink, jsonable


def test_there_are_as_many_kinds_as_documented() -> None:
    assert len(EVENT_KINDS) == len(set(EVENT_KINDS)) == 15


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (Event("tool_call", "ls -l", tool="Bash"), "[Bash] ls -l"),
        (Event("text", "words", tool="Bash"), "words"),
        (Event("task"), "<task>"),
    ],
)
def test_an_event_as_text(event: Event, said: str) -> None:
    assert str(event) == said


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        ({1: (2, None), "a": {3}}, {"1": [2, None], "a": [3]}),
        ("a\ud800b", "a?b"),
        ({"\udfff": b"\xff"}, {"?": "\ufffd"}),
        (math.inf, "inf"),
        (MAX_SAFE_INTEGER, MAX_SAFE_INTEGER),
        (MAX_SAFE_INTEGER + 1, str(MAX_SAFE_INTEGER + 1)),
        (True, True),
        (ValueError("x"), "x"),
    ],
)
def test_what_has_no_json_form_becomes_text(value: object, plain: object) -> None:
    assert jsonable(value) == plain


def test_numbers_without_end_and_structures_without_bottom_end() -> None:
    loop: list[object] = []
    loop.append(loop)
    assert "…" in json.dumps(jsonable(loop), ensure_ascii=False)
    assert json.dumps(jsonable(10**20_000)).startswith('"0x')


def test_what_a_sink_raises_is_noted_once_and_harms_nothing() -> None:
    errors: list[str] = []

    def broken(event: Event) -> None:
        raise RuntimeError(event.text)

    sink = SafeSink(broken, errors)
    for text in ("a", "a", "b"):
        sink(Event("text", text))
    assert errors == ["RuntimeError: a", "RuntimeError: b"]


def test_a_sink_that_says_something_new_every_time_fills_no_memory() -> None:
    errors: list[str] = []

    def broken(event: Event) -> None:
        raise RuntimeError(event.text)

    sink = SafeSink(broken, errors)
    for number in range(MAX_NOTES + 50):
        sink(Event("text", str(number)))
    assert errors == [f"RuntimeError: {number}" for number in range(MAX_NOTES)]


def test_without_a_sink_events_go_nowhere() -> None:
    errors: list[str] = []
    SafeSink(None, errors)(Event("text"))
    assert errors == []
