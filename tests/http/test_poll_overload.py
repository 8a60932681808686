"""More than a server can do: said in words, cheaply, at once; who is served already goes on being served."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from contextlib import ExitStack
from functools import partial
from typing import Any

from flower_client import FlowerClient

from flower_http.event_log import EventLog
from flower_http.log_book import LogBook
from tests.http.event_tools import Serving, Wire, fetch, finish, say, serving
from tests.support import eventually


class Gate:
    """An application whose requests take until it is opened."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.served = 0

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        assert self.opened.wait(20)
        self.served += 1
        start_response("200 OK", [("Content-Length", "4")])
        return [b"done"]


def queued(live: Serving, count: int) -> bool:
    assert live.dispatcher is not None
    return live.dispatcher.queued == count


def refused(live: Serving, target: str) -> bool:
    reply = fetch(live.server, target)
    assert (reply.status, reply.json["type"], reply.headers["retry-after"]) == (503, "overloaded", "1")
    return True


def test_a_full_queue_is_said_at_once_and_spares_events_and_healthz(book: LogBook, log: EventLog) -> None:
    gate = Gate()
    with serving(book, threads=1, max_queued=3, fallback=gate) as live, ExitStack() as stack:
        wires = [stack.enter_context(Wire(live.server)) for _ in range(5)]
        for number, wire in enumerate(wires[:4]):
            wire.send("/slow")
            eventually(partial(queued, live, number))
        started = time.monotonic()
        assert refused(live, "/slow")
        assert refused(live, "/events")  # which run that is may take the disk to find out
        assert fetch(live.server, "/runs/r1/events").json["next_after"] == 1
        assert time.monotonic() - started < 15  # what it would have waited for takes 20
        assert live.server.refused == 2
        wires[4].send("/healthz")
        eventually(partial(queued, live, 4))
        gate.opened.set()
        assert [wire.reply().body for wire in wires] == [b"done"] * 5
        assert fetch(live.server, "/slow").status == 200
        assert gate.served == 6


def test_a_connection_too_many_is_told_so_and_there_is_room_again_when_one_ends(book: LogBook, log: EventLog) -> None:
    with serving(book, connection_limit=3) as live, ExitStack() as stack:
        wires = [stack.enter_context(Wire(live.server)) for _ in range(3)]
        for wire in wires:
            assert wire.get("/hello").status == 200
        for _ in range(100):  # more than are taken in at a time beyond the limit
            assert refused(live, "/runs/r1/events")
        assert wires[0].get("/hello").status == 200
        wires[0].close()
        eventually(lambda: live.server.connections == 2)
        assert fetch(live.server, "/hello").status == 200


def test_very_many_connections_too_many_wait_their_turn_to_be_told(book: LogBook, log: EventLog) -> None:
    with serving(book, connection_limit=2) as live, ExitStack() as stack:
        wires = [stack.enter_context(Wire(live.server)) for _ in range(150)]
        eventually(lambda: live.server.connections == 2 + 64)
        for wire in wires:
            wire.send("/hello")
        assert sorted(wire.reply().status for wire in wires) == [200] * 2 + [503] * 148


# ---- the real client, told to come again


def test_the_client_that_cannot_be_held_never_loops_hot_and_misses_nothing(book: LogBook, log: EventLog) -> None:
    with serving(book, max_parked=0) as live, FlowerClient(live.server.url) as client:
        watch = client.watch("r1")
        seen: list[str] = []
        reading = threading.Thread(target=lambda: seen.extend(event.text for event in watch))
        started = time.monotonic()
        reading.start()
        eventually(lambda: live.door.asked >= 3)
        # The first request finds something; each of the others was followed by a pause of a second.
        assert time.monotonic() - started > 0.9
        say(log, "news")
        finish(log)
        reading.join(10)
        assert seen == ["run.created", "news", "run.finished"]
        assert live.door.asked < 2 + 2 * (time.monotonic() - started)


def test_the_client_that_is_refused_waits_as_it_is_told(book: LogBook, log: EventLog) -> None:
    with serving(book, connection_limit=1) as live, Wire(live.server) as only:
        assert only.get("/hello").status == 200
        finish(log)
        pauses: list[float] = []

        def sleep(seconds: float) -> None:
            pauses.append(seconds)
            if len(pauses) == 3:
                only.close()
                eventually(lambda: live.server.connections == 0)

        with FlowerClient(live.server.url, sleep=sleep) as client:
            assert [event.text for event in client.watch("r1")] == ["run.created", "run.finished"]
        assert len(pauses) == 3
        assert min(pauses) >= 1
