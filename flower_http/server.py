"""waitress, set up for many idle connections, errors in one form, and an end that lets everybody go."""

from __future__ import annotations

import logging
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Final

from waitress import wasyncore
from waitress.task import ThreadedTaskDispatcher

from flower_core.loopback import close_sockets, run_in_loop
from flower_http.channel import Deadlines
from flower_http.listener import SPARE_CONNECTIONS, Listener
from flower_http.parking import ParkingDispatcher, wait_idle
from flower_http.poll import EventsApp, WSGIApp
from flower_http.settings import MAX_BODY_BYTES

if sys.platform != "win32":
    import resource

#: Connections at once, as far as the limit on open files allows; each waiting reader has one.
CONNECTION_LIMIT: Final = 20_000
#: Files the rest of the process needs: journal, logs, pipes of agent programs.
_OTHER_FILES: Final = 256 + SPARE_CONNECTIONS
#: Of all header lines together, in bytes.
_MOST_HEAD: Final = 32 * 1024
_OUTPUT_IN_MEMORY: Final = 4 * 1024 * 1024
_BACKLOG: Final = 2048
_FLUSH_LOOK_S: Final = 0.01
_log = logging.getLogger(__name__)


class Server:
    """A listening server; requests are served once :meth:`run` is called. Made by :func:`make_server`."""

    def __init__(self, listener: Listener, wsgi: WSGIApp) -> None:
        self._server = listener
        self._wsgi = wsgi
        self._closing = threading.Lock()
        self._stopped = threading.Event()

    @property
    def host(self) -> str:
        """The address it listens on."""
        return str(self._server.effective_host)

    @property
    def port(self) -> int:
        """The port it listens on, also when 0 was asked for."""
        return int(self._server.effective_port)

    @property
    def connections(self) -> int:
        """How many there are now."""
        return len(self._server.active_channels)

    @property
    def unsent(self) -> int:
        """How many bytes of replies wait in memory for clients to take them."""
        return sum(channel.total_outbufs_len for channel in list(self._server.active_channels.values()))

    @property
    def refused(self) -> int:
        """How many requests have been refused because they were too slow or more than the server can do."""
        return self._server.refused

    @property
    def url(self) -> str:
        """Where it is reached, without a slash at the end."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    def run(self) -> None:
        """Serve until :meth:`close`, on the calling thread."""
        try:
            self._server.run()
        finally:
            self._server.task_dispatcher.shutdown(timeout=0)
            close_sockets(self._server)
            self._stopped.set()

    def close(self, grace_s: float = 5.0) -> None:
        """Take no more connections, answer every waiting reader with what there is, finish what is being served, end.

        Takes at most about ``grace_s`` seconds; then what is left is cut. From a signal handler on the thread of
        :meth:`run` it returns at once, and ``run`` returns when all is done. May be called twice.
        """
        if threading.get_ident() == self._server.loop.thread:
            threading.Thread(target=self._close, args=(grace_s,), name="flower-close").start()
        else:
            self._close(grace_s)

    def _close(self, grace_s: float) -> None:
        with self._closing:
            if self._stopped.is_set():
                return
            deadline = time.monotonic() + grace_s
            self._in_loop(lambda: wasyncore.dispatcher.close(self._server))
            if isinstance(self._wsgi, EventsApp):
                self._wsgi.leave()
            dispatcher = self._server.task_dispatcher
            parking = isinstance(dispatcher, ParkingDispatcher)
            if not (dispatcher.drain(grace_s) if parking else wait_idle(dispatcher, grace_s)):
                _log.warning("some requests were not finished within %g s", grace_s)
            while self.unsent and time.monotonic() < deadline:
                time.sleep(_FLUSH_LOOK_S)
            dispatcher.shutdown(timeout=max(0.0, deadline - time.monotonic()))
            running = self._server.loop.thread is not None
            self._in_loop(lambda: close_sockets(self._server))
            if running:
                self._stopped.wait(1.0 + grace_s)
            else:
                self._server.loop.close()
                self._stopped.set()

    def _in_loop(self, action: Callable[[], None]) -> None:
        """Do ``action`` on the thread that owns the sockets; on this one when no loop runs."""
        if self._server.loop.thread is None:
            action()
        else:
            run_in_loop(self._server, action)


def make_server(
    wsgi: WSGIApp,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    threads: int = 4,
    dispatcher: ParkingDispatcher | None = None,
    connection_limit: int = CONNECTION_LIMIT,
    deadlines: Deadlines | None = None,
) -> Server:
    """A server for ``wsgi`` that listens on ``host`` (name or address) and ``port`` (0 = any free one).

    ``threads`` serve requests; with ``dispatcher`` waiting readers take none of them, without it a few wait in threads
    and the others are told to come again. Connections beyond ``connection_limit`` are told so, and closed;
    ``deadlines`` bound how long a slow client may take. Raises OSError when the address is unknown, taken or not
    allowed.
    """
    workers = dispatcher if dispatcher is not None else ThreadedTaskDispatcher()
    listener = Listener(
        wsgi,
        bound_socket(host, port),
        workers,
        connection_limit=_allowed_connections(connection_limit),
        deadlines=deadlines or Deadlines(),
        ident=None,
        expose_tracebacks=False,
        clear_untrusted_proxy_headers=False,  # auth.py must see that they are there; nothing believes them
        backlog=_BACKLOG,
        channel_request_lookahead=1,  # keeps a channel readable while its request is served: sees it close
        # A page of events and its head go over a little more than 1 MiB, where waitress would turn to temporary files.
        outbuf_overflow=_OUTPUT_IN_MEMORY,
        max_request_header_size=_MOST_HEAD,
        max_request_body_size=MAX_BODY_BYTES + 1,  # waitress refuses a body of exactly this size, too
    )
    if dispatcher is not None:
        dispatcher.loop = listener.loop
    workers.set_thread_count(threads)
    return Server(listener, wsgi)


def bound_socket(host: str, port: int) -> socket.socket:
    """A TCP socket bound to ``host`` (name or address) and ``port`` (0 = any free one). Raises OSError."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    # One socket is enough: "localhost" may stand for two addresses, and clients try both.
    family, kind, proto, _, address = min(found, key=lambda entry: entry[0] != socket.AF_INET)
    listener = socket.socket(family, kind, proto)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except BaseException:
        listener.close()
        raise
    return listener


def _allowed_connections(wanted: int) -> int:
    """How many connections the process may hold, after raising its limit on open files as far as that is allowed."""
    if sys.platform == "win32":
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + _OTHER_FILES
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return wanted
    raised = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
        soft = raised
    except (OSError, ValueError):
        _log.debug("the limit on open files stays at %d", soft)
    return max(16, min(wanted, soft - _OTHER_FILES))
