"""The scripted Messages API: a WSGI callable, and a loopback server around it.

Everything but the model's words stays real when the agent program is pointed here with ``ANTHROPIC_BASE_URL`` and
any key: the SDK, the program, its tools, hooks, files.
"""

from __future__ import annotations

import json
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, Self

from waitress.channel import ClientDisconnected

from flower_core.loopback import LoopbackServer
from flower_core.rehearsal import wire
from flower_core.rehearsal.conversation import Conversation
from flower_core.rehearsal.parts import Reply
from flower_core.rehearsal.script import DEFAULT_PLAY, Play

StartResponse = Callable[..., Any]
Environ = Mapping[str, Any]

_JSON = ("Content-Type", "application/json")
#: A held stream sends a ping this often (seconds), which is also how it notices that nobody listens any more.
_PING_S = 0.25


@dataclass
class Request:
    """One request as it was understood; ``rejected`` says why the play had no say, "" when it had.

    ``turn`` counts replies in the history, ``count`` the speaker's requests so far, both from 0.
    """

    speaker: str
    turn: int
    count: int
    body: Mapping[str, Any] = field(repr=False)
    session: str = ""
    rejected: str = ""

    @property
    def talk(self) -> Conversation:
        """The request, taken apart."""
        return Conversation(self.body)


