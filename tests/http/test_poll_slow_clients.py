"""Clients that are slow, greedy or dead: each is let go in time, costs little, and holds up nobody else."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
import requests

from flower_http.channel import Deadlines
from flower_http.event_log import EventLog
from flower_http.log_book import LogBook
from tests.http.event_tools import Serving, Wire, fetch, say, serving
from tests.support import eventually

MIB = 1024 * 1024
PAGE = b"GET /runs/r1/events HTTP/1.1\r\nHost: localhost\r\n\r\n"
#: Half a second for each of them; whoever drips a byte every tenth of it is never idle.
SHORT = Deadlines(idle=0.5, head=0.5, body=0.5, stall=0.5, linger=0.5)
DRIP_S = 0.05


@pytest.fixture
def large(log: EventLog) -> EventLog:
    """A run whose events fill a page of about 1 MiB."""
    say(log, *["x" * 250_000] * 4)
    return log


@pytest.fixture
def hasty(book: LogBook, log: EventLog) -> Iterator[Serving]:
    with serving(book, deadlines=SHORT) as running:
        yield running


def drip(wire: Wire, data: bytes, gone: threading.Event) -> None:
    for number in range(len(data)):
        try:
            wire.raw(data[number : number + 1])
        except OSError:
            return
        if gone.wait(DRIP_S):
            return


@pytest.mark.parametrize(
    ("at_once", "dripped", "part"),
    [
        (b"GET /x HTTP/1.1\r\n", b"X-Slow: " + b"y" * 200, "head"),
        (b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n", b"z" * 200, "body"),
        (b"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nz\r\n" * 40, "body"),
    ],
)
def test_a_request_that_drips_in_is_refused_when_its_time_is_up(
    hasty: Serving, at_once: bytes, dripped: bytes, part: str
) -> None:
    gone = threading.Event()
    with Wire(hasty.server) as wire:
        wire.raw(at_once)
        dripping = threading.Thread(target=drip, args=(wire, dripped, gone))
        dripping.start()
        started = time.monotonic()
        reply = wire.reply()
        assert (reply.status, reply.json["type"]) == (408, "request-timeout")
        assert part in reply.json["detail"]
        assert 0.4 < time.monotonic() - started < 10
        assert hasty.server.refused == 1
        gone.set()
        dripping.join(5)
    eventually(lambda: hasty.server.connections == 0)


def test_a_refused_client_that_goes_on_dripping_is_cut(hasty: Serving) -> None:
    gone = threading.Event()
    with Wire(hasty.server) as wire:
        wire.raw(b"nonsense\r\n\r\n")
        assert wire.reply().status == 400
        dripping = threading.Thread(target=drip, args=(wire, b"x" * 400, gone))
        dripping.start()
        eventually(lambda: hasty.server.connections == 0)
        gone.set()
        dripping.join(5)


def test_a_connection_that_says_nothing_is_closed(hasty: Serving) -> None:
    with Wire(hasty.server) as silent, Wire(hasty.server) as used:
        assert used.get("/hello").status == 200
        assert silent.at_end()
        assert used.at_end()


def test_a_held_reader_is_not_taken_for_an_idle_one(hasty: Serving) -> None:
    with Wire(hasty.server) as wire:
        assert wire.get("/runs/r1/events?after=1&wait=1.5").status == 200


def test_a_request_is_not_late_because_the_one_before_it_was_held(hasty: Serving, log: EventLog) -> None:
    with Wire(hasty.server) as wire:
        wire.raw(b"GET /runs/r1/events?after=1&wait=1.2 HTTP/1.1\r\nHost: h\r\n\r\nGET /hello HTTP/1.1\r\n")
        assert wire.reply().json["events"] == []
        wire.raw(b"Host: h\r\n\r\n")
        assert wire.reply().body == b"GET /hello "


def test_half_sent_requests_hold_nobody_up(book: LogBook, log: EventLog) -> None:
    halves = (b"GET /runs/r1/ev", PAGE[:-2], b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nhalf")
    with serving(book) as live, ExitStack() as stack:
        for number in range(120):
            stack.enter_context(Wire(live.server)).raw(halves[number % 3])
        eventually(lambda: live.server.connections == 120)
        started = time.monotonic()
        for _ in range(20):
            assert fetch(live.server, "/runs/r1/events").status == 200
            assert fetch(live.server, "/hello").status == 200
        assert time.monotonic() - started < 10  # they are let go after 15 s at the earliest


def test_five_hundred_idle_connections_hold_nobody_up(book: LogBook, log: EventLog) -> None:
    with serving(book) as live, ExitStack() as stack:
        for _ in range(500):
            stack.enter_context(Wire(live.server))
        eventually(lambda: live.server.connections == 500)
        started = time.monotonic()
        for _ in range(20):
            assert fetch(live.server, "/runs/r1/events").status == 200
            assert fetch(live.server, "/hello").status == 200
        assert time.monotonic() - started < 10  # they are let go after 15 s at the earliest


def test_a_head_of_100_000_bytes_is_refused(hasty: Serving) -> None:
    with Wire(hasty.server) as wire:
        wire.raw(b"GET /x HTTP/1.1\r\nHost: h\r\nX: " + b"y" * 100_000 + b"\r\n\r\n")
        reply = wire.reply()
        assert (reply.status, reply.headers["content-type"]) == (431, "application/problem+json")


@pytest.mark.parametrize(
    "framing", [b"Content-Length: 10000000\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n989680\r\n"]
)
def test_a_refused_client_may_send_to_the_end_and_learns_why(hasty: Serving, framing: bytes) -> None:
    with Wire(hasty.server) as wire:
        wire.raw(b"POST /x HTTP/1.1\r\nHost: h\r\n" + framing)
        for _ in range(100):
            wire.raw(b"b" * 100_000)
        assert (wire.reply().status, wire.at_end()) == (413, True)
    eventually(lambda: hasty.server.connections == 0)


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_of_ten_megabytes_is_refused_in_words_while_it_is_still_being_sent(
    hasty: Serving, chunked: bool
) -> None:
    body = b"b" * 10_000_000
    sent = iter([body[:MIB] for _ in range(10)]) if chunked else body
    reply = requests.post(f"{hasty.server.url}/x", data=sent, timeout=10)
    assert (reply.status_code, reply.json()["type"]) == (413, "body-too-large")
    eventually(lambda: hasty.server.connections == 0)


def test_who_asks_for_much_and_reads_nothing_costs_one_page_and_is_let_go(book: LogBook, large: EventLog) -> None:
    with serving(book, deadlines=Deadlines(stall=0.5)) as live, Wire(live.server) as greedy:
        greedy.raw(PAGE * 100)
        most = 0

        def closed() -> bool:
            nonlocal most
            most = max(most, live.server.unsent)
            assert fetch(live.server, "/runs/r1/events?after=5").status == 200
            return most > 0 and live.server.unsent == 0 and live.server.connections <= 1

        eventually(closed)
        assert most < 1.5 * MIB


def test_who_reads_a_byte_at_a_time_is_let_go_however_busy_it_looks(book: LogBook, large: EventLog) -> None:
    with serving(book, deadlines=Deadlines(stall=0.5)) as live, socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect((live.server.host, live.server.port))
        slow.sendall(PAGE * 8)
        eventually(lambda: live.server.unsent)
        slow.settimeout(DRIP_S)

        def read_one_and_look() -> bool:
            slow.recv(1)
            time.sleep(DRIP_S)
            return live.server.connections == 0

        eventually(read_one_and_look, timeout=8)


def test_who_reads_slowly_but_steadily_gets_all_of_it(book: LogBook, large: EventLog) -> None:
    with serving(book, deadlines=Deadlines(stall=0.4)) as live, Wire(live.server) as steady:
        steady.raw(PAGE * 12)
        for _ in range(12):
            assert steady.reply().json["next_after"] == 5
            time.sleep(0.1)  # the client's own pace, not a wait for anything


def test_workers_are_never_taken_by_those_who_do_not_read(book: LogBook, large: EventLog) -> None:
    with serving(book, threads=2) as live, ExitStack() as stack:
        for _ in range(6):
            # Which run that is may take the disk to find out, so workers serve it.
            stack.enter_context(Wire(live.server)).raw(PAGE.replace(b"/runs/r1/", b"/") * 60)
        eventually(lambda: live.server.unsent)
        for _ in range(40):
            assert fetch(live.server, "/hello").status == 200
        assert live.server.unsent < 6 * 1.5 * MIB
