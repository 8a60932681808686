from __future__ import annotations

import gc
import inspect
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path

import pytest
from waitress.server import TcpWSGIServer

from flower_http.event_log import EventLog
from flower_http.log_book import LogBook
from tests.http.event_tools import Door, Serving, Wire, fetch, finish, new_run, open_book, say, serving
from tests.support import eventually

HELD = "/runs/r1/events?after=1&wait=20"


@pytest.fixture
def live(book: LogBook, log: EventLog) -> Iterator[Serving]:
    with serving(book) as running:
        yield running


@pytest.fixture
def wire(live: Serving) -> Iterator[Wire]:
    with Wire(live.server) as opened:
        yield opened


def texts(wire: Wire) -> list[str]:
    return [event["text"] for event in wire.reply().json["events"]]


def test_waitress_still_has_what_parking_rests_on() -> None:
    assert {"dispatcher", "_sock", "bind_socket", "sockinfo"} <= set(inspect.signature(TcpWSGIServer).parameters)
    assert version("waitress") == "3.0.2"


def test_a_held_reader_gets_what_is_published(live: Serving, wire: Wire, log: EventLog) -> None:
    wire.send(HELD)
    eventually(lambda: live.parked == 1)
    assert log.waiting == 1
    say(log, "news")
    assert texts(wire) == ["news"]
    assert (live.parked, log.waiting) == (0, 0)


def test_a_reader_with_something_to_read_is_not_held(live: Serving, wire: Wire) -> None:
    assert wire.get("/runs/r1/events?after=0&wait=20").json["next_after"] == 1


def test_a_held_reader_leaves_with_no_events_when_its_time_is_up(wire: Wire) -> None:
    started = time.monotonic()
    got = wire.get("/runs/r1/events?after=1&wait=1.1").json
    assert 1.1 <= time.monotonic() - started < 15
    assert (got["events"], got["next_after"], got["retry_after_ms"], got["final"]) == ([], 1, 0, False)


def test_readers_leave_in_the_order_of_their_deadlines(live: Serving) -> None:
    with Wire(live.server) as slow, Wire(live.server) as fast:
        slow.send(HELD)
        eventually(lambda: live.parked == 1)
        assert fast.get("/runs/r1/events?after=1&wait=0.1").json["events"] == []
        assert live.parked == 1


def test_the_end_of_the_run_lets_readers_go(live: Serving, wire: Wire, log: EventLog) -> None:
    wire.send(HELD)
    eventually(lambda: live.parked == 1)
    finish(log)
    got = wire.reply().json
    assert ([event["text"] for event in got["events"]], got["final"], got["state"]) == (
        ["run.finished"],
        True,
        "succeeded",
    )


def test_a_finished_run_never_waits(live: Serving, wire: Wire, log: EventLog) -> None:
    finish(log)
    started = time.monotonic()
    got = wire.get("/runs/r1/events?after=2&wait=20").json
    assert (got["events"], got["final"]) == ([], True)
    assert time.monotonic() - started < 15


def test_events_of_one_run_do_not_wake_the_readers_of_another(live: Serving, wire: Wire, book: LogBook) -> None:
    wire.send(HELD)
    eventually(lambda: live.parked == 1)
    say(new_run(book, "r2"), "elsewhere")
    assert live.parked == 1


def test_a_held_reader_of_the_last_events_misses_none_published_meanwhile(
    live: Serving, wire: Wire, log: EventLog
) -> None:
    wire.send("/events?tail=0&wait=20")
    eventually(lambda: live.parked == 1)
    say(log, "news")
    assert texts(wire) == ["news"]


def test_held_readers_take_no_thread(book: LogBook, log: EventLog) -> None:
    with serving(book, threads=1) as live, ExitStack() as stack:
        before = threading.active_count()
        wires = [stack.enter_context(Wire(live.server)) for _ in range(50)]
        for wire in wires:
            wire.send(HELD)
        eventually(lambda: live.parked == 50)
        assert threading.active_count() == before
        assert fetch(live.server, "/hello").body == b"GET /hello "
        say(log, "news")
        assert [texts(wire) for wire in wires] == [["news"]] * 50


def test_a_connection_that_closes_is_forgotten_at_once(live: Serving, log: EventLog) -> None:
    with Wire(live.server) as wire:
        wire.send(HELD)
        eventually(lambda: live.parked == 1)
    eventually(lambda: live.parked == 0)
    assert log.waiting == 0


def test_readers_that_come_and_go_leave_nothing_behind(live: Serving, wire: Wire, log: EventLog) -> None:
    turns = 150
    for turn in range(1, turns + 1):
        wire.send(f"/runs/r1/events?after={turn}&wait=20")
        eventually(lambda: live.parked == 1)
        say(log, "again")
        assert wire.reply().status == 200
    gc.collect()  # what earlier tests have left
    remembered = sum(type(thing).__name__ == "_Parked" for thing in gc.get_objects())
    assert remembered < 100


