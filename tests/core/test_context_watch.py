"""When a session announces its handoff, when it is stopped for it, and whose context counts."""

from __future__ import annotations

from typing import Any

import pytest

from flower_core import Event, HandoffPolicy
from flower_core.context_watch import ContextWatch


def said(context: int, **more: Any) -> Event:
    return Event("text", "words", payload={"context": context, **more})


def call(name: str, context: int = 0, **more: Any) -> Event:
    return Event("tool_call", tool="Bash", payload={"id": name, "context": context, **more})


def result(name: str, **more: Any) -> Event:
    return Event("tool_result", payload={"tool_use_id": name, **more})


def watching(*events: Event, window: int | None = 100_000) -> ContextWatch:
    """A watch (announces at 30,000, stops at 50,000) that has seen ``events``."""
    watch = ContextWatch(HandoffPolicy(window=window))
    for event in events:
        watch.absorb(event)
    return watch


@pytest.mark.parametrize(
    ("policy", "at", "warn_at"),
    [
        (HandoffPolicy(window=200_000), 150_000, 130_000),
        (HandoffPolicy(window=1_000_000, headroom=100_000), 900_000, 880_000),
        (HandoffPolicy(window=20_000), 10_000, 1_000),
        (HandoffPolicy(window=75_000), 25_000, 5_000),
        (HandoffPolicy(), 150_000, 130_000),
    ],
)
def test_the_levels_follow_from_window_and_headroom(policy: HandoffPolicy, at: int, warn_at: int) -> None:
    assert (policy.at, policy.warn_at) == (at, warn_at)


@pytest.mark.parametrize(
    "wrong",
    [
        {"window": 9_999},
        {"window": True},
        {"window": 1e6},
        {"headroom": -1},
        {"max_generations": 0},
        {"max_generations": None},
    ],
)
def test_an_impossible_policy_is_refused_by_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        HandoffPolicy(**wrong)


def test_it_announces_once() -> None:
    assert not watching(said(29_999)).take_warning()
    watch = watching(said(30_000))
    assert [watch.take_warning(), watch.take_warning()] == [True, False]


def test_it_stops_once_and_only_when_the_last_open_call_has_come_back() -> None:
    watch = watching(call("a", 50_000), call("b", 50_000), result("a"))
    assert not watch.take_stop()
    watch.absorb(result("b"))
    assert [watch.take_stop(), watch.take_stop()] == [True, False]
    assert watch.full


def test_words_alone_do_not_stop_a_turn_which_may_be_its_last() -> None:
    watch = watching(said(60_000))
    assert not watch.take_stop()
    assert watch.full


def test_below_the_level_it_does_not_stop() -> None:
    watch = watching(call("a", 49_999), result("a"))
    assert (watch.take_stop(), watch.full) == (False, False)


def test_a_subagents_context_and_calls_are_its_own() -> None:
    watch = watching(said(90_000, subagent=True))
    assert (watch.level, watch.take_warning(), watch.full) == (0, False, False)
    inside = {"subagent": True, "parent_tool_use_id": "a"}
    watch = watching(call("a", 60_000), call("x", 90_000, **inside), result("x", **inside))
    assert (watch.level, watch.take_stop()) == (60_000, False)


def test_a_new_turn_owes_nothing_to_one_that_died_in_the_middle() -> None:
    """A process that dies leaves calls open, a stop unheeded and a question without its answer."""
    watch = watching(call("a", 60_000), result("a"), call("lost", 60_000))
    watch.begin_turn()
    for _ in range(2):
        watch.absorb(call("b", 60_000))
        watch.absorb(result("b"))
        assert watch.take_stop()
        watch.begin_turn()
    watch = watching(said(130_000), window=None)
    assert watch.wants_window()
    watch.begin_turn()
    assert watch.wants_window()


def test_in_one_turn_the_window_is_asked_for_once_and_only_when_it_begins_to_matter() -> None:
    watch = watching(said(129_999), window=None)
    assert not watch.wants_window()
    watch.absorb(said(130_000))
    assert [watch.wants_window(), watch.wants_window()] == [True, False]
    assert not watching(said(90_000)).wants_window()


def test_until_the_window_is_known_nothing_is_decided() -> None:
    watch = watching(call("a", 900_000), result("a"), window=None)
    assert (watch.take_warning(), watch.take_stop(), watch.full) == (False, False, False)
    watch.learn_window(1_000_000)
    assert (watch.window, watch.take_warning(), watch.full) == (1_000_000, False, False)


@pytest.mark.parametrize("tokens", [None, 5_000])
def test_where_nobody_knows_the_window_it_is_taken_for_a_small_one(tokens: int | None) -> None:
    watch = watching(call("a", 150_000), result("a"), window=None)
    watch.learn_window(tokens)
    assert (watch.window, watch.take_warning(), watch.take_stop()) == (200_000, True, True)


def test_switched_off_it_asks_for_nothing() -> None:
    watch = ContextWatch(HandoffPolicy(enabled=False))
    for event in (call("a", 999_999), result("a")):
        watch.absorb(event)
    assert not any((watch.wants_window(), watch.take_warning(), watch.take_stop(), watch.full))
