"""waitress, set up for many idle connections, errors in one form, and an end that lets everybody go."""

from __future__ import annotations

import inspect
import logging
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from waitress import create_server, wasyncore
from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser, ParsingError
from waitress.task import ErrorTask, WSGITask

from flower_core.loopback import close_sockets, run_in_loop
from flower_http.errors import CONTENT_TYPE, Problem
from flower_http.headers import ALWAYS, REQUEST_ID, request_id
from flower_http.parking import ParkingDispatcher, wait_idle
from flower_http.poll import EventsApp, WSGIApp
from flower_http.settings import MAX_BODY_BYTES

if sys.platform != "win32":
    import resource

#: Connections at once, as far as the limit on open files allows; each waiting reader has one.
CONNECTION_LIMIT: Final = 20_000
#: Files the rest of the process needs: journal, logs, pipes of agent programs.
_OTHER_FILES: Final = 256
_IDLE_CONNECTION_S: Final = 120
_OUTPUT_IN_MEMORY: Final = 4 * 1024 * 1024
_BACKLOG: Final = 2048
_FLUSH_LOOK_S: Final = 0.01
#: waitress refuses some requests before any application sees them; these are its status codes.
_SLUGS: Final = {413: "body-too-large", 500: "internal-error"}

_DETAILS: Final = {500: "the server failed", 413: f"a body may have at most {MAX_BODY_BYTES} bytes"}

_log = logging.getLogger(__name__)


class _ProblemTask(ErrorTask):  # type: ignore[misc]  # waitress has no types
    """waitress's own refusals, as the problem documents every other error is."""

    def execute(self) -> None:
        code = self.request.error.code
        slug = _SLUGS.get(code, "bad-request")
        detail = _DETAILS.get(code) or str(self.request.error.body)
        body = Problem(code, slug, detail).body()
        self.status = f"{code} {self.request.error.reason}"
        name = request_id({"HTTP_X_REQUEST_ID": self.request.headers.get("X_REQUEST_ID", "")})
        self.response_headers += [*ALWAYS, (REQUEST_ID, name), ("Content-Type", CONTENT_TYPE)]
        self.set_close_on_finish()
        self.content_length = len(body)
        self.write(body)


class _Gathering:
    """Stands in for a channel while head and first part of a reply are made."""

    def __init__(self, channel: Any) -> None:
        self.server = channel.server
        self.pieces: list[bytes] = []

    def write_soon(self, data: bytes) -> None:
        self.pieces.append(data)


class _OneWriteTask(WSGITask):  # type: ignore[misc]  # waitress has no types
    """Sends the head of a reply together with its first part: half the system calls, and the client wakes up once."""

    channel: Any

    def write(self, data: bytes) -> None:
        if self.wrote_header:
            super().write(data)
            return
        channel = self.channel
        gathering = _Gathering(channel)
        self.channel = gathering
        try:
            super().write(data)
        finally:
            self.channel = channel
        channel.write_soon(b"".join(gathering.pieces))


class _Parser(HTTPRequestParser):  # type: ignore[misc]  # waitress has no types
    """Refuses a request whose end a proxy in front might see elsewhere, and what follows it (RFC 9112, section 6.1)."""

    def parse_header(self, header_plus: bytes) -> None:
        super().parse_header(header_plus)
        # waitress takes Transfer-Encoding out of the headers where it goes by it, which it does not for HTTP/1.0.
        if "TRANSFER_ENCODING" in self.headers or (self.chunked and "CONTENT_LENGTH" in self.headers):
            raise ParsingError("Transfer-Encoding must be the only thing that tells where the body ends")


class _Channel(HTTPChannel):  # type: ignore[misc]  # waitress has no types
    parser_class = _Parser
    task_class = _OneWriteTask
    error_task_class = _ProblemTask
    #: Set by the dispatcher while it is asked to queue this channel: serve it here instead.
    quick = False

    def received(self, data: bytes) -> bool:
        done = bool(super().received(data))
        if self.quick:
            self.server.task_dispatcher.serve_on_loop(self)
        return done

    def handle_close(self) -> None:
        super().handle_close()
        dispatcher = self.server.task_dispatcher
        if isinstance(dispatcher, ParkingDispatcher):
            dispatcher.gone(self)


