from __future__ import annotations

import heapq

import pytest

from flower_http.pacing import EMPTY_REPLIES_PER_S, LONGEST_MS, SHORTEST_MS, Pacer


class Time:
    """A clock that is set."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Time:
    return Time()


def served(clock: Time, pacer: Pacer, readers: int, seconds: float) -> list[tuple[float, int]]:
    """When ``readers`` that obey come, and what each is told, for so long."""
    replies = []
    due = [clock.now + number / readers for number in range(readers)]
    end = clock.now + seconds
    while due[0] < end:
        clock.now = due[0]
        pause = pacer.pause_ms()
        replies.append((clock.now, pause))
        heapq.heapreplace(due, clock.now + pause / 1000)
    return replies


def test_a_quiet_server_asks_for_the_shortest_pause(clock: Time) -> None:
    assert {pause for _, pause in served(clock, Pacer(clock=clock), 5, 20)} == {SHORTEST_MS}


@pytest.mark.parametrize("readers", [1000, 4000])
def test_many_readers_share_a_fixed_rate_between_them(clock: Time, readers: int) -> None:
    replies = served(clock, Pacer(clock=clock), readers, 60)
    late = [moment for moment, _ in replies if moment > replies[-1][0] - 20]
    assert 0.5 < len(late) / 20 / EMPTY_REPLIES_PER_S < 1.5


def test_no_reader_is_ever_sent_away_for_longer_than_the_longest_pause(clock: Time) -> None:
    assert max(pause for _, pause in served(clock, Pacer(clock=clock), 20_000, 60)) == LONGEST_MS


def test_it_is_quiet_again_once_the_readers_have_gone(clock: Time) -> None:
    pacer = Pacer(clock=clock)
    assert served(clock, pacer, 4000, 30)[-1][1] > 4 * SHORTEST_MS
    clock.now += 60
    assert pacer.pause_ms() == SHORTEST_MS


def test_a_queue_of_requests_makes_the_pause_grow_and_its_end_makes_it_shrink(clock: Time) -> None:
    queue = 200
    pacer = Pacer(lambda: queue, clock=clock)
    assert served(clock, pacer, 2, 30)[-1][1] == LONGEST_MS
    queue = 0
    assert served(clock, pacer, 2, 60)[-1][1] == SHORTEST_MS
