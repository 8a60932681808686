"""Long outages of every kind: few requests, nothing lost, and nothing that leans on the time of day."""

from __future__ import annotations

import contextlib
import itertools
import random
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from flower_client import FlowerClient, Notice, Unreachable
from flower_client.retrying import Backoff

from tests.client.scripted_run import ScriptedRun
from tests.client.scripted_server import Answer, ScriptedServer, html

#: How long a proxy answers for a server that is away, and the most requests it may get from one watch meanwhile.
AWAY_S, MOST_REQUESTS = 60.0, 15


class Clock:
    """Time that only passes while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


def backoff_of(seed: int) -> Backoff:
    return Backoff(rng=random.Random(seed))  # noqa: S311 - it guards no secret


def test_a_minute_of_html_from_a_proxy_takes_at_most_fifteen_requests_whatever_the_dice_say() -> None:
    for seed in range(2000):
        backoff, elapsed, requests = backoff_of(seed), 0.0, 0
        while elapsed < AWAY_S:
            requests += 1
            elapsed += backoff.delay(requests)
        assert requests <= MOST_REQUESTS, seed


@pytest.mark.parametrize("seed", range(5))
def test_a_watch_comes_back_after_a_minute_of_html_with_every_event(
    server: ScriptedServer, run: ScriptedRun, seed: int
) -> None:
    clock = Clock()
    bad: list[float] = []

    def proxy(answer: Answer) -> Answer | None:
        server.faults.append(proxy)
        if clock.now >= AWAY_S:
            server.faults.clear()
            return answer
        bad.append(clock.now)
        return html(502)(answer)

    run.say(*map(str, range(20)))
    run.finish()
    server.faults.append(proxy)
    with FlowerClient(server.url, backoff=backoff_of(seed), sleep=clock.sleep, clock=clock) as client:
        watch = client.watch("r1", limit=3)
        assert [event.seq for event in watch] == list(range(1, 23))
    assert 5 <= len(bad) <= MOST_REQUESTS
    assert watch.losses == []


def test_a_connection_that_has_died_without_a_word_is_given_up_and_read_anew(
    server: ScriptedServer, run: ScriptedRun
) -> None:
    gone = threading.Event()

    def half_open(answer: Answer) -> Answer | None:
        gone.wait(20)
        return None

    run.finish()
    server.faults.extend([half_open, half_open])
    notices: list[Notice] = []
    begun = time.monotonic()
    with FlowerClient(server.url, timeout_s=0.3, long_poll_s=0.2, sleep=lambda seconds: None) as client:
        watch = client.watch("r1", on_notice=notices.append)
        assert [event.seq for event in watch] == [1, 2]
    gone.set()
    assert [notice.kind for notice in notices] == ["outage", "back"]
    assert "no answer in time" in notices[0].text
    assert time.monotonic() - begun < 10


@contextlib.contextmanager
def full_backlog() -> Iterator[int]:
    """The port of a server that takes no connection any more, and says nothing either."""
    with contextlib.ExitStack() as stack:
        listening = stack.enter_context(socket.socket())
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                waiting.connect(listening.getsockname())
        yield listening.getsockname()[1]


def test_a_server_that_takes_no_connection_is_given_up_after_the_timeout() -> None:
    with full_backlog() as port:
        begun = time.monotonic()
        with (
            FlowerClient(f"http://127.0.0.1:{port}", attempts=1, timeout_s=0.3) as client,
            pytest.raises(Unreachable, match="no answer in time") as raised,
        ):
            client.start("bake")
        assert time.monotonic() - begun < 5
        assert not raised.value.maybe_done


@pytest.mark.parametrize("size", [1, 40, 200])
def test_half_of_a_page_in_a_reply_that_claims_to_be_whole_is_read_again(
    client: FlowerClient, server: ScriptedServer, run: ScriptedRun, size: int
) -> None:
    run.say("one", "two")
    run.finish()
    server.faults.extend([lambda answer: replace(answer, body=answer.body[:size])] * 3)
    watch = client.watch("r1")
    assert [event.seq for event in watch] == [1, 2, 3, 4]
    assert watch.losses == []


def test_a_clock_that_jumps_changes_neither_pauses_nor_when_it_gives_up(
    server: ScriptedServer, run: ScriptedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pauses(*, jumps: bool) -> list[float]:
        clock, days = Clock(), itertools.cycle([0, 86400, -86400, 5, -1e6])
        with monkeypatch.context() as patch:
            if jumps:
                real = time.time
                patch.setattr(time, "time", lambda: real() + next(days))
            client = FlowerClient(server.url, backoff=backoff_of(1), sleep=clock.sleep, clock=clock)
            with client, pytest.raises(Unreachable):
                next(client.watch("r1", give_up_after_s=300))
        return clock.pauses

    server.faults.extend([html(502)] * 1000)
    steady = pauses(jumps=False)
    assert 200 < sum(steady) <= 300
    assert pauses(jumps=True) == steady
