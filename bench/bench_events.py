"""How fast events are served, and what waiting readers cost. Ends by itself within a minute.

    python bench/bench_events.py

The peer of the first two parts is what one would write first: a Flask view that calls json.dumps over a list of events,
behind waitress with the same number of threads. Both have a process of their own and are measured in turn.

1. A page of 100 events out of the application: the WSGI callable alone, without sockets.
2. The same page over a kept-open connection, with the processor time that each server spent on it.
3. 1000 readers waiting on 4 threads, each figure beside its floor or peer: from append to commit (floor: one commit of
   the same event to a bare SQLite file), from append to the last reply (floor: a loop that writes ready-made replies of
   that size into 1000 connections), and the memory they take (peer: 1000 threads that wait).

Absolute numbers depend on the machine and on what else it does; the ratios are what is claimed.
"""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from flask import Flask, Response, request
from waitress import create_server

from flower_http.journal import Journal
from flower_http.log_book import LogBook
from flower_http.parking import ParkingDispatcher
from flower_http.poll import EventsApp
from flower_http.server import make_server

EVENTS, PAGE, THREADS, READERS = 2000, 100, 4, 1000
ROUNDS, CALLS, REQUESTS = 5, 300, 400
TEXT = "The tests pass; two of them were flaky because of a shared temporary directory. " * 3


def payload(number: int) -> dict[str, Any]:
    return {
        "id": f"toolu_{number:08}",
        "context": 41_000 + number,
        "subagent": "coder",
        "parent_tool_use_id": "toolu_1",
    }


# ---- the two applications


def flower_app(folder: str) -> tuple[EventsApp, LogBook]:
    book = LogBook(Journal(Path(folder) / "journal.db"))
    log = book.create({"id": "r1", "flow": "starter", "task": "bench"})
    futures = [log.append("text", TEXT, payload=payload(number)) for number in range(EVENTS)]
    futures[-1].result()
    return EventsApp(book, lambda environ, scope: None, lambda environ, start: [], str), book


def peer_app() -> Flask:
    events = [
        {"seq": n, "at": "2026-01-31T12:00:00.000Z", "kind": "text", "text": TEXT, "tool": "", "payload": payload(n)}
        for n in range(1, EVENTS + 1)
    ]
    app = Flask(__name__)

    @app.get("/runs/<run>/events")
    def read(run: str) -> Response:
        after, limit = int(request.args.get("after", "0")), int(request.args.get("limit", "100"))
        found = events[after : after + limit]
        body = {"run": run, "after": after, "events": found, "next_after": after + len(found), "last_seq": len(events)}
        return Response(json.dumps(body), content_type="application/json")

    return app


# ---- as child processes: each answers one word per line


def serve(words: dict[str, Callable[[], object]], port: int) -> None:
    print(port, flush=True)
    for line in sys.stdin:
        print(words[line.strip()](), flush=True)


def serve_flower() -> None:
    with tempfile.TemporaryDirectory() as folder:
        app, book = flower_app(folder)
        log = book.get("r1")
        if log is None:
            raise SystemExit("the run is gone")
        dispatcher = ParkingDispatcher(app)
        server = make_server(app, threads=THREADS, dispatcher=dispatcher)
        threading.Thread(target=server.run, daemon=True).start()
        words: dict[str, Callable[[], object]] = {
            "call": lambda: time_calls(app),
            "cpu": time.process_time,
            "append": lambda: log.append("text", TEXT).result(),
            "parked": lambda: dispatcher.parked,
            "memory": resident_mb,
            "bare": lambda: time_bare_commit(folder),
            "threads": memory_of_threads,
        }
        serve(words, server.port)
        server.close(1)
        book.journal.close()


def serve_peer() -> None:
    app = peer_app()
    server = create_server(app, host="127.0.0.1", port=0, threads=THREADS)
    threading.Thread(target=server.run, daemon=True).start()
    serve({"call": lambda: time_calls(app), "cpu": time.process_time}, int(server.effective_port))


def time_calls(app: Callable[..., Any]) -> float:
    """Microseconds per page, out of the WSGI callable."""
    environ = {
        "REQUEST_METHOD": "GET",
        "PATH_INFO": "/runs/r1/events",
        "SCRIPT_NAME": "",
        "QUERY_STRING": f"after=500&limit={PAGE}",
        "SERVER_NAME": "localhost",
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "wsgi.url_scheme": "http",
    }
    started = time.perf_counter()
    for _ in range(CALLS):
        reply = app(dict(environ), lambda status, headers, info=None: None)
        body = b"".join(reply)
        if body.count(b'"seq"') != PAGE:
            raise SystemExit("a page is not complete")
        if hasattr(reply, "close"):
            reply.close()
    return (time.perf_counter() - started) / CALLS * 1e6


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024 / 1024


def time_bare_commit(folder: str) -> float:
    """Milliseconds for one event into a SQLite file as safe as the journal; median of 20."""
    db = sqlite3.connect(Path(folder) / "bare.db", isolation_level=None)
    db.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE IF NOT EXISTS events (body)")
    times = []
    for _ in range(20):
        started = time.perf_counter()
        db.execute("INSERT INTO events VALUES (?)", (TEXT,))
        times.append((time.perf_counter() - started) * 1000)
    db.close()
    return statistics.median(times)


