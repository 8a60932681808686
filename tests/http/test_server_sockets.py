from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from flower_http.event_log import EventLog
from flower_http.log_book import LogBook
from flower_http.server import make_server
from flower_http.settings import MAX_BODY_BYTES
from tests.http.event_tools import Serving, Wire, behind, fetch, say, serving
from tests.support import eventually


@pytest.fixture
def live(book: LogBook, log: EventLog) -> Iterator[Serving]:
    with serving(book) as running:
        yield running


def test_any_free_port_may_be_asked_for(live: Serving) -> None:
    assert live.server.port > 0
    assert live.server.url == f"http://127.0.0.1:{live.server.port}"


def test_a_taken_port_is_an_error_at_once(live: Serving) -> None:
    with pytest.raises(OSError, match="in use"):
        make_server(behind, port=live.server.port)


def test_a_name_with_two_addresses_is_one_server() -> None:
    server = make_server(behind, host="localhost")
    assert server.host in ("127.0.0.1", "::1")
    server.close()


def test_a_server_that_never_ran_can_be_closed() -> None:
    server = make_server(behind)
    server.close()
    server.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((server.host, server.port), timeout=5)


def test_replies_do_not_tell_what_serves_them(live: Serving) -> None:
    assert "server" not in fetch(live.server, "/runs/r1/events").headers


@pytest.mark.parametrize(
    ("request_bytes", "status", "slug"),
    [
        (b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % (MAX_BODY_BYTES + 1), 413, "body-too-large"),
        (b"GET /x HTTP/1.1\r\nHost h\r\n\r\n", 400, "bad-request"),
        (b"nonsense\r\n\r\n", 400, "bad-request"),
        (b"GET /x HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n", 501, "bad-request"),
        (b"GET /x HTTP/1.1\r\nX: " + b"y" * 300_000 + b"\r\n\r\n", 431, "bad-request"),
    ],
)
def test_what_no_application_sees_is_refused_as_a_problem_too(
    live: Serving, request_bytes: bytes, status: int, slug: str
) -> None:
    with Wire(live.server) as wire:
        wire.raw(request_bytes)
        reply = wire.reply()
        assert (reply.status, reply.json["type"], reply.json["status"]) == (status, slug, status)
        assert reply.headers["content-type"] == "application/problem+json"
        assert reply.headers["cache-control"] == "no-store"
        assert re.fullmatch(r"[0-9a-f]{32}", reply.headers["x-request-id"])


@pytest.mark.parametrize(
    "framing",
    [
        b"POST /x HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /x HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ],
)
def test_a_request_whose_end_may_be_seen_in_two_places_is_refused_with_all_that_follows(
    live: Serving, framing: bytes
) -> None:
    with Wire(live.server) as wire:
        wire.raw(framing + b"GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n")
        assert (wire.reply().status, wire.at_end()) == (400, True)


@pytest.mark.parametrize(("sent", "echoed"), [("mine-1", True), ("not printable \xe9", False)])
def test_a_refusal_no_application_sees_carries_the_id_of_its_request(live: Serving, sent: str, echoed: bool) -> None:
    with Wire(live.server) as wire:
        wire.raw(f"GET /x HTTP/1.1\r\nX-Request-Id: {sent}\r\nTransfer-Encoding: gzip\r\n\r\n".encode("latin-1"))
        assert (wire.reply().headers["x-request-id"] == sent) is echoed


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (f"Content-Length: {MAX_BODY_BYTES + 1}", 413),
        ("Transfer-Encoding: chunked\r\nContent-Length: 3", 400),
        ("Transfer-Encoding: gzip", 501),
    ],
)
def test_a_body_that_would_be_refused_gets_no_permission_but_the_refusal(live: Serving, head: str, status: int) -> None:
    with Wire(live.server) as wire:
        wire.raw(f"POST /x HTTP/1.1\r\nHost: h\r\n{head}\r\nExpect: 100-continue\r\n\r\n".encode())
        assert (wire.reply().status, wire.at_end()) == (status, True)


def test_a_body_of_one_mebibyte_is_taken(live: Serving) -> None:
    with Wire(live.server) as wire:
        wire.send("/x", method="POST", body=b"b" * MAX_BODY_BYTES)
        assert len(wire.reply().body) == MAX_BODY_BYTES + len("POST /x ")


