"""One request and its reply, as waitress takes them apart and puts them together, with errors in one form."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Final

from waitress.parser import HTTPRequestParser, ParsingError
from waitress.task import ErrorTask, WSGITask
from waitress.utilities import Error, build_http_date

from flower_http.access import log_reply
from flower_http.auth import NOBODY
from flower_http.errors import CONTENT_TYPE, Problem
from flower_http.headers import ALWAYS, REQUEST_ID, request_id
from flower_http.settings import MAX_BODY_BYTES

#: waitress refuses some requests before any application sees them; these are its status codes.
_SLUGS: Final = {413: "body-too-large", 500: "internal-error"}
#: waitress quotes the line that it cannot make sense of; a client gets so much of it back, in characters.
_MOST_DETAIL: Final = 200
_DETAILS: Final = {500: "the server failed", 413: f"a body may have at most {MAX_BODY_BYTES} bytes"}


class Refusal(Error):  # type: ignore[misc]  # waitress has no types
    """A problem in the place where waitress looks for what is wrong with a request."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail)
        self.code = problem.status
        self.reason = HTTPStatus(problem.status).phrase
        self.problem = problem


class ProblemTask(ErrorTask):  # type: ignore[misc]
    """Refusals that no application sees, as the problem documents every other error is. The connection ends there."""

    def execute(self) -> None:
        """Write the reply."""
        error, request = self.request.error, self.request
        detail = _DETAILS.get(error.code) or str(error.body)[:_MOST_DETAIL]
        problem = getattr(error, "problem", None) or Problem(error.code, _SLUGS.get(error.code, "bad-request"), detail)
        body = problem.body()
        self.status = f"{error.code} {error.reason}"
        name = request_id({"HTTP_X_REQUEST_ID": request.headers.get("X_REQUEST_ID", "")})
        self.response_headers += [*ALWAYS, (REQUEST_ID, name), ("Content-Type", CONTENT_TYPE)]
        self.response_headers += problem.headers.items()
        self.set_close_on_finish()
        self.content_length = len(body)
        self.channel.discarding = not request.completed_well
        self.write(body)
        log_reply(NOBODY, request.command, request.path, error.code, name)


class _Gathering:
    """Stands in for a channel while head and first part of a reply are made."""

    def __init__(self, channel: Any) -> None:
        self.server = channel.server
        self.pieces: list[bytes] = []

    def write_soon(self, data: bytes) -> None:
        """Called by waitress."""
        self.pieces.append(data)


class ReplyTask(WSGITask):  # type: ignore[misc]
    """Makes the head of a reply by the shortest way, and sends it with the first part of the body."""

    channel: Any

    def get_environment(self) -> dict[str, Any]:
        """The WSGI environment of the request, the same one whoever asks."""
        if self.request.environ is None:
            self.request.environ = super().get_environment()
        environ: dict[str, Any] = self.request.environ
        return environ

    def build_response_header(self) -> bytes:
        """The head of the reply."""
        plain = self.version == "1.1" and self.content_length is not None and self.has_body and not self.close_on_finish
        if not plain or self.request.headers.get("CONNECTION", "keep-alive").lower() != "keep-alive":
            head: bytes = super().build_response_header()
            return head
        lines = [f"HTTP/1.1 {self.status}", *(f"{name}: {value}" for name, value in self.response_headers)]
        lines.append(f"Date: {_date(int(self.start_time))}\r\n\r\n")
        return "\r\n".join(lines).encode("latin-1")

    def write(self, data: bytes) -> None:
        """Send a part of the body, the first one together with the head."""
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


@lru_cache(maxsize=2)
def _date(second: int) -> str:
    return str(build_http_date(second))


@dataclass
class KnownLines:
    """The header lines of a connection's last request, taken apart: most clients send the same ones every time."""

    lines: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


class Parser(HTTPRequestParser):  # type: ignore[misc]
    """Refuses a request whose end a proxy in front might see elsewhere, and what follows it (RFC 9112, section 6.1)."""

    environ: dict[str, Any] | None = None
    #: What waitress logs of a request; until its first line has been understood there is nothing else to say.
    command = path = "?"

    def __init__(self, adj: Any, known: KnownLines) -> None:
        super().__init__(adj)
        self._known = known

    @property
    def completed_well(self) -> bool:
        """Whether all of the request has arrived."""
        return bool(self.completed) and (self.body_rcv is None or bool(self.body_rcv.completed))

    def received(self, data: bytes) -> int:
        """Take more of the request; how much of ``data`` belongs to it."""
        taken = int(super().received(data))
        if self.error is not None:
            self.expect_continue = False  # who asks before sending a body is told now, not once it has come
        return taken

    def parse_header(self, header_plus: bytes) -> None:
        """Take the head of the request apart."""
        end = header_plus.find(b"\r\n") + 2
        lines = header_plus[end:]
        known = lines == self._known.lines
        if known:
            self.headers.update(self._known.headers)
        try:
            super().parse_header(header_plus[:end] if known else header_plus)
        except ValueError as error:  # from urllib, which waitress does not expect; the connection would be cut
            raise ParsingError("the address is malformed") from error
        # waitress takes Transfer-Encoding out of the headers where it goes by it, which it does not for HTTP/1.0.
        if "TRANSFER_ENCODING" in self.headers or (self.chunked and "CONTENT_LENGTH" in self.headers):
            raise ParsingError("Transfer-Encoding must be the only thing that tells where the body ends")
        if not known and b"transfer-" not in lines.lower():  # waitress has taken that one out of the headers
            self._known.lines, self._known.headers = lines, dict(self.headers)
