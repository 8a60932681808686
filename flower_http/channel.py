"""One connection: requests in, replies out, each bounded in size and in time. waitress does the HTTP."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from waitress.channel import ClientDisconnected, HTTPChannel

from flower_http.errors import Problem
from flower_http.exchange import KnownLines, Parser, ProblemTask, Refusal, ReplyTask

#: A client must take at least so many bytes of an unread reply in ``stall_s``.
_LEAST_BYTES: Final = 64 * 1024
#: What is still on its way when a request has been refused is read and thrown away, as far as this.
_MOST_DISCARDED: Final = 16 * 1024 * 1024
_DISCARD_AT_ONCE: Final = 256 * 1024


@dataclass(frozen=True)
class Deadlines:
    """Seconds a client gets, however busily it drips.

    ``idle``: between two requests; ``head``, ``body``: to send all of it; ``stall``: to take 64 KiB of a reply, or its
    rest; ``linger``: to learn that its request was refused while it is still sending.
    """

    idle: float = 120.0
    head: float = 15.0
    body: float = 60.0
    stall: float = 30.0
    linger: float = 5.0


def overloaded(detail: str) -> Problem:
    """503 for a request that comes while there is more to do than the server can."""
    return Problem(503, "overloaded", f"{detail}; try again in a second", headers={"Retry-After": "1"})


def _refuse_surplus(channel: Channel) -> None:
    channel.refuse(overloaded("the server has as many connections as it can hold"))


class _OwnServer:
    """The server as one connection knows it: what is said to it about connections is about this one."""

    def __init__(self, server: Any, channel: Channel) -> None:
        self._server = server
        self._channel = channel

    def __getattr__(self, name: str) -> Any:
        return getattr(self._server, name)

    def add_task(self, channel: Channel) -> None:
        channel.submit()

    def pull_trigger(self) -> None:
        self._server.loop.touch(self._channel)


class Channel(HTTPChannel):  # type: ignore[misc]
    """A connection of :class:`flower_http.listener.Listener`."""

    error_task_class = ProblemTask
    task_class = ReplyTask
    requests: list[Any]
    request: Any

    def __init__(self, server: Any, sock: socket.socket, address: Any, adj: Any, sockets: Any) -> None:
        self._listener = server
        #: What the dispatcher wants done with a request on this very thread, once no lock is held.
        self.due: Callable[[Channel], None] | None = None
        #: Whether this connection is one more than the server has room for.
        self.surplus = False
        #: Whether a client that is being refused is still sending.
        self.discarding = False
        self._lingering = False
        self._held_back = False
        self._known_lines = KnownLines()
        self._sent = self._discarded = 0
        self._phase: tuple[str, object] = ("", None)
        self._phase_since = 0.0
        self._phase_sent = 0
        super().__init__(_OwnServer(server, self), sock, address, adj, sockets)

    # ---- what waitress calls

    def parser_class(self, adj: Any) -> Parser:
        """What takes the next request apart."""
        return Parser(adj, self._known_lines)

    def add_channel(self, sockets: Any = None) -> None:
        """Have the socket watched."""
        super().add_channel(sockets)
        self._listener.loop.touch(self)

    def del_channel(self, sockets: Any = None) -> None:
        """Have the socket watched no longer."""
        if self._fileno is not None:
            self._listener.loop.forget(self._fileno)
        super().del_channel(sockets)

    def readable(self) -> bool:
        """Whether anything may come in now."""
        return self._lingering or bool(super().readable())

    def handle_read(self) -> None:
        """Take in what has come."""
        if not self._lingering:
            super().handle_read()
            return
        self._discarded += len(self.recv(_DISCARD_AT_ONCE))
        if self._discarded > _MOST_DISCARDED:
            self.handle_close()

    def received(self, data: bytes) -> bool:
        """Take requests apart, and have the first one served; whether they were wanted."""
        done = bool(super().received(data))
        self._do_due()
        return done

    def handle_write(self) -> None:
        """Send what waits; when that is out, go on with the next request."""
        if self.close_when_flushed and self.discarding and not self.total_outbufs_len and not self.will_close:
            self._linger()
            return
        super().handle_write()
        with self.outbuf_lock:
            resumed = self._held_back and not self.total_outbufs_len
            self._held_back = self._held_back and not resumed
        if resumed and self.connected:
            self._hand_on()
            self._do_due()

    def handle_close(self) -> None:
        """Close the socket; called once the client has, or must go."""
        super().handle_close()
        self._listener.closed(self)

    def send(self, data: bytes, do_close: bool = True) -> int:
        """Give ``data`` to the kernel; how many bytes it took."""
        count = int(super().send(data, do_close=do_close))
        self._sent += count
        return count

    def write_soon(self, data: Any) -> int:
        """Send what the kernel takes at once, without a buffer in between; the rest waits in one."""
        size = len(data)
        if type(data) is bytes and data:
            with self.outbuf_lock:
                if self.connected and not self.total_outbufs_len:
                    try:
                        count = self.send(data, do_close=False)
                    except OSError as error:
                        self.will_close = True
                        raise ClientDisconnected from error
                    data = data[count:] if count else data
        if len(data):
            super().write_soon(data)
        return size

    def _flush_outbufs_below_high_watermark(self) -> None:
        """Where waitress has a worker wait for a slow client: before it writes more, and before the next request.

        Nothing is to be gained by that here. A reply is one piece, or one file that the loop reads as it sends it, and
        the next request waits in :meth:`submit`. Without this, clients that ask for two files and take none would hold
        every worker.
        """

    # ---- what the server and its dispatcher call

    def submit(self) -> None:
        """Hand the next request on, but not before the reply to the last one is out.

        So a client that asks for much and reads nothing costs one reply's memory, and no thread waits for it.
        """
        with self.outbuf_lock:
            held_back = self._held_back = bool(self.total_outbufs_len)
        if not held_back:
            self._hand_on()

    def refuse(self, problem: Problem) -> None:
        """Answer the request that is there, or on its way, with ``problem``, and end the connection. On the loop."""
        with self.requests_lock:
            if not self.requests:
                self.requests, self.request = [self.request], None
            self.requests[0].error = Refusal(problem)
        self._listener.refused += 1
        self.service()

    def look_at_clock(self, now: float, deadlines: Deadlines) -> None:
        """End what takes too long. On the loop, every now and then."""
        phase = self._current_phase()
        if phase != self._phase or (phase[0] == "stall" and self._sent - self._phase_sent >= _LEAST_BYTES):
            self._phase, self._phase_since, self._phase_sent = phase, now, self._sent
        name = phase[0]
        if not name or now - self._phase_since < getattr(deadlines, name):
            return
        if name in ("head", "body"):
            self.discarding = True
            detail = f"the {name} of the request took longer than {getattr(deadlines, name):g} s"
            self.refuse(Problem(408, "request-timeout", detail))
        else:
            self.handle_close()

    def _current_phase(self) -> tuple[str, object]:
        """Which deadline this connection is under (none: ""), and what it would be another one for."""
        if self._lingering:
            return "linger", None
        if self.total_outbufs_len:
            return "stall", None
        if self.requests:
            return "", None
        request = self.request
        if request is None:
            return "idle", self.last_activity
        return ("body" if request.headers_finished else "head"), request

    def _hand_on(self) -> None:
        on_loop = threading.get_ident() == self._listener.loop.thread
        if on_loop and self.surplus:
            self.due = _refuse_surplus
        elif on_loop and self.requests[0].error:
            self.due = Channel.service
        else:
            self._listener.task_dispatcher.add_task(self)

    def _do_due(self) -> None:
        while self.due is not None:
            due, self.due = self.due, None
            due(self)

    def _linger(self) -> None:
        # Closing now would reset the connection, and the client might never see why.
        self.close_when_flushed = False
        self._lingering = True
        try:
            self.socket.shutdown(socket.SHUT_WR)
        except OSError:
            self.handle_close()
