"""Between the agent program and the model: a loopback relay that alone knows the real credential.

An agent's command can read the environment of the agent program. What it finds there is a token of one run, good on
this relay, on this machine, for as long as the run lasts. The relay swaps it for the credential and passes everything
else through as it is, streams included. A model request holds one thread for as long as it streams.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import requests
import urllib3
from waitress.channel import ClientDisconnected

from flower_core.loopback import LoopbackServer
from flower_http.settings import MODEL_SECRETS

DEFAULT_UPSTREAM: Final = "https://api.anthropic.com"
#: What the agent program asks for; nothing else is passed on.
PATHS: Final = frozenset({"/v1/messages", "/v1/messages/count_tokens"})
#: Seconds to connect, and of silence within a reply. The agent program itself gives a silent stream up after 300.
TIMEOUTS: Final = (10.0, 600.0)
#: Model requests at once: one per session, plus its workers'. Above the bound further ones wait for a thread.
_THREADS_PER_RUN, _LEAST_THREADS, _MOST_THREADS = 4, 8, 64
#: Twice what the Messages API takes. A body is put on the disk before anybody looks at its token.
_MOST_BODY_BYTES: Final = 64 * 1024 * 1024
#: Belong to one connection, not to the message (RFC 9110, section 7.6.1), or are set anew.
_HOP: Final = {
    *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer", "transfer-encoding"),
    *("upgrade", "host", "content-length", "x-api-key", "authorization", "accept-encoding"),
}
_LOOPBACK: Final = {"127.0.0.1", "::1", "localhost"}
_CHUNK: Final = 64 * 1024
#: Characters of a header's value from which on it may be a secret; shorter ones occur in ordinary words.
_LEAST_SECRET: Final = 8
_LOG = logging.getLogger(__name__)

Environ = Mapping[str, Any]
StartResponse = Callable[..., Any]


class RelayApp:
    """A WSGI callable that passes model requests on to ``upstream`` with ``credentials`` as their headers.

    Only requests that carry the token of a run (:meth:`admit`) are passed on.
    """

    def __init__(self, upstream: str, credentials: Mapping[str, str]) -> None:
        self.upstream = upstream.rstrip("/")
        self._credentials = dict(credentials)
        values = (value.removeprefix("Bearer ") for value in credentials.values())
        self._secrets = [value.encode() for value in values if len(value) >= _LEAST_SECRET]
        self._tokens: set[str] = set()
        self._lock = threading.Lock()
        self._local = threading.local()

    def admit(self) -> str:
        """A new token with which the sessions of one run reach the model, until :meth:`dismiss`."""
        token = f"flower-run-{secrets.token_urlsafe(24)}"
        with self._lock:
            self._tokens.add(_digest(token))
        return token

    def dismiss(self, token: str) -> None:
        """From now on ``token`` is refused."""
        with self._lock:
            self._tokens.discard(_digest(token))

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        path = environ["PATH_INFO"]
        if path not in PATHS or environ["REQUEST_METHOD"] != "POST":
            return _error(start_response, "404 Not Found", "not_found_error", "this relay passes model requests only")
        # Looked up by hash: how long that takes says nothing about how much of a guess was right.
        if _digest(_presented(environ)) not in self._tokens:
            return _error(start_response, "401 Unauthorized", "authentication_error", "not a token of a running run")
        try:
            reply = self._pass_on(environ, path)
            error_body = reply.content if reply.status_code >= 400 else None
        except requests.RequestException as error:
            _LOG.warning("the model's endpoint cannot be reached: %s", type(error).__name__)
            return _error(start_response, "502 Bad Gateway", "api_error", "the model's endpoint cannot be reached")
        headers = [(name, value) for name, value in reply.headers.items() if name.lower() not in _HOP]
        start_response(f"{reply.status_code} {reply.reason or 'Reply'}", headers)
        if error_body is None:
            return _Stream(reply)
        return [self._hide_secrets(_say_pause(error_body, reply.headers.get("Retry-After", "")))]

    def _hide_secrets(self, error_body: bytes) -> bytes:
        """What an endpoint says about a refused request; some of them repeat the credential in it."""
        for secret in self._secrets:
            error_body = error_body.replace(secret, b"[credential]")
        return error_body

    def _pass_on(self, environ: Environ, path: str) -> requests.Response:
        query = environ.get("QUERY_STRING", "")
        headers = {**_headers(environ), **self._credentials, "Accept-Encoding": "identity"}
        return self._session().post(
            f"{self.upstream}{path}{'?' if query else ''}{query}",
            data=environ["wsgi.input"].read(),
            headers=headers,
            stream=True,
            timeout=TIMEOUTS,
            allow_redirects=False,  # a redirect would carry the credential somewhere else
        )

    def _session(self) -> requests.Session:
        session: requests.Session | None = getattr(self._local, "session", None)
        if session is None:
            session = self._local.session = requests.Session()
            session.auth = _leave_alone
            # Where there is a proxy for the world, the way to an endpoint on this machine must not lead through it.
            session.trust_env = urlsplit(self.upstream).hostname not in _LOOPBACK
        return session


class _Stream:
    """A reply's body, handed on as it arrives; closing it lets go of the connection."""

    def __init__(self, reply: requests.Response) -> None:
        self._reply = reply

    def __iter__(self) -> Iterator[bytes]:
        raw: urllib3.HTTPResponse = self._reply.raw
        try:
            while chunk := raw.read1(_CHUNK):
                yield chunk
        except (OSError, urllib3.exceptions.HTTPError) as error:
            # The agent program must see a cut stream as one, not as a reply that ended well.
            raise ClientDisconnected from error

    def close(self) -> None:
        """Called by the server when the reply is through, or when nobody reads it any more."""
        self._reply.close()


