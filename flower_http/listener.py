"""The listening socket: takes connections in, says no in words where there are too many, looks at their clocks."""

from __future__ import annotations

import logging
import socket
import time
from typing import Any, Final

from waitress.adjustments import Adjustments
from waitress.server import TcpWSGIServer
from waitress.task import ThreadedTaskDispatcher

from flower_http.channel import Channel, Deadlines
from flower_http.poll import WSGIApp
from flower_http.socket_loop import SocketLoop

#: Connections beyond the limit that are taken in to be told so; still more wait in the kernel's queue.
SPARE_CONNECTIONS: Final = 64
#: Taken in at once, before the connections that are there are looked at again.
_AT_ONCE: Final = 64
#: How long none are taken in after the system had no room for one, in seconds.
_DEAF_S: Final = 0.5

_log = logging.getLogger(__name__)


class Listener(TcpWSGIServer):  # type: ignore[misc]  # waitress has no types
    """A waitress server over the bound socket ``listening``, with a loop of its own.

    ``dispatcher`` is told of requests, and of connections that end if it has a method ``gone``. ``settings`` go to
    waitress.
    """

    channel_class = Channel

    def __init__(
        self,
        wsgi: WSGIApp,
        listening: socket.socket,
        dispatcher: ThreadedTaskDispatcher,
        *,
        connection_limit: int,
        deadlines: Deadlines,
        **settings: Any,
    ) -> None:
        self.connection_limit = connection_limit
        #: How many requests have been refused here: too slow, or more than the server can do.
        self.refused = 0
        self._deadlines = deadlines
        self._look_s = min(deadlines.head, deadlines.body, deadlines.stall, deadlines.linger, deadlines.idle) / 4
        self._next_look = 0.0
        self._deaf_until = 0.0
        self._gone = getattr(dispatcher, "gone", None)
        self._dispatcher_turn = getattr(dispatcher, "turn", None)
        sockets: dict[int, Any] = {}
        self.loop = SocketLoop(sockets, self._turn)
        super().__init__(
            wsgi,
            sockets,
            _sock=listening,
            dispatcher=dispatcher,
            adj=Adjustments(sockets=[listening], **settings),
            bind_socket=False,
            sockinfo=(listening.family, listening.type, listening.proto, listening.getsockname()),
        )

    def run(self) -> None:
        """Serve until the last socket is closed."""
        self.loop.run()

    def readable(self) -> bool:
        """Whether connections are taken in now."""
        room = len(self.active_channels) < self.connection_limit + SPARE_CONNECTIONS
        return bool(self.accepting) and room and time.monotonic() >= self._deaf_until

    def handle_accept(self) -> None:
        """Take in the connections that wait."""
        for _ in range(_AT_ONCE):
            if not self.readable():
                return
            try:
                taken = self.accept()
            except OSError as error:
                # Were it tried again at once, it would fail again at once.
                _log.warning("no connection can be taken in: %s", error)
                self._deaf_until = time.monotonic() + _DEAF_S
                return
            if taken is None:
                return
            self._take_in(*taken)

    def closed(self, channel: Channel) -> None:
        """A connection has ended."""
        if self._gone is not None:
            self._gone(channel)

    def pull_trigger(self) -> None:
        """Called by waitress where it means all connections; here each tells the loop about itself."""
        self.loop.wake()

    def _take_in(self, connection: socket.socket, address: Any) -> None:
        try:
            self.set_socket_options(connection)
        except OSError:  # it has ended already
            connection.close()
            return
        surplus = len(self.active_channels) >= self.connection_limit
        channel = self.channel_class(self, connection, address, self.adj, self._map)
        channel.surplus = surplus

    def _turn(self) -> float:
        now = time.monotonic()
        self.loop.touch(self)  # there may be room again
        if now >= self._next_look:
            self._next_look = now + self._look_s
            for channel in list(self.active_channels.values()):
                channel.look_at_clock(now, self._deadlines)
        pause = self._next_look - now
        if self._dispatcher_turn is not None:
            pause = min(pause, self._dispatcher_turn())
        return max(0.0, pause)
