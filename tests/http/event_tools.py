"""Real journals, real servers and a plain HTTP client, for the tests of events."""

from __future__ import annotations

import json
import socket
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flower_http.auth import Principal
from flower_http.errors import Problem
from flower_http.event_log import EventLog
from flower_http.journal import Journal
from flower_http.log_book import LogBook
from flower_http.parking import ParkingDispatcher
from flower_http.poll import EventsApp, WSGIApp
from flower_http.server import Server, make_server

Json = dict[str, Any]


@contextmanager
def open_book(
    path: Path, *, ring: int = 2000, ring_bytes: int = 16 << 20, keep_events: int | None = None, **journal: Any
) -> Iterator[LogBook]:
    """A log book over the journal at ``path``, closed in the end."""
    opened = Journal(path, **journal)
    try:
        yield LogBook(opened, ring, ring_bytes=ring_bytes, keep_events=keep_events)
    finally:
        opened.close()


def new_run(book: LogBook, run_id: str = "r1", **row: Any) -> EventLog:
    return book.create({"id": run_id, "flow": "starter", "task": "count", "workspace": "w", "lang": "en", **row})


def say(log: EventLog, *texts: str) -> None:
    """Append texts and wait until they are kept."""
    for future in [log.append("text", text) for text in texts]:
        future.result(10)


def finish(log: EventLog, state: str = "succeeded", **payload: Any) -> None:
    log.append("system", "run.finished", payload={"state": state, **payload}).result(10)


def strictly(body: bytes) -> Any:
    """``body`` as JSON, refusing what Python takes and other readers do not."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    return json.loads(body.decode("utf-8", "strict"), parse_constant=refuse)


def page(log: EventLog, after: int = 0, limit: int = 100, **how: Any) -> Json:
    found: Json = strictly(log.page(after, limit, **how))
    return found


@contextmanager
def disk_refusing(path: Path) -> Iterator[None]:
    """While this is open the journal at ``path`` takes no writes: another connection holds the write lock."""
    other = sqlite3.connect(path, isolation_level=None, timeout=30)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.execute("ROLLBACK")
        other.close()


class Door:
    """A guard whose tokens can be revoked: ``Authorization: Bearer good`` passes as long as it is open."""

    def __init__(self, *, needs_token: bool = False) -> None:
        self.needs_token = needs_token
        self.revoked = False
        self.asked = 0

    def __call__(self, environ: Mapping[str, Any], scope: str) -> Principal:
        assert scope == "read"
        self.asked += 1
        if self.needs_token and (self.revoked or environ.get("HTTP_AUTHORIZATION") != "Bearer good"):
            raise Problem(401, "unauthorized", "no such token", headers={"WWW-Authenticate": "Bearer"})
        return Principal("eye", "read", "eye")


def behind(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """The application behind the events: says what it was asked, and echoes the body."""
    body = environ["wsgi.input"].read()
    text = f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']} ".encode() + body
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(text)))])
    return [b""] if environ["REQUEST_METHOD"] == "HEAD" else [text]


def only_run(run: str | None) -> str:
    return run if run is not None else "r1"


@dataclass
class Serving:
    """A running server and its parts."""

    server: Server
    dispatcher: ParkingDispatcher | None
    door: Door
    thread: threading.Thread

    @property
    def parked(self) -> int:
        assert self.dispatcher is not None
        return self.dispatcher.parked


@contextmanager
def serving(
    book: LogBook,
    *,
    threads: int = 2,
    park: bool = True,
    max_parked: int = 5000,
    max_waits: int = 2,
    max_queued: int = 1000,
    door: Door | None = None,
    fallback: WSGIApp = behind,
    **settings: Any,
) -> Iterator[Serving]:
    """A real server on a free port of this machine; ``settings`` go to make_server."""
    guard = door or Door()
    app = EventsApp(book, guard, fallback, only_run, max_waits=max_waits)
    dispatcher = ParkingDispatcher(app, max_parked=max_parked, max_queued=max_queued) if park else None
    server = make_server(app, port=0, threads=threads, dispatcher=dispatcher, **settings)
    thread = threading.Thread(target=server.run, name="loop")
    thread.start()
    try:
        yield Serving(server, dispatcher, guard, thread)
    finally:
        server.close(2.0)
        thread.join(10)
        assert not thread.is_alive()


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Json:
        found: Json = strictly(self.body)
        return found


class Wire:
    """One connection, used for any number of requests; replies are read when asked for."""

    def __init__(self, server: Server, timeout: float = 15.0) -> None:
        self._socket = socket.create_connection((server.host, server.port), timeout=timeout)
        self._stream = self._socket.makefile("rb")

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._stream.close()
        self._socket.close()

    def send(self, target: str, *, method: str = "GET", body: bytes = b"", headers: str = "") -> None:
        length = f"Content-Length: {len(body)}\r\n" if body or method == "POST" else ""
        self.raw(f"{method} {target} HTTP/1.1\r\nHost: localhost\r\n{headers}{length}\r\n".encode() + body)

    def raw(self, data: bytes) -> None:
        self._socket.sendall(data)

    def reply(self, *, head: bool = False) -> Reply:
        status = self._stream.readline()
        if not status:
            raise ConnectionError("closed by the server")
        headers: dict[str, str] = {}
        while (line := self._stream.readline()) not in (b"\r\n", b""):
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.lower()] = value.strip()
        length = 0 if head else int(headers.get("content-length", "0"))
        return Reply(int(status.split()[1]), headers, self._stream.read(length))

    def at_end(self) -> bool:
        """Whether the server has closed the connection and sent nothing more; waits until it does either."""
        return self._stream.read(1) == b""

    def get(self, target: str, *, headers: str = "") -> Reply:
        self.send(target, headers=headers)
        return self.reply()


def fetch(server: Server, target: str, *, headers: str = "") -> Reply:
    """One request on a connection of its own."""
    with Wire(server) as wire:
        return wire.get(target, headers=headers)
