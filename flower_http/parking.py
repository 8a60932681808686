"""A waiting reader holds no thread: waitress with a task dispatcher that parks it until there is something to read.

waitress hands every request to a dispatcher as "this channel has a request", and a worker thread then serves it.
This dispatcher has the worker look first. A reader of events with nothing to read is put aside, channel and all, and
queued again when an event is published, its time is up, its connection closes, tokens change or the server leaves.

``_dispatcher`` of waitress.create_server is private, so the version is pinned; see tests/http/test_poll_parking.py.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from waitress.task import ThreadedTaskDispatcher

from flower_http.event_log import Waiter
from flower_http.poll import HELD, EventsApp, Held, Reading, is_events_path

#: Readers held at once; each costs a socket and some kilobytes. Beyond that they are told to come again later.
MAX_PARKED: Final = 20_000
_IDLE_LOOK_S: Final = 0.005
#: Deadlines of readers that have left, remembered before they are cleared away.
_SPARE_DEADLINES: Final = 64


@dataclass(eq=False)
class _Parked:
    """A reader put aside. ``why`` it was taken up again: news, deadline, gone, recheck or leaving."""

    channel: Any
    reading: Reading
    deadline: float
    waiter: Waiter | None = None
    why: str = ""


@dataclass(eq=False)
class _Visit:
    """What a worker thread gets from the queue: a channel with a request, perhaps one that was parked before."""

    dispatcher: ParkingDispatcher
    channel: Any
    parked: _Parked | None = field(default=None)

    def service(self) -> None:
        """Called by waitress's worker thread."""
        self.dispatcher.visit(self.channel, self.parked)

    def cancel(self) -> None:
        """Called by waitress for what is still queued when it shuts down."""
        self.channel.cancel()


