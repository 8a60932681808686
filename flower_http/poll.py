"""The events endpoints as a plain WSGI callable, in front of Flask: a page of events costs no framework.

It answers ``GET`` and ``HEAD`` of ``/runs/{id}/events`` and ``/events``; everything else goes to the application
behind it.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from flower_http.access import log_reply
from flower_http.auth import NOBODY, Principal
from flower_http.errors import CONTENT_TYPE, Problem, unknown_run
from flower_http.event_log import EventLog
from flower_http.headers import ALWAYS, REQUEST_ID, request_id
from flower_http.log_book import LogBook
from flower_http.pacing import Pacer
from flower_http.projection import RunView
from flower_http.query import EventsQuery, parse_query

Environ = dict[str, Any]
StartResponse = Callable[..., Any]
WSGIApp = Callable[[Environ, StartResponse], Iterable[bytes]]
#: Who makes a request. Raises Problem when they may not do what needs the scope.
Guard = Callable[[Environ, str], Principal]
#: The run a root verb means, by id or None. Raises Problem.
Resolve = Callable[[str | None], str]
#: Told of every reply: the template of its address, method, status, and the seconds it took.
Observe = Callable[[str, str, int, float], None]

#: What a reader should wait at least who wanted to be held and could not be, in milliseconds.
NOT_HELD_MS: Final = 1000
#: How many readers may wait in worker threads where no dispatcher can park them; must leave threads for others.
MAX_WAITS: Final = 2
#: How often such a reader's token, connection and server are looked at, in seconds.
_LOOK_S: Final = 0.25

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Reading:
    """A request for events, checked: which log, from where, how much, and how long it may be held (seconds)."""

    log: EventLog
    after: int
    limit: int
    wait: float
    skip_gap: bool

    @property
    def ready(self) -> bool:
        """Whether it can be answered now: with events, with the end of the run, or with an error."""
        view = self.log.view
        return view.last_seq != self.after or view.final


@dataclass(frozen=True)
class Held:
    """What a dispatcher has done for a reader already.

    ``waited`` tells whether it was held for as long as it asked, ``checked`` whether its token was looked at just now.
    """

    reading: Reading
    waited: bool
    checked: bool = False


#: Where in the environ a dispatcher leaves what it knows of a request, a Held or a Problem; then nothing waits.
HELD: Final = "flower.held"
#: Where the name of who makes the request is kept. No header can get there: those are called HTTP_….
_NAME: Final = "flower.name"


@dataclass(frozen=True)
class _Page:
    """A page, and all it was made from. ``view`` is replaced by another object with every change of a run."""

    view: RunView
    first_seq: int
    asked: tuple[int, int, bool, int]
    body: bytes


class EventsApp:
    """Serves events from ``book`` to whom ``guard`` lets pass, and hands everything else to ``fallback``.

    ``resolve`` finds the run meant by ``/events``. ``max_waits`` bounds the readers that wait in worker threads when
    the server has no dispatcher that parks them. ``observe`` is told of every reply made here.
    """

    def __init__(
        self,
        book: LogBook,
        guard: Guard,
        fallback: WSGIApp,
        resolve: Resolve,
        *,
        max_waits: int = MAX_WAITS,
        observe: Observe | None = None,
    ) -> None:
        self._book = book
        self._guard = guard
        self._fallback = fallback
        self._resolve = resolve
        self._observe = observe
        self._slots = threading.BoundedSemaphore(max_waits) if max_waits else None
        self._leaving = threading.Event()
        self._last_page: _Page | None = None
        #: Says when readers who found nothing should come again.
        self.pacer = Pacer()

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """The WSGI entry point."""
        path = environ.get("PATH_INFO", "")
        if not is_events_path(path) or environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            return self._fallback(environ, start_response)
        began = time.perf_counter()
        name = request_id(environ)
        headers = [*ALWAYS, (REQUEST_ID, name)]
        code = 200
        try:
            content_type, body = "application/json", self._answer(environ)
        except Exception as error:
            problem = _problem(error)
            code, content_type, body = problem.status, CONTENT_TYPE, problem.body()
            headers += problem.headers.items()
        headers += [("Content-Type", content_type), ("Content-Length", str(len(body)))]
        start_response("200 OK" if code == 200 else _status(code), headers)
        if self._observe is not None:
            route = "/events" if path == "/events" else "/runs/<run_id>/events"
            self._observe(route, environ["REQUEST_METHOD"], code, time.perf_counter() - began)
        log_reply(environ.get(_NAME, NOBODY), environ["REQUEST_METHOD"], path, code, name)
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]

    def authorise(self, environ: Environ) -> None:
        """Raises :class:`Problem` when this request may not read."""
        environ[_NAME] = self._guard(environ, "read").name

    def plan(self, environ: Environ) -> Reading:
        """What a request for events asks for. Raises :class:`Problem` for one that must be refused."""
        self.authorise(environ)
        parts = environ["PATH_INFO"].split("/")
        root = len(parts) == 2
        query = parse_query(environ.get("QUERY_STRING", ""), root=root)
        run_id = self._resolve(query.run) if root else parts[2]
        log = self._book.get(run_id)
        if log is None:
            raise unknown_run(run_id)
        return _reading(log, query, environ)

    def plan_from_memory(self, environ: Environ) -> Reading | None:
        """As :meth:`plan`, for a request that can be answered without touching the disk; None for any other.

        For the thread that owns the sockets, which must never wait.
        """
        parts = environ["PATH_INFO"].split("/")
        log = self._book.peek(parts[2]) if len(parts) == 4 else None
        if log is None:
            return None
        self.authorise(environ)
        reading = _reading(log, parse_query(environ.get("QUERY_STRING", ""), root=False), environ)
        return reading if self.in_memory(reading) else None

    @staticmethod
    def in_memory(reading: Reading) -> bool:
        """Whether ``reading`` can be answered without touching the disk."""
        return reading.log.in_memory(reading.after)

    def leave(self) -> None:
        """Let every reader that waits in a worker thread go, and hold none from now on."""
        self._leaving.set()

    def _answer(self, environ: Environ) -> bytes:
        held = environ.get(HELD)
        if held is None:
            reading = self.plan(environ)
            held = Held(reading, waited=self._wait(reading, environ), checked=True)
        elif isinstance(held, Problem):
            raise held
        if not held.checked:
            self.authorise(environ)  # a token may have been revoked while its reader was held
        return self._page(held.reading, 0 if held.reading.ready else self._pause_ms(held))

    def _pause_ms(self, held: Held) -> int:
        if self._leaving.is_set():
            return NOT_HELD_MS
        pause = self.pacer.pause_ms()
        return max(0, pause - round(held.reading.wait * 1000)) if held.waited else max(pause, NOT_HELD_MS)

    def _page(self, reading: Reading, idle_ms: int) -> bytes:
        """The page, made once for all who ask the same before anything changes, as those do who have waited for it."""
        log, asked = reading.log, (reading.after, reading.limit, reading.skip_gap, idle_ms)
        view, first_seq, last = log.view, log.first_seq, self._last_page
        if last is not None and last.view is view and last.asked == asked and last.first_seq == first_seq:
            return last.body
        body = log.page(reading.after, reading.limit, skip_gap=reading.skip_gap, idle_ms=idle_ms)
        if log.view is view:
            self._last_page = _Page(view, first_seq, asked, body)
        return body

    def _wait(self, reading: Reading, environ: Environ) -> bool:
        """Hold a reader in this thread until there is something to read; False when it cannot be held for its time."""
        if reading.wait <= 0 or reading.ready:
            return True
        if self._slots is None or not self._slots.acquire(blocking=False):
            return False
        try:
            return self._wait_in_thread(reading, environ)
        finally:
            self._slots.release()

    def _wait_in_thread(self, reading: Reading, environ: Environ) -> bool:
        deadline = time.monotonic() + reading.wait
        news = threading.Event()
        gone = environ.get("waitress.client_disconnected")
        waiter = reading.log.add_waiter(reading.after, news.set)
        if waiter is None:
            return True
        try:
            while not self._leaving.is_set() and not (gone is not None and gone()):
                left = deadline - time.monotonic()
                if left <= 0 or news.wait(min(left, _LOOK_S)):
                    return True
                self.authorise(environ)
            return False
        finally:
            reading.log.remove_waiter(waiter)


def is_events_path(path: str) -> bool:
    """Whether ``path`` is ``/events`` or ``/runs/{id}/events``."""
    if not path.endswith("/events"):
        return False
    parts = path.split("/")
    return len(parts) == 2 or (len(parts) == 4 and parts[1] == "runs" and parts[2] != "")


def _reading(log: EventLog, query: EventsQuery, environ: Environ) -> Reading:
    if query.epoch is not None and query.epoch != log.epoch:
        raise _epoch_changed(log)
    wait = 0.0 if environ["REQUEST_METHOD"] == "HEAD" else query.wait
    return Reading(log, _cursor(query, log), query.limit, wait, query.skip_gap)


def _cursor(query: EventsQuery, log: EventLog) -> int:
    if query.tail is None:
        return query.after
    return max(log.last_seq - query.tail, log.first_seq - 1)


def _epoch_changed(log: EventLog) -> Problem:
    detail = "the journal is not the one this cursor belongs to; start again with after=0 and the epoch given here"
    known: dict[str, Any] = {"epoch": log.epoch, "first_seq": log.first_seq, "last_seq": log.last_seq}
    return Problem(410, "epoch-changed", detail, run=log.run_id, resume_after=log.first_seq - 1, **known)


def _problem(error: Exception) -> Problem:
    """What a client is told about ``error``."""
    if isinstance(error, Problem):
        return error
    _log.error("reading events failed", exc_info=error)
    if isinstance(error, sqlite3.Error):
        detail = "older events cannot be read from the disk now"
        return Problem(503, "journal-unavailable", detail, headers={"Retry-After": "1"})
    return Problem(500, "internal-error", "the server failed to read the events; its log says why")


def _status(code: int) -> str:
    return f"{code} {HTTPStatus(code).phrase}"
