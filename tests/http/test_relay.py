"""The relay passes model requests on, and nobody but a running run's agent gets through it."""

from __future__ import annotations

import http.server
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests

from flower_core.rehearsal import RehearsalServer
from flower_http.relay import Relay, credential_headers

BODY = {"model": "m", "max_tokens": 10, "messages": [{"role": "user", "content": "hello"}]}
PLAY = {"default": [{"text": "one two three four five six seven eight"}]}


class Recorder(http.server.BaseHTTPRequestHandler):
    """An upstream that keeps what it was sent and replies in two chunks, the second once it is told to."""

    seen: list[tuple[str, dict[str, str], bytes]]
    go_on: threading.Event
    cut = False
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.seen.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
        self.send_response(200, "Fine")
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("request-id", "req_1")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.write(b"5\r\nfirst\r\n")
        self.wfile.flush()
        self.go_on.wait(10)
        if self.cut:
            self.close_connection = True
            return
        self.wfile.write(b"6\r\nsecond\r\n0\r\n\r\n")

    def log_message(self, *args: Any) -> None:
        """Be quiet."""


@pytest.fixture
def upstream() -> Iterator[http.server.ThreadingHTTPServer]:
    handler = type("Handler", (Recorder,), {"seen": [], "go_on": threading.Event()})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def handler_of(server: http.server.ThreadingHTTPServer) -> Any:
    return server.RequestHandlerClass


@pytest.fixture
def relay(upstream: http.server.ThreadingHTTPServer) -> Iterator[Relay]:
    made = Relay(f"http://127.0.0.1:{upstream.server_port}/base/", {"x-api-key": "the-real-key"}, runs=1)
    made.start()
    yield made
    made.close()


def post(relay: Relay, token: str, path: str = "/v1/messages", **more: Any) -> requests.Response:
    headers = {"x-api-key": token, "anthropic-version": "2023-06-01", **more.pop("headers", {})}
    return requests.post(relay.url + path, json=BODY, headers=headers, timeout=20, **more)


def test_the_token_of_a_run_is_swapped_for_the_credential(
    relay: Relay, upstream: http.server.ThreadingHTTPServer
) -> None:
    handler_of(upstream).go_on.set()
    token = relay.app.admit()
    reply = post(relay, token, "/v1/messages?beta=true", headers={"Authorization": "Bearer nonsense"})
    assert (reply.status_code, reply.content, reply.headers["request-id"]) == (200, b"firstsecond", "req_1")
    [(path, headers, body)] = handler_of(upstream).seen
    assert path == "/base/v1/messages?beta=true"
    assert headers["x-api-key"] == "the-real-key"
    assert headers["anthropic-version"] == "2023-06-01"
    assert "authorization" not in headers
    assert token not in repr(headers)
    assert json.loads(body) == BODY


def test_what_streams_in_streams_out(relay: Relay, upstream: http.server.ThreadingHTTPServer) -> None:
    with post(relay, relay.app.admit(), stream=True) as reply:
        pieces = reply.iter_content(None)
        assert next(pieces) == b"first"  # and the upstream has not written the rest yet
        handler_of(upstream).go_on.set()
        assert b"".join(pieces) == b"second"


def test_a_stream_that_is_cut_arrives_cut(relay: Relay, upstream: http.server.ThreadingHTTPServer) -> None:
    handler_of(upstream).cut = True
    handler_of(upstream).go_on.set()
    with pytest.raises(requests.exceptions.ChunkedEncodingError):
        post(relay, relay.app.admit())


@pytest.mark.parametrize("token", ["", "guess", "the-real-key"])
def test_nobody_else_gets_through(relay: Relay, upstream: http.server.ThreadingHTTPServer, token: str) -> None:
    relay.app.admit()
    reply = post(relay, token)
    assert reply.status_code == 401
    assert reply.json()["error"]["type"] == "authentication_error"
    assert handler_of(upstream).seen == []


def test_a_token_ends_with_its_run(relay: Relay, upstream: http.server.ThreadingHTTPServer) -> None:
    handler_of(upstream).go_on.set()
    first, second = relay.app.admit(), relay.app.admit()
    relay.app.dismiss(first)
    assert post(relay, first).status_code == 401
    assert post(relay, second).status_code == 200


@pytest.mark.parametrize("path", ["/v1/models", "/v1/messages/../files", "/", "/v1/messages/batches"])
def test_only_model_requests_are_passed_on(relay: Relay, upstream: http.server.ThreadingHTTPServer, path: str) -> None:
    assert post(relay, relay.app.admit(), path).status_code == 404
    assert handler_of(upstream).seen == []


def test_a_request_larger_than_any_the_model_takes_is_refused_before_it_is_read(relay: Relay) -> None:
    with socket.create_connection(("127.0.0.1", urlsplit(relay.url).port or 0), timeout=10) as stranger:
        stranger.sendall(b"POST /v1/messages HTTP/1.1\r\nHost: h\r\nContent-Length: 900000000\r\n\r\n")
        assert stranger.recv(65536).startswith(b"HTTP/1.1 413 ")