class ParkingDispatcher(ThreadedTaskDispatcher):  # type: ignore[misc]  # waitress has no types
    """Worker threads that never wait for events. ``app`` says what a request asks for, and serves it.

    ``max_parked`` bounds the readers held. Set the number of threads with ``set_thread_count``, as waitress does.
    """

    def __init__(self, app: EventsApp, *, max_parked: int = MAX_PARKED) -> None:
        super().__init__()
        self._app = app
        self._max_parked = max_parked
        self._parked: dict[Any, _Parked] = {}
        self._deadlines: list[tuple[float, int, _Parked]] = []
        self._tie = itertools.count()
        self._leaving = False
        #: The thread of the sockets, where events that are in memory are served at once; None: never.
        self.loop_thread: int | None = None
        self._parking = threading.Condition(threading.Lock())
        threading.Thread(target=self._watch_deadlines, name="flower-parking", daemon=True).start()

    @property
    def parked(self) -> int:
        """How many readers are held now."""
        return len(self._parked)

    # ---- what waitress calls

    def add_task(self, task: Any) -> None:
        """Queue a channel that has a request. Unlike waitress's own, does not log that the queue has a length.

        What may be served on the thread of the sockets is left to :meth:`serve_on_loop`: here its lock is held.
        """
        if threading.get_ident() == self.loop_thread and self._is_quick(task):
            task.quick = True
        else:
            self._queue_visit(_Visit(self, task))

    def shutdown(self, cancel_pending: bool = True, timeout: float = 5) -> bool:
        """Let the readers go, then stop the threads; what is still queued after ``timeout`` seconds is cancelled."""
        self.drain(timeout)
        return bool(super().shutdown(cancel_pending, timeout))

    # ---- what the server calls

    def serve_on_loop(self, channel: Any) -> None:
        """Serve or park a reader of events in memory without handing it to another thread, which costs more than it.

        On the thread of the sockets; what might have to wait for anything goes to a worker after all.
        """
        channel.quick = False
        reading = None
        try:
            reading = self._app.plan_from_memory(_environ(channel))
        except Exception:  # the worker meets it again, and tells the client
            reading = None
        if reading is None:
            self._queue_visit(_Visit(self, channel))
        else:
            self.visit(channel, _Parked(channel, reading, time.monotonic() + reading.wait))
        if channel.quick:  # the next request was there already; others come first
            channel.quick = False
            self._queue_visit(_Visit(self, channel))

    def recheck(self) -> None:
        """Look at every held reader's token again; call this when tokens have changed."""
        self._release_all("recheck")

    def gone(self, channel: Any) -> None:
        """The connection of ``channel`` has closed."""
        parked = self._parked.get(channel)
        if parked is not None:
            self._release(parked, "gone")

    def drain(self, timeout: float) -> bool:
        """Hold nobody from now on, answer all who are held; whether all was served within ``timeout`` seconds."""
        with self._parking:
            self._leaving = True
            self._parking.notify_all()
        self._app.leave()
        self._release_all("leaving")
        return wait_idle(self, timeout)

    def visit(self, channel: Any, parked: _Parked | None) -> None:
        """Serve the request of ``channel``, or park it. On a worker thread."""
        if parked is None:
            parked = self._look(channel)
        elif parked.why == "recheck" and not self._allowed(channel):
            parked = None
        if parked is None:
            channel.service()
            return
        if self._park(parked):
            return
        token = HELD.set(Held(parked.reading, waited=parked.why == "deadline" or parked.reading.wait <= 0))
        try:
            channel.service()
        finally:
            HELD.reset(token)

    # ---- parking

    def _look(self, channel: Any) -> _Parked | None:
        """The reader behind a request, None for a request that does not want to wait or must be refused."""
        if not _reads_events(channel.requests[0]) or "wait=" not in channel.requests[0].query:
            return None
        try:
            reading = self._app.plan(_environ(channel))
        except Exception:  # whatever it is, the application meets it again and tells the client
            return None
        return _Parked(channel, reading, time.monotonic() + reading.wait)

    @staticmethod
    def _is_quick(channel: Any) -> bool:
        # With output still unsent a further reply could have to wait for the client to read it.
        return channel.total_outbufs_len == 0 and _reads_events(channel.requests[0])

    def _allowed(self, channel: Any) -> bool:
        try:
            self._app.authorise(_environ(channel))
        except Exception:  # as above
            return False
        return True

    def _park(self, parked: _Parked) -> bool:
        """Put a reader aside; False when it is to be answered now."""
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
            if self._deadlines[0][2] is parked:
                self._parking.notify_all()
            return True

    def _note_deadline(self, parked: _Parked) -> None:
        """Remember when this reader must leave. The lock is held."""
        if len(self._deadlines) > 2 * len(self._parked) + _SPARE_DEADLINES:
            # Most have left before their time; in a run that talks a lot they would pile up for as long as they asked.
            self._deadlines = [entry for entry in self._deadlines if self._parked.get(entry[2].channel) is entry[2]]
            heapq.heapify(self._deadlines)
        heapq.heappush(self._deadlines, (parked.deadline, next(self._tie), parked))

    def _release(self, parked: _Parked, why: str) -> None:
        """Queue a held reader again. Of several reasons at once the first one counts."""
        with self._parking:
            if self._parked.get(parked.channel) is not parked:
                return
            del self._parked[parked.channel]
            parked.why = why
        if parked.waiter is not None:
            parked.reading.log.remove_waiter(parked.waiter)
        self._queue_visit(_Visit(self, parked.channel, parked))

    def _release_all(self, why: str) -> None:
        with self._parking:
            everyone = list(self._parked.values())
        for parked in everyone:
            self._release(parked, why)

    def _watch_deadlines(self) -> None:
        while True:
            with self._parking:
                if self._leaving:
                    return
                now = time.monotonic()
                due: list[_Parked] = []
                while self._deadlines and self._deadlines[0][0] <= now:
                    due.append(heapq.heappop(self._deadlines)[2])
                if not due:
                    self._parking.wait(self._deadlines[0][0] - now if self._deadlines else None)
            for parked in due:
                self._release(parked, "deadline")

    def _queue_visit(self, visit: _Visit) -> None:
        with self.lock:
            self.queue.append(visit)
            self.queue_cv.notify()


def wait_idle(dispatcher: ThreadedTaskDispatcher, timeout: float) -> bool:
    """Wait at most ``timeout`` seconds until nothing is queued and nothing is being served; whether it came to that."""
    deadline = time.monotonic() + timeout
    while True:
        with dispatcher.lock:
            if not dispatcher.queue and dispatcher.active_count == 0:
                return True
        if time.monotonic() > deadline:
            return False
        time.sleep(_IDLE_LOOK_S)


def _reads_events(request: Any) -> bool:
    return not request.error and request.command == "GET" and is_events_path(request.path)


def _environ(channel: Any) -> dict[str, Any]:
    environ: dict[str, Any] = channel.task_class(channel, channel.requests[0]).get_environment()
    return environ
