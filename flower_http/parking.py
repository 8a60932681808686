"""A waiting reader holds no thread: waitress with a task dispatcher that parks it until there is something to read.

waitress hands every request to a dispatcher as "this channel has a request", and a worker thread then serves it. This
dispatcher looks first. A reader of events with nothing to read is put aside, channel and all, and taken up again when
an event is published, its time is up, its connection closes, tokens change or the server leaves.

Reading events that are in memory costs less than handing it to another thread. So that is done on the thread that owns
the sockets, a slice at a time, with a look at all other connections between two slices.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from waitress.task import ThreadedTaskDispatcher

from flower_http.channel import Channel, overloaded
from flower_http.errors import Problem
from flower_http.event_log import Waiter
from flower_http.poll import HELD, EventsApp, Held, Reading, is_events_path
from flower_http.socket_loop import SocketLoop

#: Readers held at once; each costs a socket and some kilobytes. Beyond that they are told to come again later.
MAX_PARKED: Final = 20_000
#: Requests that may wait for a thread; more would wait longer than their clients do.
MAX_QUEUED: Final = 1000
#: Readers answered before the sockets of all others are looked at again.
_SLICE: Final = 64
_IDLE_LOOK_S: Final = 0.005
#: Deadlines of readers that have left, remembered before they are cleared away.
_SPARE_DEADLINES: Final = 64
_LONG_S: Final = 3600.0


@dataclass(eq=False)
class _Parked:
    """A reader put aside. ``why`` it was taken up again: news, deadline, gone, recheck or leaving."""

    channel: Channel
    reading: Reading
    deadline: float
    waiter: Waiter | None = None
    why: str = ""


@dataclass(eq=False)
class _Visit:
    """What a worker thread gets from the queue: a channel with a request, perhaps one that was parked before."""

    dispatcher: ParkingDispatcher
    channel: Channel
    parked: _Parked | None = None

    def service(self) -> None:
        """Called by waitress's worker thread."""
        self.dispatcher.visit(self.channel, self.parked)

    def cancel(self) -> None:
        """Called by waitress for what is still queued when it shuts down."""
        self.channel.cancel()