def test_an_upstream_that_is_gone_is_a_bad_gateway() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        dead = Relay(f"http://127.0.0.1:{free.getsockname()[1]}", {"x-api-key": "k"}, runs=1)
    dead.start()
    try:
        reply = post(dead, dead.app.admit())
        assert (reply.status_code, reply.json()["error"]["type"]) == (502, "api_error")
    finally:
        dead.close()


def test_the_errors_of_the_model_arrive_as_they_are() -> None:
    with RehearsalServer({"default": [{"error": "overloaded"}]}) as rehearsal:
        made = Relay(rehearsal.url, {"x-api-key": "k"}, runs=1)
        made.start()
        try:
            reply = post(made, made.app.admit())
            assert (reply.status_code, reply.json()["error"]["type"]) == (529, "overloaded_error")
        finally:
            made.close()


@pytest.mark.parametrize(
    ("asked", "words"),
    [("3600", "Slow down (retry-after: 3600 s)"), ("Wed, 21 Oct 2026 07:28:00 GMT", "Slow down"), ("", "Slow down")],
)
def test_a_pause_the_endpoint_asks_for_stands_in_its_words(asked: str, words: str) -> None:
    headers = {"retry-after": asked} if asked else {}
    said = {"error": [429, "rate_limit_error", "Slow down"], "headers": headers}
    with RehearsalServer({"default": [said]}) as rehearsal:
        made = Relay(rehearsal.url, {"x-api-key": "k"}, runs=1)
        made.start()
        try:
            reply = post(made, made.app.admit())
            assert (reply.status_code, reply.headers.get("retry-after", "")) == (429, asked)
            assert reply.json()["error"] == {"type": "rate_limit_error", "message": words}
        finally:
            made.close()


@pytest.mark.parametrize("header", [("x-api-key", "sk-the-real-key"), ("Authorization", "Bearer sk-the-real-key")])
def test_an_error_that_repeats_the_credential_arrives_without_it(header: tuple[str, str]) -> None:
    said = [401, "authentication_error", "the key sk-the-real-key is not known here"]
    with RehearsalServer({"default": [{"error": said}]}) as rehearsal:
        made = Relay(rehearsal.url, dict([header]), runs=1)
        made.start()
        try:
            reply = post(made, made.app.admit())
            assert reply.status_code == 401
            assert reply.json()["error"]["message"] == "the key [credential] is not known here"
        finally:
            made.close()


def test_what_is_lent_holds_no_credential_and_ends_with_the_run(
    relay: Relay, upstream: http.server.ThreadingHTTPServer
) -> None:
    handler_of(upstream).go_on.set()
    secrets = {"ANTHROPIC_API_KEY": "s1", "ANTHROPIC_AUTH_TOKEN": "s2", "ANTHROPIC_CUSTOM_HEADERS": "x: s3"}
    with relay.lend({**secrets, "PATH": "/bin", "ANTHROPIC_BASE_URL": "http://far", "no_proxy": "here"}) as environ:
        assert not {"s1", "s2", "x: s3", "http://far"} & set(environ.values())
        assert (environ["PATH"], environ["no_proxy"]) == ("/bin", "here,127.0.0.1")
        assert environ["ANTHROPIC_BASE_URL"] == relay.url
        assert post(relay, environ["ANTHROPIC_API_KEY"]).status_code == 200
    assert post(relay, environ["ANTHROPIC_API_KEY"]).status_code == 401


@pytest.mark.parametrize(
    ("theirs", "lent"),
    [
        ({}, "127.0.0.1"),
        ({"NO_PROXY": "far"}, "far,127.0.0.1"),
        ({"no_proxy": "near", "NO_PROXY": "far"}, "near,127.0.0.1"),
    ],
)
def test_what_is_reached_without_a_proxy_stays_so_and_the_relay_is_one_of_them(
    relay: Relay, theirs: dict[str, str], lent: str
) -> None:
    with relay.lend(theirs) as environ:
        assert (environ["NO_PROXY"], environ["no_proxy"]) == (lent, lent)


@pytest.mark.parametrize(
    ("environ", "headers"),
    [
        ({"ANTHROPIC_API_KEY": "k"}, {"x-api-key": "k"}),
        ({"ANTHROPIC_AUTH_TOKEN": "t"}, {"Authorization": "Bearer t"}),
        ({"ANTHROPIC_API_KEY": "k", "ANTHROPIC_CUSTOM_HEADERS": "a: b\nc:d"}, {"a": "b", "c": "d", "x-api-key": "k"}),
        ({"CLAUDE_CODE_OAUTH_TOKEN": "o"}, None),
    ],
)
def test_the_credential_decides_the_headers(environ: dict[str, str], headers: dict[str, str] | None) -> None:
    assert credential_headers(environ) == headers