class Server:
    """A listening server; requests are served once :meth:`run` is called. Made by :func:`make_server`."""

    def __init__(self, waitress_server: Any, wsgi: WSGIApp) -> None:
        self._server = waitress_server
        self._wsgi = wsgi
        self._loop_thread: int | None = None
        self._closing = threading.Lock()
        self._stopped = threading.Event()
        waitress_server.pull_trigger = self._wake_loop

    @property
    def host(self) -> str:
        """The address it listens on."""
        return str(self._server.effective_host)

    @property
    def port(self) -> int:
        """The port it listens on, also when 0 was asked for."""
        return int(self._server.effective_port)

    @property
    def url(self) -> str:
        """Where it is reached, without a slash at the end."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    def run(self) -> None:
        """Serve until :meth:`close`, on the calling thread."""
        self._set_loop_thread(threading.get_ident())
        try:
            self._server.run()
        finally:
            self._set_loop_thread(None)
            self._server.task_dispatcher.shutdown(timeout=0)
            close_sockets(self._server)
            self._stopped.set()

    def close(self, grace_s: float = 5.0) -> None:
        """Take no more connections, answer every waiting reader with what there is, finish what is being served, end.

        Takes at most about ``grace_s`` seconds; then what is left is cut. From a signal handler on the thread of
        :meth:`run` it returns at once, and ``run`` returns when all is done. May be called twice.
        """
        if threading.get_ident() == self._loop_thread:
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
            while self._unsent() and time.monotonic() < deadline:
                time.sleep(_FLUSH_LOOK_S)
            dispatcher.shutdown(timeout=max(0.0, deadline - time.monotonic()))
            running = self._loop_thread is not None
            self._in_loop(lambda: close_sockets(self._server))
            if running:
                self._stopped.wait(1.0 + grace_s)
            else:
                self._stopped.set()

    def _set_loop_thread(self, ident: int | None) -> None:
        self._loop_thread = ident
        if isinstance(self._server.task_dispatcher, ParkingDispatcher):
            self._server.task_dispatcher.loop_thread = ident

    def _wake_loop(self) -> None:
        """Have the loop look at every channel again. On its own thread it will anyway, before it sleeps."""
        if threading.get_ident() != self._loop_thread:
            self._server.trigger.pull_trigger()

    def _unsent(self) -> bool:
        return any(channel.total_outbufs_len for channel in list(self._server.active_channels.values()))

    def _in_loop(self, action: Callable[[], None]) -> None:
        """Do ``action`` on the thread that owns the sockets; on this one when no loop runs."""
        if self._loop_thread is None:
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
) -> Server:
    """A server for ``wsgi`` that listens on ``host`` (name or address) and ``port`` (0 = any free one).

    ``threads`` serve requests; with ``dispatcher`` waiting readers take none of them, without it (or with a waitress
    that does not take one) a few wait in threads and the others are told to come again. Raises OSError when the
    address is unknown, taken or not allowed.
    """
    settings: dict[str, Any] = {
        "sockets": [_listen(host, port)],
        "threads": threads,
        "ident": None,
        "expose_tracebacks": False,
        "asyncore_use_poll": True,  # select() fails beyond descriptor 1023
        "connection_limit": _allowed_connections(connection_limit),
        "backlog": _BACKLOG,
        "channel_request_lookahead": 1,  # keeps a channel readable while its request is served: sees it close
        "channel_timeout": _IDLE_CONNECTION_S,
        # A page of events and its head go over a little more than 1 MiB, where waitress would turn to temporary files.
        "outbuf_overflow": _OUTPUT_IN_MEMORY,
        "max_request_body_size": MAX_BODY_BYTES + 1,  # waitress refuses a body of exactly this size, too
    }
    if dispatcher is not None and "_dispatcher" in inspect.signature(create_server).parameters:
        dispatcher.set_thread_count(threads)
        settings["_dispatcher"] = dispatcher
    server = create_server(wsgi, **settings)
    server.channel_class = _Channel
    return Server(server, wsgi)


def _listen(host: str, port: int) -> socket.socket:
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