def test_readers_beyond_the_bound_are_told_to_come_again(book: LogBook, log: EventLog) -> None:
    with serving(book, max_parked=2) as live, ExitStack() as stack:
        wires = [stack.enter_context(Wire(live.server)) for _ in range(2)]
        for wire in wires:
            wire.send(HELD)
        eventually(lambda: live.parked == 2)
        got = fetch(live.server, HELD).json
        assert (got["events"], got["retry_after_ms"]) == ([], 1000)
        say(log, "news")
        assert [texts(wire) for wire in wires] == [["news"]] * 2


# ---- who may wait


def test_who_may_not_read_is_refused_and_never_held(book: LogBook, log: EventLog) -> None:
    with serving(book, door=Door(needs_token=True)) as live:
        assert fetch(live.server, HELD).status == 401
        assert live.parked == 0


def test_a_revoked_reader_is_let_go_and_the_others_stay(book: LogBook, log: EventLog) -> None:
    with serving(book, door=Door(needs_token=True)) as live, Wire(live.server) as wire:
        assert live.dispatcher is not None
        wire.send(HELD, headers="Authorization: Bearer good\r\n")
        eventually(lambda: live.parked == 1)
        asked = live.door.asked
        live.dispatcher.recheck()
        eventually(lambda: live.door.asked > asked and live.parked == 1)
        live.door.revoked = True
        live.dispatcher.recheck()
        reply = wire.reply()
        assert (reply.status, reply.json["type"]) == (401, "unauthorized")
        assert live.parked == 0


def test_a_token_revoked_unnoticed_gives_no_event_away(book: LogBook, log: EventLog) -> None:
    with serving(book, door=Door(needs_token=True)) as live, Wire(live.server) as wire:
        wire.send(HELD, headers="Authorization: Bearer good\r\n")
        eventually(lambda: live.parked == 1)
        live.door.revoked = True
        say(log, "secret")
        reply = wire.reply()
        assert reply.status == 401
        assert b"secret" not in reply.body


# ---- HTTP around it


def test_a_connection_serves_many_requests_held_or_not(live: Serving, wire: Wire, log: EventLog) -> None:
    for number in range(2, 6):
        assert wire.get("/hello").body == b"GET /hello "
        wire.send(f"/runs/r1/events?after={number - 1}&wait=20")
        eventually(lambda: live.parked == 1)
        say(log, f"event {number}")
        assert texts(wire) == [f"event {number}"]


