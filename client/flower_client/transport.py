"""One HTTP exchange, and the same exchange again while that can help. Nothing here knows what a run is."""

from __future__ import annotations

import ipaddress
import json
import os
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from typing import Any
from urllib.parse import urlsplit

import requests
import urllib3

from flower_client.advice import MAYBE_DONE, NO_HANDSHAKE, NOT_OURS, URL, for_connection, for_problem
from flower_client.config import TIMEOUT_S
from flower_client.errors import (
    BadReply,
    ConfigError,
    NotAllowed,
    ProblemError,
    Refused,
    Unreachable,
)
from flower_client.retrying import Backoff, may_succeed_later, pause_after, retry_after_of

CONNECT_TIMEOUT_S = 10.0
#: What OpenSSL calls a server that is not trusted, or one that speaks no TLS.
_HANDSHAKE = ("CERTIFICATE_VERIFY_FAILED", "WRONG_VERSION_NUMBER", "HTTP_REQUEST")

Sleep = Callable[[float], object]


@dataclass(frozen=True)
class Reply:
    """A good reply: its JSON (None where there is no content), and its headers (case-insensitive)."""

    status: int
    data: Any
    headers: Mapping[str, str]


class BearerAuth(requests.auth.AuthBase):
    """Puts the token on a request.

    As an auth object, and there even without a token: otherwise requests would look into ~/.netrc and replace our
    header with what it finds there.
    """

    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Called by requests for every request it prepares."""
        if self._token:
            request.headers["Authorization"] = f"Bearer {self._token}"
        return request


class Transport:
    """A server address, a token and a pool of connections. Not for several threads at once; close it at the end."""

    def __init__(
        self,
        url: str,
        token: str = "",
        *,
        attempts: int = 4,
        timeout_s: float = TIMEOUT_S,
        backoff: Backoff | None = None,
        sleep: Sleep = time.sleep,
    ) -> None:
        self.url = checked_url(url)
        self.timeout_s = timeout_s
        self.attempts = attempts
        self.backoff = backoff or Backoff()
        self.sleep = sleep
        self._session = requests.Session()
        self._session.auth = BearerAuth(checked_token(token))
        agent = f"flower-client/{metadata.version('flower-client')}"
        self._session.headers.update({"User-Agent": agent, "Accept": "application/json"})
        # A proxy from the environment cannot reach this machine's loopback address; its authority holds there, too.
        if is_loopback(self.url):
            self._session.trust_env = False
            self._session.verify = os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE") or True

    def close(self) -> None:
        """Close every connection."""
        self._session.close()

    def call(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        key: str = "",
    ) -> Reply:
        """Exchange, and repeat up to ``attempts`` times in all while there is no usable reply.

        Only for GET and DELETE, or with an idempotency ``key``, under which the server carries a request out once
        however often it arrives. Raises what :meth:`exchange` raises, with what earlier attempts may have done.
        """
        failures, maybe_done = 0, False
        while True:
            try:
                return self.exchange(method, path, params=params, body=body, key=key)
            except (Unreachable, ProblemError) as error:
                failures += 1
                maybe_done = error.maybe_done = error.maybe_done or maybe_done
                if failures >= self.attempts or not may_succeed_later(error):
                    if maybe_done and method != "GET" and isinstance(error, Unreachable):
                        error.hint = f"{error.hint} {MAYBE_DONE}".lstrip()
                    raise
                self.sleep(pause_after(error, failures, self.backoff))

    def exchange(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        key: str = "",
        held_s: float = 0,
    ) -> Reply:
        """One request and its reply, which the server may hold for ``held_s`` seconds.

        Raises Unreachable, BadReply, NotAllowed or Refused, and ConfigError for what cannot be sent.
        """
        try:
            data = None if body is None else json.dumps(body, allow_nan=False).encode()
        except ValueError as error:
            raise ConfigError("a number must be finite") from error
        more = {"params": params, "data": data, "headers": _headers(body, key)}
        with self._send(method, path, held_s=held_s, **more) as response:
            return self._judge(response)

    @contextmanager
    def stream(self, path: str, headers: Mapping[str, str]) -> Iterator[requests.Response]:
        """A good reply to GET ``path`` whose body is still to come.

        Raises what :meth:`exchange` raises; Unreachable also inside the block, when the body breaks off.
        """
        with self._send("GET", path, headers=headers, stream=True) as response:
            try:
                if not 200 <= response.status_code < 300:
                    self._judge(response)
                yield response
            except requests.RequestException as error:
                raise self._unreachable(error) from error

    def _send(self, method: str, path: str, *, held_s: float = 0, **more: Any) -> requests.Response:
        try:
            timeout = (min(CONNECT_TIMEOUT_S, self.timeout_s), held_s + self.timeout_s)
            return self._session.request(method, self.url + path, timeout=timeout, allow_redirects=False, **more)
        except ValueError as error:  # an address or a header that is none, found out before anything is sent
            raise ConfigError(f"{self.url}: {_reason(error)}", hint=URL) from error
        except (requests.RequestException, OSError) as error:
            failure = self._unreachable(error)
            failure.maybe_done = not _never_left(error)
            raise failure from error

    def _unreachable(self, error: BaseException) -> Unreachable:
        reason = _reason(error)
        return Unreachable(f"{self.url}: {reason}", hint=for_connection(reason))

    def _judge(self, response: requests.Response) -> Reply:
        status, data = response.status_code, json_of(response)
        retry_after = retry_after_of(response.headers)
        if 200 <= status < 300:
            if data is None and status != 204:
                raise BadReply(f"{self.url} answered with something other than JSON", hint=NOT_OURS, status=status)
            return Reply(status, data, response.headers)
        if 300 <= status < 400:
            where = response.headers.get("Location", "another address")
            raise BadReply(f"{self.url} redirects to {where}", hint="Give that address with --url.", status=status)
        problem = data if isinstance(data, dict) else {}
        if status in (401, 403):
            document = {"title": "not allowed", **problem}
            raise NotAllowed(status, document, hint=for_problem(status, problem), retry_after_s=retry_after)
        if status >= 500 or "type" not in problem:
            words = problem.get("detail") or problem.get("title") or f"HTTP {status} without a problem document"
            raise (Unreachable if problem else BadReply)(
                f"{self.url}: {words}",
                hint=for_problem(status, problem) if problem else NOT_OURS,
                status=status,
                retry_after_s=retry_after,
            )
        raise Refused(status, problem, hint=for_problem(status, problem), retry_after_s=retry_after)


def checked_url(url: str) -> str:
    """``url`` without white space around it and a trailing slash.

    Raises ConfigError for anything but a plain http or https address.
    """
    url = url.strip()
    try:
        parts = urlsplit(url)
        port_is_good = parts.port is None or parts.port > 0
    except ValueError as error:
        raise ConfigError(f"{url!r} is not an address", hint=URL) from error
    if parts.username is not None or parts.password is not None:
        raise ConfigError("the server's address must not carry a name or a password", hint="Use --token.")
    in_one_piece = url.isprintable() and " " not in url  # urlsplit drops line ends, and what they stand for with them
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_is_good or not in_one_piece:
        raise ConfigError(f"{url!r} is not an http or https address", hint=URL)
    if parts.query or parts.fragment:
        raise ConfigError(f"{url!r} has a query or a fragment", hint=URL)
    return url.rstrip("/")


def checked_token(token: str) -> str:
    """``token`` without white space around it. Raises ConfigError, not showing it, when it cannot be in a header."""
    token = token.strip()
    # requests would put the whole header, token included, into its complaint.
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise ConfigError("the token has characters that no token has", hint="Copy it again, in one piece.")
    return token


def is_loopback(url: str) -> bool:
    """Whether ``url`` names this very machine."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _headers(body: Mapping[str, Any] | None, key: str) -> dict[str, str]:
    headers = {} if body is None else {"Content-Type": "application/json"}
    if key:
        if not (key.isascii() and key.isprintable() and key == key.strip()):
            raise ConfigError("an idempotency key is of printable ASCII characters, with no space around them")
        headers["Idempotency-Key"] = key
    return headers


