"""A small HTTP server on a loopback port of its own, in a daemon thread of the process that needs it."""

from __future__ import annotations

import functools
import socket
import threading
from collections.abc import Callable
from typing import Any

from waitress import wasyncore
from waitress.server import create_server

_JOIN_S = 5.0


class LoopbackServer:
    """Serves the WSGI callable ``app`` on 127.0.0.1. It listens once made, serves once started, and is closed once.

    ``port`` 0 takes any free one; ``threads`` is how many requests are served at a time; ``settings`` go to
    waitress. Raises OSError when the port cannot be had.
    """

    def __init__(self, app: Callable[..., Any], *, name: str, threads: int, port: int = 0, **settings: Any) -> None:
        listener = socket.create_server(("127.0.0.1", port))
        self.port: int = listener.getsockname()[1]
        # waitress sends from the first byte on (its send_bytes is 1), so every piece of a stream goes out at once.
        # poll(), because select() dies past descriptor 1023, which a process that serves many may well have in use.
        self._server = create_server(
            app, sockets=[listener], threads=threads, ident=None, asyncore_use_poll=True, **settings
        )
        self._thread = threading.Thread(target=self._server.run, name=name, daemon=True)
        self._closed = False

    @property
    def url(self) -> str:
        """Where it is reached, without a slash at the end."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Begin to answer; a connection made earlier has been waiting in the kernel's queue."""
        self._thread.start()

    def close(self, drain_s: float = 5.0) -> None:
        """Let replies under way come to their end for ``drain_s`` seconds, cut what is left, and free the port."""
        if self._closed:
            return
        self._closed = True
        self._server.task_dispatcher.shutdown(timeout=drain_s)
        if not self._thread.is_alive():
            close_sockets(self._server)
            return
        # The loop owns the sockets, so it is the loop that closes them; with none left it ends.
        run_in_loop(self._server, functools.partial(close_sockets, self._server))
        self._thread.join(_JOIN_S)


def run_in_loop(server: Any, action: Callable[[], None]) -> None:
    """Have the loop of the waitress ``server``, which must be running, do ``action``. Does not wait for that."""
    pulled = threading.Event()

    def once_pulled() -> None:
        # The loop may be awake already and come by before the trigger is pulled; the action may close the trigger.
        pulled.wait()
        action()

    server.trigger.pull_trigger(once_pulled)
    pulled.set()


def close_sockets(server: Any) -> None:
    """Close every connection of the waitress ``server``; with the last one its loop ends. On the loop's thread."""
    sockets = server._map
    if server.task_dispatcher.threads:
        # A thread that outlasted its time will still write to the trigger. Were its descriptor closed, that number
        # might by then belong to another file; so only the loop's end of it goes.
        wasyncore.dispatcher.close(server.trigger)
    wasyncore.close_all(sockets, ignore_all=True)