class Relay:
    """The relay on a loopback port of its own, in a daemon thread. ``runs`` is how many run at a time.

    Listens once it is made; serves once it is started.
    """

    def __init__(self, upstream: str, credentials: Mapping[str, str], *, runs: int) -> None:
        self.app = RelayApp(upstream, credentials)
        self._server = LoopbackServer(
            self.app,
            name="flower-relay",
            threads=min(max(_LEAST_THREADS, runs * _THREADS_PER_RUN), _MOST_THREADS),
            channel_timeout=3600,
            channel_request_lookahead=1,
            max_request_body_size=_MOST_BODY_BYTES,
        )

    @property
    def url(self) -> str:
        """What the agent program is given as ANTHROPIC_BASE_URL."""
        return self._server.url

    @property
    def upstream(self) -> str:
        """The endpoint behind it."""
        return self.app.upstream

    @contextlib.contextmanager
    def lend(self, environ: Mapping[str, str]) -> Iterator[dict[str, str]]:
        """``environ`` with this relay and a fresh token in place of the endpoint and everything that opens it.

        The token is good until the context is left.
        """
        token = self.app.admit()
        plain = {name: value for name, value in environ.items() if name not in MODEL_SECRETS}
        # Where there is a proxy for the world, the way to the relay must not lead through it.
        # Both names say the same, since the one in small letters would hide what only the other one knows.
        exceptions = filter(None, (plain.get("no_proxy") or plain.get("NO_PROXY"), "127.0.0.1"))
        direct = dict.fromkeys(("NO_PROXY", "no_proxy"), ",".join(exceptions))
        try:
            yield {**plain, **direct, "ANTHROPIC_BASE_URL": self.url, "ANTHROPIC_API_KEY": token}
        finally:
            self.app.dismiss(token)

    def start(self) -> None:
        """Serve."""
        self._server.start()

    def close(self) -> None:
        """Stop serving; streams in flight are cut."""
        self._server.close(drain_s=1.0)


def relay_for(environ: Mapping[str, str], *, runs: int) -> Relay | None:
    """A relay to the endpoint that ``environ`` names, holding its credential; None where that one cannot be swapped."""
    headers = credential_headers(environ)
    if headers is None:
        return None
    return Relay(environ.get("ANTHROPIC_BASE_URL") or DEFAULT_UPSTREAM, headers, runs=runs)


def credential_headers(environ: Mapping[str, str]) -> dict[str, str] | None:
    """The headers that stand for the credential in ``environ``; None where it must go to the agent program itself.

    The agent program treats a subscription's token (CLAUDE_CODE_OAUTH_TOKEN) in ways of its own, so that one cannot
    be swapped.
    """
    headers = dict(_custom_headers(environ.get("ANTHROPIC_CUSTOM_HEADERS", "")))
    if environ.get("ANTHROPIC_API_KEY"):
        return {**headers, "x-api-key": environ["ANTHROPIC_API_KEY"]}
    if environ.get("ANTHROPIC_AUTH_TOKEN"):
        return {**headers, "Authorization": f"Bearer {environ['ANTHROPIC_AUTH_TOKEN']}"}
    return None


def _custom_headers(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if colon and name.strip():
            yield name.strip(), value.strip()


def _presented(environ: Environ) -> str:
    bearer = environ.get("HTTP_AUTHORIZATION", "")
    return str(environ.get("HTTP_X_API_KEY") or bearer.removeprefix("Bearer "))


def _headers(environ: Environ) -> dict[str, str]:
    named = {key[5:].replace("_", "-").lower(): value for key, value in environ.items() if key.startswith("HTTP_")}
    kept = {name: value for name, value in named.items() if name not in _HOP}
    return {**kept, "content-type": environ.get("CONTENT_TYPE") or "application/json"}


def _say_pause(error_body: bytes, seconds: str) -> bytes:
    """``error_body`` with the pause the endpoint asks for in its words.

    The agent program passes on the words of an error, but no header: a long pause, over which it gives up at once,
    would be known to nobody (measured with 2.1.332).
    """
    try:
        document = json.loads(error_body)
        document["error"]["message"] += f" (retry-after: {int(seconds)} s)"
    except (ValueError, LookupError, TypeError, RecursionError):  # no pause in seconds, or no error as they should be
        return error_body
    return json.dumps(document, ensure_ascii=False).encode()


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


def _leave_alone(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """Keeps requests from looking for a credential in ~/.netrc; ours is set already."""
    return request


def _error(start_response: StartResponse, status: str, kind: str, message: str) -> list[bytes]:
    body = f'{{"type": "error", "error": {{"type": "{kind}", "message": "{message}"}}}}'.encode()
    start_response(status, [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
    return [body]