class RehearsalApp:
    """A WSGI callable that answers ``POST /v1/messages`` from a play.

    ``pairing`` turns on the real API's refusal of unpaired tool calls. ``pace`` multiplies the play's delays and
    gaps, on top of its own; with 0 it is played without a pause. ``requests`` holds the last ``keep``
    requests, oldest first; headers, and so the key, are never kept. Several sessions may use one object at once.
    """

    def __init__(self, play: Play, *, pairing: bool = True, pace: float = 1.0, keep: int = 200) -> None:
        self.play = play
        self.pace = pace * play.pace
        self.pairing = pairing
        self._requests: deque[Request] = deque(maxlen=keep)
        self._counts: Counter[str] = Counter()
        self._gates: dict[str, threading.Event] = {}
        self._lock = threading.Lock()
        self._closed = threading.Event()

    @property
    def requests(self) -> list[Request]:
        """A copy of what was asked so far, oldest first."""
        with self._lock:
            return list(self._requests)

    def release(self, name: str) -> None:
        """Let every reply that hangs on ``name`` go on, now and from now on."""
        self._gate(name).set()

    def close(self) -> None:
        """End every delay and hang; replies under way are sent without further pause."""
        self._closed.set()

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one HTTP request (PEP 3333)."""
        path, method = environ.get("PATH_INFO", ""), environ["REQUEST_METHOD"]
        if method != "POST" or path not in ("/v1/messages", "/v1/messages/count_tokens"):
            reply = _error(start_response, 404, "not_found_error", f"Not Found: {method} {path}")
            return [] if method == "HEAD" else reply
        try:
            length = int(environ.get("CONTENT_LENGTH") or 0)
            body = json.loads(environ["wsgi.input"].read(length))
        except (ValueError, RecursionError) as error:
            return _error(start_response, 400, "invalid_request_error", f"The request body is not valid JSON: {error}")
        if not isinstance(body, dict) or not isinstance(body.get("messages"), list):
            return _error(start_response, 400, "invalid_request_error", "messages: Field required")
        if path.endswith("count_tokens"):
            return _json(start_response, 200, {"input_tokens": wire.tokens(body)})
        return self._messages(body, str(environ.get("HTTP_X_CLAUDE_CODE_SESSION_ID", "")), start_response)

    def _messages(self, body: Mapping[str, Any], session: str, start_response: StartResponse) -> Iterable[bytes]:
        talk = Conversation(body)
        request = self._note(talk, session)
        if self.pairing and (problem := wire.pairing_error(talk.messages)):
            request.rejected = problem
            return _error(start_response, 400, "invalid_request_error", problem)
        values = self.play.values(talk)
        reply = self.play.reply(talk, request.count, values)
        if reply is None:
            request.rejected = f"the play has no reply for {request.speaker!r} at turn {request.turn}"
            return _error(start_response, 400, "invalid_request_error", request.rejected)
        self._pause(reply.delay)
        if reply.error:
            return _error(start_response, *reply.error, headers=reply.headers)
        whole = wire.message(body, reply.filled(values), reply.stop, reply.usage)
        if body.get("stream"):
            headers = [("Content-Type", "text/event-stream; charset=utf-8"), ("Cache-Control", "no-cache")]
            start_response("200 OK", [*headers, *reply.headers.items()])
            return self._stream(reply, whole)
        return self._whole(reply, whole, start_response)

    def _note(self, talk: Conversation, session: str) -> Request:
        speaker = self.play.speaker(talk)
        with self._lock:
            request = Request(speaker, talk.turn, self._counts[speaker], talk.body, session)
            self._counts[speaker] += 1
            self._requests.append(request)
        return request

    def _whole(self, reply: Reply, whole: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        # Without a stream there is nothing to hold half-way or to cut in the middle, so both come before the reply.
        while self._held(reply):
            pass
        if reply.sse_error:
            status = 529 if reply.sse_error[0] == "overloaded_error" else 500
            return _error(start_response, status, *reply.sse_error, headers=reply.headers)
        if reply.cut is not None:
            raise ClientDisconnected("the play cuts the connection here")
        return _json(start_response, 200, whole, reply.headers)

    def _stream(self, reply: Reply, whole: dict[str, Any]) -> Iterator[bytes]:
        # A comment first: once the headers are out, a cut is a broken stream and not an HTTP error.
        yield b": rehearsal\n\n"
        for number, event in enumerate(self._events(reply, whole)):
            if reply.cut is not None and number >= reply.cut:
                raise ClientDisconnected("the play cuts the connection here")
            yield event

    def _events(self, reply: Reply, whole: dict[str, Any]) -> Iterator[bytes]:
        yield wire.opening(whole)
        if reply.sse_error:
            error_type, text = reply.sse_error
            yield wire.sse("error", error={"type": error_type, "message": text})
            return
        events = [pair for index, block in enumerate(whole["content"]) for pair in wire.block_events(index, block)]
        last_delta = max((number for number, (_, delta) in enumerate(events) if delta), default=-1)
        for number, (event, delta) in enumerate(events):
            while number == last_delta and self._held(reply):
                yield wire.sse("ping")
            yield event
            if delta:
                self._pause(reply.gap)
        yield from wire.closing(whole)

    def _pause(self, seconds: float) -> None:
        if seconds and self.pace:
            self._closed.wait(seconds * self.pace)

    def _held(self, reply: Reply) -> bool:
        return bool(reply.hang) and not self._closed.is_set() and not self._gate(reply.hang).wait(_PING_S)

    def _gate(self, name: str) -> threading.Event:
        with self._lock:
            return self._gates.setdefault(name, threading.Event())


class RehearsalServer:
    """The scripted API on 127.0.0.1. Use as a context manager, or call :meth:`start` and :meth:`close`.

    ``play`` is a Play, the name or path of one, a dict of the same form, or None for the shipped one. ``port`` 0
    takes any free one; ``pairing`` and ``pace`` as for :class:`RehearsalApp`. Each session that waits for its reply
    holds one of ``threads``. Raises what :meth:`Play.load` raises, and OSError when the port is taken.
    """

    def __init__(
        self,
        play: Play | Mapping[str, Any] | Path | str | None = None,
        *,
        port: int = 0,
        pairing: bool = True,
        pace: float = 1.0,
        threads: int = 16,
    ) -> None:
        if isinstance(play, Mapping):
            play = Play.from_dict(play)
        if not isinstance(play, Play):
            play = Play.load(play or DEFAULT_PLAY)
        self.app = RehearsalApp(play, pairing=pairing, pace=pace)
        self._server = LoopbackServer(self.app, name="rehearsal", threads=threads, port=port, connection_limit=1000)

    @property
    def port(self) -> int:
        """The port it listens on."""
        return self._server.port

    @property
    def url(self) -> str:
        """What ``ANTHROPIC_BASE_URL`` has to be."""
        return self._server.url

    def start(self) -> Self:
        """Begin to answer; a connection made earlier has been waiting in the kernel's queue. Once per object."""
        self._server.start()
        return self

    def close(self) -> None:
        """Stop answering and free the port. Replies under way are sent to their end first, without pauses."""
        self.app.close()
        self._server.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()


def _json(
    start_response: StartResponse, status: int, data: Mapping[str, Any], headers: Mapping[str, str] | None = None
) -> list[bytes]:
    body = json.dumps(data).encode()
    start_response(_status(status), [_JSON, ("Content-Length", str(len(body))), *(headers or {}).items()])
    return [body]


def _error(
    start_response: StartResponse, status: int, error_type: str, text: str, headers: Mapping[str, str] | None = None
) -> list[bytes]:
    return _json(start_response, status, wire.error_body(error_type, text), headers)


def _status(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:  # 529 has no name
        return f"{status} Error"
