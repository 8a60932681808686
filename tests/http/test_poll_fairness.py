"""A run that talks without end: its readers, the readers of other runs and everybody else are served all the same."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

from flower_http.event_log import EventLog
from flower_http.log_book import LogBook
from tests.http.event_tools import Serving, Wire, new_run, say, serving
from tests.support import eventually

FOLLOWERS = 20
ASKED = 40


class Crowd:
    """Readers that follow the run r1 as fast as they can, each in a thread of its own."""

    def __init__(self, live: Serving) -> None:
        self.cursors = [0] * FOLLOWERS
        self.failures: list[object] = []
        self._live = live
        self._stopped = threading.Event()
        self._threads = [threading.Thread(target=self._follow, args=(place,)) for place in range(FOLLOWERS)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def has_reached(self, number: int) -> bool:
        return max(self.cursors) > number

    def stop(self) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join(10)

    def _follow(self, place: int) -> None:
        try:
            with Wire(self._live.server) as wire:
                while not self._stopped.is_set():
                    got = wire.get(f"/runs/r1/events?after={self.cursors[place]}&limit=1000&wait=1").json
                    if got["next_after"] != self.cursors[place] + len(got["events"]):
                        self.failures.append(got)
                    self.cursors[place] = got["next_after"]
        except Exception as error:
            self.failures.append(error)


@contextmanager
def talking(log: EventLog) -> Iterator[None]:
    """While this is open ``log`` gets about 3000 events a second."""
    stopped = threading.Event()

    def talk() -> None:
        while not stopped.wait(0.01):
            say(log, *["word"] * 30)

    talker = threading.Thread(target=talk)
    talker.start()
    try:
        yield
    finally:
        stopped.set()
        talker.join(10)


def median_s(wire: Wire, target: str, method: str = "GET") -> float:
    times = []
    for _ in range(ASKED):
        started = time.perf_counter()
        wire.send(target, method=method)
        assert wire.reply().status == 200
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def test_a_run_that_talks_without_end_starves_nobody(book: LogBook) -> None:
    loud, quiet = new_run(book, "r1"), new_run(book, "r2")
    with serving(book, threads=4) as live, ExitStack() as stack:
        wire, other = stack.enter_context(Wire(live.server)), stack.enter_context(Wire(live.server))
        others = [("/runs/r2/events?after=0", "GET"), ("/runs/r2/answer", "POST"), ("/healthz", "GET")]
        idle = [median_s(wire, *what) for what in others]
        crowd = Crowd(live)
        with talking(loud):
            crowd.start()
            stack.callback(crowd.stop)
            eventually(lambda: min(crowd.cursors) > 500, timeout=15)
            busy = [median_s(wire, *what) for what in others]
            other.send("/runs/r2/events?after=1&wait=20")
            eventually(lambda: quiet.waiting == 1)
            started = time.perf_counter()
            say(quiet, "at last")
            assert other.reply().json["next_after"] == 2
            woken = time.perf_counter() - started
        # The readers of this test share the interpreter with the server: what is bounded is starving, not slowing down.
        assert max(now - 40 * before for now, before in zip(busy, idle, strict=True)) < 0.05, (idle, busy)
        assert woken < 5.0
        assert crowd.failures == []


def test_readers_of_one_run_get_equal_shares(book: LogBook) -> None:
    log = new_run(book, "r1")
    with serving(book, threads=2) as live:
        crowd = Crowd(live)
        with talking(log):
            crowd.start()
            behind = []
            for number in (1500, 2000, 2500, 3000):
                eventually(partial(crowd.has_reached, number), timeout=20)
                behind.append(max(crowd.cursors) - min(crowd.cursors))
        last = log.last_seq
        eventually(lambda: min(crowd.cursors) == last, timeout=10)
        crowd.stop()
        assert crowd.failures == []
        # A thread of this test may have had to wait for the processor once; who is starved is behind every time.
        assert min(behind) < 1000, behind