def test_pipelined_requests_are_answered_in_order(live: Serving, wire: Wire, log: EventLog) -> None:
    requests = [HELD, "/first", "/runs/r1/events?after=2&wait=20", "/second"]
    wire.raw("".join(f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n" for target in requests).encode())
    eventually(lambda: live.parked == 1)
    say(log, "one")
    assert texts(wire) == ["one"]
    assert wire.reply().body == b"GET /first "
    eventually(lambda: live.parked == 1)
    say(log, "two")
    assert texts(wire) == ["two"]
    assert wire.reply().body == b"GET /second "


def test_head_is_never_held_and_has_no_body(wire: Wire) -> None:
    wire.send(HELD, method="HEAD")
    head = wire.reply(head=True)
    assert (head.status, int(head.headers["content-length"]) > 0) == (200, True)
    assert wire.get("/after").body == b"GET /after "


def test_requests_with_a_body_work(live: Serving, wire: Wire, log: EventLog) -> None:
    wire.send("/runs/r1/answer", method="POST", body=b"ask_id=q1&text=yes")
    assert wire.reply().body == b"POST /runs/r1/answer ask_id=q1&text=yes"
    wire.send(HELD, body=b"a body nobody needs")
    eventually(lambda: live.parked == 1)
    say(log, "news")
    assert texts(wire) == ["news"]
    wire.raw(b"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n")
    assert wire.reply().body == b"POST /x abc"


def test_a_body_that_waits_for_permission_gets_it(wire: Wire) -> None:
    wire.raw(b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n")
    assert wire.reply().status == 100
    wire.raw(b"abc")
    assert wire.reply().body == b"POST /x abc"


def test_an_old_client_is_held_too_and_its_connection_closed(live: Serving, wire: Wire, log: EventLog) -> None:
    wire.raw(f"GET {HELD} HTTP/1.0\r\n\r\n".encode())
    eventually(lambda: live.parked == 1)
    say(log, "news")
    assert texts(wire) == ["news"]
    with pytest.raises(ConnectionError):
        wire.reply()


# ---- the end of the server


def test_everybody_held_is_answered_in_one_go_and_the_others_in_between(book: LogBook, log: EventLog) -> None:
    with serving(book, threads=1) as live, ExitStack() as stack:
        wires = [stack.enter_context(Wire(live.server)) for _ in range(300)]
        for wire in wires:
            wire.send(HELD)
        eventually(lambda: live.parked == 300)
        asked = live.door.asked
        say(log, "news")
        assert fetch(live.server, "/hello").status == 200
        assert {wire.reply().body for wire in wires} == {log.page(1)}
        assert live.door.asked - asked == 300  # everybody's token is looked at again, once


def test_the_server_leaves_after_answering_everybody(book: LogBook, log: EventLog) -> None:
    with serving(book) as live, ExitStack() as stack:
        wires = [stack.enter_context(Wire(live.server)) for _ in range(20)]
        for wire in wires:
            wire.send(HELD)
        eventually(lambda: live.parked == 20)
        started = time.monotonic()
        live.server.close(5)
        live.thread.join(5)
        assert time.monotonic() - started < 4.5
        for wire in wires:
            got = wire.reply().json
            assert (got["events"], got["next_after"], got["retry_after_ms"]) == ([], 1, 1000)
        with pytest.raises(ConnectionRefusedError):
            Wire(live.server)


def test_nobody_is_held_once_the_server_is_leaving(live: Serving, wire: Wire) -> None:
    assert live.dispatcher is not None
    live.dispatcher.drain(5)
    got = wire.get(HELD).json
    assert (got["events"], got["retry_after_ms"]) == ([], 1000)


def test_publishing_and_deadlines_race_without_losing_a_reply(live: Serving, log: EventLog) -> None:
    stop = threading.Event()
    failures: list[object] = []

    def read() -> None:
        after = 1
        try:
            with Wire(live.server) as wire:
                while not stop.is_set():
                    got = wire.get(f"/runs/r1/events?after={after}&wait=0.01").json
                    expected = list(range(after + 1, after + 1 + len(got["events"])))
                    if [event["seq"] for event in got["events"]] != expected:
                        failures.append(got)
                    after = got["next_after"]
        except Exception as error:
            failures.append(error)

    readers = [threading.Thread(target=read) for _ in range(8)]
    for reader in readers:
        reader.start()
    for _ in range(150):
        say(log, "x")
    stop.set()
    for reader in readers:
        reader.join(10)
    assert failures == []
    assert live.parked == 0


# ---- served on the thread of the sockets


@pytest.mark.parametrize("target", ["/runs/r1/events?after={}&wait=20", "/events?after={}&wait=20"])
def test_readers_are_held_whichever_thread_looked_at_them(
    live: Serving, wire: Wire, log: EventLog, target: str
) -> None:
    for number in range(1, 5):
        wire.send(target.format(number))
        eventually(lambda: live.parked == 1)
        say(log, "news")
        assert texts(wire) == ["news"]


def test_a_page_in_memory_needs_no_worker(book: LogBook, log: EventLog) -> None:
    with serving(book, threads=1) as live, Wire(live.server) as busy, Wire(live.server) as reader:
        assert live.dispatcher is not None
        live.dispatcher.set_thread_count(0)
        busy.send("/hello")  # now waits for a worker that is not there
        eventually(lambda: len(live.dispatcher.queue) == 1 if live.dispatcher else False)
        assert reader.get("/runs/r1/events").json["next_after"] == 1
        reader.send(HELD)
        eventually(lambda: live.parked == 1)
        live.dispatcher.set_thread_count(1)
        say(log, "news")
        assert texts(reader) == ["news"]
        assert busy.reply().body == b"GET /hello "


def test_what_needs_the_disk_or_is_refused_is_left_to_a_worker(tmp_path: Path) -> None:
    with open_book(tmp_path / "other.db", ring=2) as book:
        log = new_run(book)
        say(log, *"abcd")
        with serving(book, threads=1) as live:
            assert live.dispatcher is not None
            for target, status in (
                ("/runs/r1/events?after=0", 200),
                ("/runs/nobody/events", 404),
                ("/runs/r1/events?after=x", 400),
                ("/runs/r1/events?after=99", 409),
            ):
                assert fetch(live.server, target).status == status


def test_a_client_that_asks_for_much_and_reads_nothing_holds_up_nobody_else(book: LogBook, log: EventLog) -> None:
    say(log, *["x" * 250_000] * 4)
    with serving(book, threads=2) as live, Wire(live.server) as greedy:
        asked = b"GET /runs/r1/events HTTP/1.1\r\nHost: localhost\r\n\r\n"
        greedy.raw(asked * 60)
        for _ in range(20):
            assert fetch(live.server, "/runs/r1/events?after=4").status == 200
            assert fetch(live.server, "/hello").status == 200
        for _ in range(60):
            assert greedy.reply().json["next_after"] == 5
