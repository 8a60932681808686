"""The loop that owns the sockets: what waits costs nothing until something happens to it.

waitress's own loop asks every connection before every sleep whether it wants to read or to write. With a thousand
waiting readers that is a millisecond of processor time for each request of anybody else. Here a connection is asked
when something has happened to it, and the kernel remembers the answer (epoll or kqueue, where there is one).
"""

from __future__ import annotations

import selectors
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from waitress import wasyncore

#: Longest sleep, in seconds; the round of a loop looks after deadlines.
_SLEEP_S: Final = 1.0


class SocketLoop:
    """Serves the sockets in ``sockets``, a waitress map, on the thread that calls :meth:`run`.

    ``turn`` is called between two looks at the sockets; it gives the seconds after which it wants to be called again.
    """

    def __init__(self, sockets: dict[int, Any], turn: Callable[[], float]) -> None:
        self._sockets = sockets
        self._turn = turn
        self._selector = selectors.DefaultSelector()
        #: What happened to whom, each once. A dict, because putting in and taking out need no lock then.
        self._touched: dict[Any, None] = {}
        #: What the kernel has been told: which events, by descriptor.
        self._watched: dict[int, int] = {}
        self._awake = False
        # One byte at most is under way, so that waking never blocks, however long the loop is busy.
        self._bell, self._ring = socket.socketpair()
        self._bell.setblocking(False)
        self._selector.register(self._bell, selectors.EVENT_READ)
        #: The thread of :meth:`run` while it runs.
        self.thread: int | None = None

    def touch(self, channel: Any) -> None:
        """Have the loop ask ``channel`` again what it wants. From any thread."""
        self._touched[channel] = None
        self.wake()

    def wake(self) -> None:
        """End the loop's sleep. From any thread; its own will take a turn anyway before it sleeps."""
        if not self._awake and threading.get_ident() != self.thread:
            self._awake = True
            with suppress(OSError):  # closed: there is nobody to wake any more
                self._ring.send(b"x")

    def forget(self, descriptor: int) -> None:
        """Watch ``descriptor`` no longer; to be called before it is closed. From any thread."""
        if self._watched.pop(descriptor, 0):
            with suppress(KeyError, ValueError, OSError):
                self._selector.unregister(descriptor)

    def run(self) -> None:
        """Serve until no socket is left."""
        self.thread = threading.get_ident()
        try:
            self._touched.update(dict.fromkeys(list(self._sockets.values())))
            while self._sockets:
                pause = min(self._turn(), _SLEEP_S)
                self._register()
                for key, events in self._selector.select(pause):
                    if key.fileobj is self._bell:
                        self._hear()
                    else:
                        self._handle(key.fd, events)
        finally:
            self.thread = None
            self.close()

    def close(self) -> None:
        """Give back what the loop itself holds; for one that never ran."""
        self._selector.close()
        self._bell.close()
        self._ring.close()

    def _hear(self) -> None:
        self._bell.recv(64)
        self._awake = False  # from here on a touch rings again

    def _handle(self, descriptor: int, events: int) -> None:
        channel = self._sockets.get(descriptor)
        if channel is None:
            self.forget(descriptor)
            return
        if events & selectors.EVENT_READ:
            wasyncore.read(channel)
        if events & selectors.EVENT_WRITE and self._sockets.get(descriptor) is channel:
            wasyncore.write(channel)
        self._touched[channel] = None

    def _register(self) -> None:
        """Tell the kernel what every touched channel wants now."""
        while self._touched:
            touched, _ = self._touched.popitem()
            descriptor = touched._fileno
            channel = self._sockets.get(descriptor)
            if channel is None or channel is not touched:  # closed, and its number perhaps given to another
                continue
            wanted = 0
            if channel.readable():
                wanted |= selectors.EVENT_READ
            if channel.writable() and not channel.accepting:
                wanted |= selectors.EVENT_WRITE
            self._watch(descriptor, wanted)

    def _watch(self, descriptor: int, wanted: int) -> None:
        known = self._watched.get(descriptor, 0)
        if known == wanted:
            return
        self._watched[descriptor] = wanted
        if not known:
            self._selector.register(descriptor, wanted)
        elif wanted:
            self._selector.modify(descriptor, wanted)
        else:
            self._selector.unregister(descriptor)