def test_a_reply_as_large_as_a_page_can_be_needs_no_temporary_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def page(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        start_response("200 OK", [("Content-Length", str(2 * MAX_BODY_BYTES))])
        return [b"p" * (2 * MAX_BODY_BYTES)]

    made: list[str] = []
    real = tempfile.TemporaryFile

    def counted(*args: Any, **named: Any) -> Any:
        made.append("one")
        return real(*args, **named)

    monkeypatch.setattr(tempfile, "TemporaryFile", counted)
    server = make_server(page)
    thread = threading.Thread(target=server.run)
    thread.start()
    reply = fetch(server, "/")
    server.close()
    thread.join(5)
    assert (reply.status, len(reply.body), made) == (200, 2 * MAX_BODY_BYTES, [])


def test_an_application_that_fails_is_a_problem_without_a_trace() -> None:
    def broken(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        raise RuntimeError("secret detail")

    server = make_server(broken)
    thread = threading.Thread(target=server.run)
    thread.start()
    reply = fetch(server, "/")
    server.close()
    thread.join(5)
    assert (reply.status, reply.json["type"]) == (500, "internal-error")
    assert b"secret" not in reply.body


def test_idle_connections_hold_nobody_up(live: Serving) -> None:
    wires = [Wire(live.server) for _ in range(150)]
    assert fetch(live.server, "/hello").status == 200
    for wire in wires:
        wire.close()


def test_closing_finishes_what_is_being_served(book: LogBook) -> None:
    entered, go = threading.Event(), threading.Event()

    def slow(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        entered.set()
        assert go.wait(10)
        start_response("200 OK", [("Content-Length", "4")])
        return [b"done"]

    server = make_server(slow)
    thread = threading.Thread(target=server.run)
    thread.start()
    with Wire(server) as wire:
        wire.send("/")
        assert entered.wait(5)
        closer = threading.Thread(target=server.close, args=(8,))
        closer.start()
        go.set()
        assert wire.reply().body == b"done"
        closer.join(10)
        thread.join(10)
    assert not thread.is_alive()


def test_closing_does_not_wait_for_ever(book: LogBook) -> None:
    entered, go = threading.Event(), threading.Event()

    def stuck(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        entered.set()
        go.wait(20)
        start_response("200 OK", [("Content-Length", "0")])
        return [b""]

    server = make_server(stuck, threads=1)
    thread = threading.Thread(target=server.run)
    thread.start()
    with Wire(server) as wire:
        wire.send("/")
        assert entered.wait(5)
        started = time.monotonic()
        server.close(0.3)
        thread.join(5)
        assert time.monotonic() - started < 4
        assert not thread.is_alive()
    go.set()


def test_without_a_dispatcher_a_few_wait_and_the_others_come_again(book: LogBook, log: EventLog) -> None:
    with serving(book, park=False, threads=3, max_waits=1) as live, Wire(live.server) as held:
        held.send("/runs/r1/events?after=1&wait=20")
        eventually(lambda: log.waiting == 1)
        got = fetch(live.server, "/runs/r1/events?after=1&wait=20").json
        assert (got["events"], got["retry_after_ms"]) == ([], 1000)
        say(log, "news")
        assert [event["text"] for event in held.reply().json["events"]] == ["news"]


def test_without_a_dispatcher_readers_are_let_go_at_the_end(book: LogBook, log: EventLog) -> None:
    with serving(book, park=False) as live, Wire(live.server) as held:
        held.send("/runs/r1/events?after=1&wait=20")
        eventually(lambda: log.waiting == 1)
        live.server.close(5)
        assert held.reply().json["retry_after_ms"] == 1000


ROOT = Path(__file__).parents[2]
MAIN_THREAD = """
    import signal, sys, threading
    from flower_http.auth import Principal
    from flower_http.journal import Journal
    from flower_http.log_book import LogBook
    from flower_http.parking import ParkingDispatcher
    from flower_http.poll import EventsApp
    from flower_http.server import make_server
    from tests.support import eventually

    book = LogBook(Journal(sys.argv[1]))
    book.create({"id": "r1"})
    app = EventsApp(book, lambda environ, scope: Principal("eye", scope, "eye"), None, str)
    dispatcher = ParkingDispatcher(app)
    server = make_server(app, dispatcher=dispatcher)
    signal.signal(signal.SIGTERM, lambda *_: server.close(5))

    def tell():
        eventually(lambda: dispatcher.parked == 1, timeout=20)
        print("held", flush=True)

    threading.Thread(target=tell).start()
    print(server.port, flush=True)
    server.run()
    book.journal.close()
    print("left", flush=True)
"""


def test_a_signal_handler_on_the_serving_thread_may_close(tmp_path: Path) -> None:
    script = textwrap.dedent(MAIN_THREAD)
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "journal.db")], stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        with socket.create_connection(("127.0.0.1", port), timeout=10) as held:
            held.sendall(b"GET /runs/r1/events?after=1&wait=25 HTTP/1.0\r\n\r\n")
            assert process.stdout.readline() == "held\n"
            os.kill(process.pid, signal.SIGTERM)
            reply = b""
            while chunk := held.recv(65536):
                reply += chunk
        assert reply.startswith(b"HTTP/1.0 200 OK")
        assert process.stdout.readline() == "left\n"
        assert process.wait(10) == 0
