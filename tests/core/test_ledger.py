"""From running totals per session to what each turn cost."""

from __future__ import annotations

import pytest

from flower_core.ledger import Ledger


def test_the_first_total_of_a_new_session_is_its_cost() -> None:
    assert Ledger().charge("a", 0.5) == 0.5


def test_a_running_total_is_charged_only_for_what_came_on_top() -> None:
    ledger = Ledger()
    assert [ledger.charge("a", total) for total in (0.5, 0.75, 0.75)] == [0.5, 0.25, 0.0]


def test_what_a_session_had_cost_before_is_not_ours() -> None:
    ledger = Ledger()
    ledger.owe("a", 5.0, fork=False)
    assert ledger.charge("a", 5.5) == 0.5


def test_a_fork_counts_on_from_its_parent() -> None:
    ledger = Ledger()
    ledger.owe("a", 5.0, fork=True)
    assert (ledger.charge("b", 5.25), ledger.charge("b", 5.5)) == (0.25, 0.25)


def test_what_a_process_spent_that_died_unheard_is_charged_with_the_next_result() -> None:
    ledger = Ledger()
    assert ledger.charge("a", 1.0) == 1.0
    ledger.owe("a", 3.0, fork=False)  # two dollars were written down, and never reported
    assert ledger.charge("a", 3.5) == 2.5


def test_so_is_what_the_first_process_of_a_session_spent_that_never_reported_anything() -> None:
    ledger = Ledger()
    ledger.owe_nothing()
    ledger.open("a")
    ledger.owe("a", 3.0, fork=False)
    assert ledger.charge("a", 3.5) == 3.5


def test_a_fork_whose_first_process_died_still_counts_on_from_its_parent() -> None:
    ledger = Ledger()
    ledger.owe("a", 5.0, fork=True)
    ledger.open("b")
    ledger.owe("b", 6.0, fork=False)
    assert ledger.charge("b", 6.5) == 1.5


def test_a_transcript_that_knows_less_than_we_do_is_what_the_process_counts_from() -> None:
    ledger = Ledger()
    assert ledger.charge("a", 1.0) == 1.0
    ledger.owe("a", 0.0, fork=False)
    assert ledger.charge("a", 0.25) == 0.25


def test_a_total_that_falls_was_counted_from_nothing() -> None:
    ledger = Ledger()
    ledger.owe("a", 5.0, fork=False)
    assert ledger.charge("a", 0.25) == 0.25


def test_sessions_are_kept_apart() -> None:
    ledger = Ledger()
    costs = [ledger.charge("a", 1.0), ledger.charge("b", 2.0), ledger.charge("a", 1.5)]
    assert costs == pytest.approx([1.0, 2.0, 0.5])


def test_a_new_session_after_a_fork_counts_from_nothing() -> None:
    ledger = Ledger()
    ledger.owe("a", 5.0, fork=True)
    assert ledger.charge("fork", 7.0) == 2.0
    ledger.owe_nothing()
    assert ledger.charge("new", 6.0) == 6.0