def is_json(response: requests.Response) -> bool:
    """Whether the body is declared as JSON."""
    kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    return kind == "application/json" or kind.endswith("+json")


def json_of(response: requests.Response) -> Any:
    """The body when it is declared as JSON and is; None otherwise."""
    try:
        return json.loads(response.content) if is_json(response) else None
    except (ValueError, RecursionError):
        return None


def _never_left(error: BaseException) -> bool:
    """Whether no connection came about, so that the server cannot have seen the request."""
    if isinstance(error, requests.ConnectTimeout) or _in_handshake(error):
        return True
    reason = getattr(error.args[0], "reason", None) if error.args else None
    if isinstance(reason, urllib3.exceptions.SSLError):  # in the handshake, before anything is sent, or later
        cause = _innermost(error)
        return isinstance(cause, ssl.SSLError) and cause.reason in _HANDSHAKE
    return isinstance(reason, urllib3.exceptions.NewConnectionError)


def _reason(error: BaseException) -> str:
    """The innermost cause, in words a person knows: requests wraps "Connection refused" four times."""
    if isinstance(error, requests.Timeout):
        return NO_HANDSHAKE if _in_handshake(error) else "no answer in time"
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        return "the reply broke off"
    seen = _innermost(error)
    if isinstance(seen, OSError) and seen.strerror:
        return seen.strerror
    return str(seen) or type(seen).__name__


def _in_handshake(error: BaseException) -> bool:
    """Whether the time ran out before TLS was agreed on, which requests tells as any other timeout of a read."""
    cause = _innermost(error)
    return isinstance(cause, TimeoutError) and "handshake" in str(cause)


def _innermost(error: BaseException) -> BaseException:
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    return error
