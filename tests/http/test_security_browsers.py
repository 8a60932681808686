"""What a web page could make the operator's browser send to a server that needs no token, on a real socket."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flower_http.headers import ALWAYS
from tests.http.event_tools import Reply
from tests.http.secured import Secured, secured

PATHS = ("/", "/healthz", "/readyz", "/metrics", "/openapi.yaml", "/runs", "/runs/RUN", "/runs/RUN/events", "/events")
START = b'{"task": "from a page"}'


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured(tmp_path_factory.mktemp("browsers"), tokens=False) as running:
        yield running


def named(live: Secured, host: str, path: str = "/runs", version: str = "1.1") -> Reply:
    """The reply to a request under this Host header."""
    path = path.replace("RUN", live.run_id)
    return live.raw(f"GET {path} HTTP/{version}\r\nHost: {host}\r\n\r\n".encode("latin-1"))


@pytest.mark.parametrize("path", PATHS)
def test_a_rebound_name_is_served_nothing_at_all(live: Secured, path: str) -> None:
    reply = named(live, "evil.example", path)
    assert (reply.status, reply.json["type"]) == (403, "host-not-allowed")
    assert named(live, "localhost:8420", path).status in (200, 409)


@pytest.mark.parametrize(
    "host",
    [
        *("localhost", "LocalHost", "localhost:1", "localhost:65535", "127.0.0.1", "127.0.0.1:8420", "127.1.2.3"),
        *("[::1]", "[::1]:8420", " localhost "),
    ],
)
def test_names_of_this_machine_are_served(live: Secured, host: str) -> None:
    assert named(live, host).status == 200


@pytest.mark.parametrize(
    "host",
    [
        *(
            "evil.example",
            "EVIL.EXAMPLE",
            "evil.example:8420",
            "localhost.evil.example",
            "evil-localhost",
            "localhosts",
        ),
        *("localhost.", "localhost.:8420", "127.0.0.1.", "127.0.0.1.evil.example", "127.0.0.1.nip.io", "1127.0.0.1"),
        *(
            "10.0.0.1",
            "0.0.0.0",  # noqa: S104 - nothing is bound here
            "0",
            "127.1",
            "2130706433",
            "0x7f.0.0.1",
            "169.254.169.254",
            "[::]",
            "[::ffff:10.0.0.1]",
        ),
        *("::1", "[::1", "[::1]evil.example", "[::1%25lo]", "[fe80::1]", "[::1]:", "localhost:", "localhost:x"),
        *(
            "localhost:80@evil.example",
            "user@localhost",
            "localhost/",
            "localhost, evil.example",
            "evil.example, localhost",
        ),
        *(
            "localhost evil.example",
            "local\thost",
            "loc\x00alhost",
            "lоcalhost".encode().decode("latin-1"),
            "127。0。0。1".encode().decode("latin-1"),
        ),
    ],
)
def test_any_other_name_is_refused(live: Secured, host: str) -> None:
    reply = named(live, host)
    assert reply.status in (400, 403)
    assert reply.json["type"] in ("host-not-allowed", "bad-request")


@pytest.mark.parametrize("lines", ["Host: localhost\r\nHost: evil.example", "Host: evil.example\r\nHost: localhost"])
def test_two_names_are_none(live: Secured, lines: str) -> None:
    assert live.raw(f"GET /runs HTTP/1.1\r\n{lines}\r\n\r\n".encode()).status in (400, 403)


@pytest.mark.parametrize(
    "line",
    ["X-Forwarded-For: 127.0.0.1", "X-Forwarded-Host: localhost", "Forwarded: for=_hidden", "X-Real-IP: ::1"],
)
def test_what_comes_through_a_proxy_is_not_local(live: Secured, line: str) -> None:
    for host in ("localhost", "evil.example"):
        reply = live.raw(f"GET /runs HTTP/1.1\r\nHost: {host}\r\n{line}\r\n\r\n".encode())
        assert (reply.status, reply.json["type"]) == (403, "host-not-allowed")


def test_a_program_that_names_no_host_is_served(live: Secured) -> None:
    assert live.raw(b"GET /runs HTTP/1.0\r\n\r\n").status == 200


@pytest.mark.parametrize(
    "headers",
    [
        "Origin: https://evil.example\r\n",
        "Origin: http://localhost:8420\r\n",
        "Origin: null\r\n",
        "Origin:\r\n",
        "Sec-Fetch-Site: cross-site\r\n",
        "Sec-Fetch-Site: same-site\r\n",
        "Sec-Fetch-Site: same-origin\r\n",
        "Sec-Fetch-Site: none, cross-site\r\n",
        "Sec-Fetch-Site: NONE\r\n",
        "ORIGIN: https://evil.example\r\nSec-Fetch-Site: none\r\n",
    ],
)
@pytest.mark.parametrize("kind", ["application/json", "application/x-www-form-urlencoded", "text/plain"])
def test_no_page_can_start_a_run(live: Secured, headers: str, kind: str) -> None:
    body = START if kind != "application/x-www-form-urlencoded" else b"task=from+a+page"
    before = len(live.manager.runs)
    reply = live.post("/runs", body, kind, headers)
    assert (reply.status, reply.json["type"]) == (403, "cross-origin")
    assert len(live.manager.runs) == before


@pytest.mark.parametrize("method", ["POST", "DELETE", "PUT", "PATCH"])
def test_no_method_that_changes_something_is_let_through(live: Secured, method: str) -> None:
    target = "/interrupt" if method == "POST" else f"/runs/{live.run_id}"
    reply = live.ask(target, method=method, headers="Origin: https://evil.example\r\n")
    assert reply.status in (403, 405)
    assert live.manager.interrupts == []


def test_a_preflight_is_told_nothing_that_lets_the_request_follow(live: Secured) -> None:
    asked = "Origin: https://evil.example\r\nAccess-Control-Request-Method: POST\r\n"
    for path in ("/runs", f"/runs/{live.run_id}/events", "/nowhere"):
        reply = live.ask(path, method="OPTIONS", headers=asked)
        assert reply.status in (404, 405)
        assert not [name for name in reply.headers if name.startswith("access-control")]


def test_a_page_can_neither_read_nor_embed_a_reply(live: Secured) -> None:
    for path in PATHS:
        headers = live.ask(path.replace("RUN", live.run_id), headers="Origin: https://evil.example\r\n").headers
        assert not [name for name in headers if name.startswith("access-control")]
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert headers["x-content-type-options"] == "nosniff"
        assert {"default-src 'none'", "sandbox"} <= set(headers["content-security-policy"].split("; "))


REPLIES: dict[str, bytes] = {
    "a view": b"GET /runs HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "events": b"GET /runs/RUN/events HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "no such run": b"GET /runs/x/events HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "no such address": b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "wrong method": b"DELETE /runs HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "wrong host": b"GET /runs HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    "wrong body": b"POST /runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\n{",
    "no HTTP": b"nonsense\r\n\r\n",
    "no address": b"GET http://[::1/ HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "bad header": b"GET /runs HTTP/1.1\r\nHost localhost\r\n\r\n",
    "bad length": b"POST /runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
    "too large": b"POST /runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10485760\r\n\r\n",
    "unknown coding": b"POST /runs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n",
    "bad chunk": b"POST /runs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n",
}


@pytest.mark.parametrize("name", REPLIES)
def test_every_reply_carries_the_headers_of_all(live: Secured, name: str) -> None:
    reply = live.raw(REPLIES[name].replace(b"RUN", live.run_id.encode()))
    for header, wanted in ALWAYS:
        assert reply.headers[header.lower()] == wanted
    assert reply.headers["x-request-id"]
    assert "server" not in reply.headers
    if reply.status >= 400:
        assert reply.headers["content-type"] == "application/problem+json"
        assert reply.json["status"] == reply.status