class ParkingDispatcher(ThreadedTaskDispatcher):  # type: ignore[misc]  # waitress has no types
    """Worker threads that never wait for events. ``app`` says what a request asks for, and serves it.

    ``max_parked`` bounds the readers held, ``max_queued`` the requests that wait for a thread: beyond that they are
    refused. Set the number of threads with ``set_thread_count``, as waitress does.
    """

    def __init__(self, app: EventsApp, *, max_parked: int = MAX_PARKED, max_queued: int = MAX_QUEUED) -> None:
        super().__init__()
        self._app = app
        app.pacer.queued = lambda: self.queued
        self._max_parked = max_parked
        self._max_queued = max_queued
        self._parked: dict[Channel, _Parked] = {}
        self._woken: deque[_Parked] = deque()
        self._deadlines: list[tuple[float, int, _Parked]] = []
        self._tie = itertools.count()
        self._leaving = False
        self._parking = threading.Lock()
        #: The loop of the sockets, whose thread serves events that are in memory; None: workers serve everything.
        self.loop: SocketLoop | None = None

    @property
    def parked(self) -> int:
        """How many readers are held now."""
        return len(self._parked)

    @property
    def queued(self) -> int:
        """How many requests wait for a thread now."""
        return len(self.queue)

    @property
    def woken(self) -> int:
        """How many readers are about to be answered."""
        return len(self._woken)

    # ---- what waitress and the loop call

    def add_task(self, task: Any) -> None:
        """Take a channel that has a request. Unlike waitress's own, does not log that the queue has a length."""
        if not self._on_loop():
            self._queue_visit(_Visit(self, task))
        elif _reads_events(task.requests[0]):
            task.due = self._serve_on_loop
        elif self._full and task.requests[0].path != "/healthz":  # who is not dead must not be taken for it
            task.due = _refuse
        else:
            self._queue_visit(_Visit(self, task))

    def shutdown(self, cancel_pending: bool = True, timeout: float = 5) -> bool:
        """Let the readers go, then stop the threads; what is still queued after ``timeout`` seconds is cancelled."""
        self.drain(timeout)
        return bool(super().shutdown(cancel_pending, timeout))

    def turn(self) -> float:
        """Answer a slice of the readers that were woken; seconds until it wants to be called again. On the loop."""
        pause = self._wake_due()
        for _ in range(min(_SLICE, len(self._woken))):
            parked = self._woken[0]
            if parked.why in ("recheck", "gone") or self._app.in_memory(parked.reading):
                self.visit(parked.channel, parked)
            else:
                self._queue_visit(_Visit(self, parked.channel, parked))
            self._woken.popleft()  # only now: who waits for all to be served must not miss this one
        return 0.0 if self._woken else pause

    def gone(self, channel: Channel) -> None:
        """The connection of ``channel`` has closed."""
        parked = self._parked.get(channel)
        if parked is not None:
            self._release(parked, "gone")

    # ---- what the server calls

    def recheck(self) -> None:
        """Look at every held reader's token again; call this when tokens have changed."""
        self._release_all("recheck")

    def drain(self, timeout: float) -> bool:
        """Hold nobody from now on, answer all who are held; whether all was served within ``timeout`` seconds."""
        with self._parking:
            self._leaving = True
        self._app.leave()
        self._release_all("leaving")
        return wait_idle(self, timeout)

    def visit(self, channel: Channel, parked: _Parked | None) -> None:
        """Serve the request of ``channel``, or park it. On any thread."""
        if parked is None:
            parked = self._look(channel)
        elif parked.why == "recheck" and not self._allowed(channel):
            parked = None
        if parked is None:
            channel.service()
            return
        if self._park(parked):
            return
        waited = parked.why == "deadline" or parked.reading.wait <= 0
        _environ(channel)[HELD] = Held(parked.reading, waited=waited, checked=not parked.why)
        channel.service()

    # ---- on the thread of the sockets

    def _serve_on_loop(self, channel: Channel) -> None:
        """Serve or park a reader of events in memory; what might have to wait for anything goes to a worker."""
        environ = _environ(channel)
        try:
            reading = self._app.plan_from_memory(environ)
        except Problem as problem:
            environ[HELD] = problem
            channel.service()
            return
        if reading is not None:
            self.visit(channel, _Parked(channel, reading, time.monotonic() + reading.wait))
            if channel.due is not None:  # the next request was there already; others come first
                channel.due = None
                self._queue_visit(_Visit(self, channel))
        elif self._full:
            _refuse(channel)
        else:
            self._queue_visit(_Visit(self, channel))

    def _wake_due(self) -> float:
        """Release the readers whose time is up; seconds until the next one's is."""
        if not self._deadlines:
            return _LONG_S
        now = time.monotonic()
        due: list[_Parked] = []
        with self._parking:
            while self._deadlines and self._deadlines[0][0] <= now:
                due.append(heapq.heappop(self._deadlines)[2])
            pause = self._deadlines[0][0] - now if self._deadlines else _LONG_S
        for parked in due:
            self._release(parked, "deadline")
        return pause

    # ---- parking

    def _look(self, channel: Channel) -> _Parked | None:
        """The reader behind a request, None for a request that does not want to wait or must be refused."""
        if not _reads_events(channel.requests[0]) or "wait=" not in channel.requests[0].query:
            return None
        try:
            reading = self._app.plan(_environ(channel))
        except Exception:  # whatever it is, the application meets it again and tells the client
            return None
        return _Parked(channel, reading, time.monotonic() + reading.wait)

    def _allowed(self, channel: Channel) -> bool:
        try:
            self._app.authorise(_environ(channel))
        except Exception:  # as above
            return False
        return True

    def _park(self, parked: _Parked) -> bool:
        """Put a reader aside; False when it is to be answered now."""
        if parked.reading.wait <= 0 or parked.reading.ready:
            return False
        with self._parking:
            if time.monotonic() >= parked.deadline:
                parked.why = "deadline"
                return False
            if self._leaving or len(self._parked) >= self._max_parked or not parked.channel.connected:
                return False
            self._parked[parked.channel] = parked
            # The log may call back before it returns; _release then waits for this lock and finds the reader in place.
            parked.waiter = parked.reading.log.add_waiter(parked.reading.after, partial(self._release, parked, "news"))
            if parked.waiter is None:
                del self._parked[parked.channel]
                return False
            self._note_deadline(parked)
            first = self._deadlines[0][2] is parked
        if first and self.loop is not None:
            self.loop.wake()
        return True

    def _note_deadline(self, parked: _Parked) -> None:
        """Remember when this reader must leave. The lock is held."""
        if len(self._deadlines) > 2 * len(self._parked) + _SPARE_DEADLINES:
            # Most have left before their time; in a run that talks a lot they would pile up for as long as they asked.
            self._deadlines = [entry for entry in self._deadlines if self._parked.get(entry[2].channel) is entry[2]]
            heapq.heapify(self._deadlines)
        heapq.heappush(self._deadlines, (parked.deadline, next(self._tie), parked))

    def _release(self, parked: _Parked, why: str) -> None:
        """Have a held reader served. Of several reasons at once the first one counts."""
        with self._parking:
            if self._parked.get(parked.channel) is not parked:
                return
            del self._parked[parked.channel]
            parked.why = why
            waiter, parked.waiter = parked.waiter, None
        if waiter is not None and why != "news":
            parked.reading.log.remove_waiter(waiter)
        if self.loop is None or self.loop.thread is None:
            self._queue_visit(_Visit(self, parked.channel, parked))
        else:
            self._woken.append(parked)
            self.loop.wake()

    def _release_all(self, why: str) -> None:
        with self._parking:
            everyone = list(self._parked.values())
        for parked in everyone:
            self._release(parked, why)

    # ---- the workers' queue

    @property
    def _full(self) -> bool:
        return len(self.queue) >= self._max_queued

    def _on_loop(self) -> bool:
        return self.loop is not None and threading.get_ident() == self.loop.thread

    def _queue_visit(self, visit: _Visit) -> None:
        with self.lock:
            self.queue.append(visit)
            self.queue_cv.notify()


def wait_idle(dispatcher: ThreadedTaskDispatcher, timeout: float) -> bool:
    """Wait at most ``timeout`` seconds until nothing is queued and nothing is being served; whether it came to that."""
    deadline = time.monotonic() + timeout
    while True:
        with dispatcher.lock:
            woken = isinstance(dispatcher, ParkingDispatcher) and dispatcher.woken
            if not woken and not dispatcher.queue and dispatcher.active_count == 0:
                return True
        if time.monotonic() > deadline:
            return False
        time.sleep(_IDLE_LOOK_S)


def _refuse(channel: Channel) -> None:
    channel.refuse(overloaded("too many requests wait for their turn"))


def _reads_events(request: Any) -> bool:
    return not request.error and request.command == "GET" and is_events_path(request.path)


def _environ(channel: Channel) -> dict[str, Any]:
    environ: dict[str, Any] = channel.task_class(channel, channel.requests[0]).get_environment()
    return environ