def memory_of_threads() -> float:
    """Megabytes that as many threads take as there are readers, each waiting for the same thing."""
    before, go = resident_mb(), threading.Event()
    waiting = [threading.Thread(target=go.wait) for _ in range(READERS)]
    for thread in waiting:
        thread.start()
    taken = resident_mb() - before
    go.set()
    for thread in waiting:
        thread.join()
    return taken


class Child:
    """One of the servers, as a process."""

    def __init__(self, what: str) -> None:
        command = [sys.executable, str(Path(__file__)), what]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.port = int(self._line())

    def ask(self, word: str) -> float:
        print(word, file=self.process.stdin, flush=True)
        return float(self._line())

    def _line(self) -> str:
        if self.process.stdout is None:
            raise SystemExit("no pipe to the server")
        return self.process.stdout.readline()


@contextmanager
def child(what: str) -> Iterator[Child]:
    started = Child(what)
    try:
        yield started
    finally:
        started.process.communicate(timeout=20)


# ---- the measurements


def request_pages(port: int) -> float:
    """Microseconds per page over one kept-open connection."""
    asked = [
        f"GET /runs/r1/events?after={n * PAGE}&limit={PAGE} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        for n in range(18)
    ]
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        stream = connection.makefile("rb")
        started = time.perf_counter()
        for number in range(REQUESTS):
            connection.sendall(asked[number % len(asked)])
            length = 0
            while (line := stream.readline()) != b"\r\n":
                if line.lower().startswith(b"content-length:"):
                    length = int(line[15:])
            stream.read(length)
        return (time.perf_counter() - started) / REQUESTS * 1e6


def show(title: str, ours: list[float], theirs: list[float]) -> None:
    mine, other = statistics.median(ours), statistics.median(theirs)
    print(f"  {title:<30} flower {mine:6.0f} µs   Flask + json.dumps {other:6.0f} µs   ratio {other / mine:5.1f}")


def compare_pages(flower: Child, peer: Child) -> None:
    calls: tuple[list[float], list[float]] = ([], [])
    replies: tuple[list[float], list[float]] = ([], [])
    spent: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS):
        for place, server in enumerate((flower, peer)):
            calls[place].append(server.ask("call"))
            before = server.ask("cpu")
            replies[place].append(request_pages(server.port))
            spent[place].append((server.ask("cpu") - before) / REQUESTS * 1e6)
    print(f"a page of {PAGE} events, medians of {ROUNDS} rounds")
    show("out of the application", *calls)
    show("over a connection", *replies)
    show("  processor time of the server", *spent)


def write_replies(size: int) -> float:
    """Milliseconds until the last of 1000 connections has read a ready-made reply of ``size`` bytes."""
    reply = b"x" * size
    with socket.create_server(("127.0.0.1", 0), backlog=READERS) as listener:
        readers, writers = [], []
        for _ in range(READERS):
            readers.append(socket.create_connection(listener.getsockname(), timeout=30))
            writers.append(listener.accept()[0])
    started = time.perf_counter()
    sending = threading.Thread(target=lambda: [writer.sendall(reply) for writer in writers])
    sending.start()
    for reader in readers:
        reader.recv(65536)
    took = (time.perf_counter() - started) * 1000
    sending.join()
    for end in (*readers, *writers):
        end.close()
    return took


def wait_together(flower: Child) -> None:
    before = flower.ask("memory")
    last = int(flower.ask("append"))
    readers = [socket.create_connection(("127.0.0.1", flower.port), timeout=30) for _ in range(READERS)]
    asked = f"GET /runs/r1/events?after={last}&wait=25 HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    for reader in readers:
        reader.sendall(asked)
    while flower.ask("parked") < READERS:
        time.sleep(0.01)
    held = flower.ask("memory")
    started = time.perf_counter()
    flower.ask("append")
    committed = time.perf_counter()
    times, size = [], 0
    for reader in readers:
        reply = reader.recv(65536)
        if b"200 OK" not in reply:
            raise SystemExit("a reader got no reply")
        times.append((time.perf_counter() - started) * 1000)
        size = len(reply)
        reader.close()
    threads, bare, written = flower.ask("threads"), flower.ask("bare"), write_replies(size)
    print(f"{READERS} readers waiting on {THREADS} threads")
    print(f"  memory they take   flower {held - before:6.1f} MB   {READERS} waiting threads {threads:6.1f} MB")
    print(f"  append to commit   flower {(committed - started) * 1000:6.1f} ms   a bare SQLite commit {bare:6.1f} ms")
    print(f"  append to last     flower {times[-1]:6.1f} ms   a loop of ready-made replies {written:6.1f} ms")
    print(f"  append to first    flower {times[0]:6.1f} ms")


def main() -> None:
    roles = {"flower": serve_flower, "peer": serve_peer}
    if len(sys.argv) > 1:
        roles[sys.argv[1]]()
        return
    with child("flower") as flower, child("peer") as peer:
        compare_pages(flower, peer)
        wait_together(flower)


if __name__ == "__main__":
    main()
