"""What a client sends comes back in no header, and writes no line of its own into a log."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from waitress.adjustments import Adjustments

from flower_http import logs
from flower_http.exchange import KnownLines, Parser
from tests.http.event_tools import Wire
from tests.http.secured import Secured, secured
from tests.support import eventually

#: Breaks lines, moves the cursor, sets a title, hides text, reorders it: as UTF-8, C1 control characters included.
ODD = "\r\n2026-01-01T00:00:00Z INFO forged\x1b[2J\x1b]0;owned\x07\x00\x08\x7f\x9b31m\u2028\u202e\ufeff"


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured(tmp_path_factory.mktemp("replies")) as running:
        yield running


@contextmanager
def logging_as(form: str) -> Iterator[io.StringIO]:
    """Everything that is logged, as the server would write it."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(logs.formatter(form))
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    try:
        yield written
    finally:
        root.removeHandler(handler)
        root.setLevel(level)


def quoted(text: str) -> str:
    """``text`` as it may stand in an address."""
    return "".join(f"%{byte:02x}" for byte in text.encode())


@pytest.mark.parametrize("path", ["/healthz", "/nowhere", "/runs/RUN/events", "/runs/x/events"])
@pytest.mark.parametrize(
    "sent",
    [
        b"a\tb",
        b"a b",
        b"x\r\n y",
        b"\x1b[31m",
        b"\xe2\x80\xae",
        b"\x00",
        b"i" * 129,
        b"",
    ],
)
def test_an_odd_request_id_is_replaced(live: Secured, path: str, sent: bytes) -> None:
    target = path.replace("RUN", live.run_id).encode()
    lines = b"Host: localhost\r\n" + live.bearer("read").encode() + b"X-Request-Id: " + sent
    reply = live.raw(b"GET " + target + b" HTTP/1.1\r\n" + lines + b"\r\n\r\n")
    assert reply.headers["x-request-id"] != sent.decode("latin-1")
    assert reply.headers["x-request-id"].isalnum()


def test_a_bare_line_feed_ends_no_header(live: Secured) -> None:
    reply = live.raw(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: a\nSet-Cookie: x=1\r\n\r\n")
    assert reply.status == 400
    assert "set-cookie" not in reply.headers


def test_what_a_run_is_given_comes_back_in_no_header(live: Secured) -> None:
    body = {"task": ODD, "labels": {"team": ODD}, "instructions": ODD.replace("\0", "")}
    reply = live.post("/runs", json.dumps(body).encode())
    assert reply.status == 201
    assert reply.json["labels"] == {"team": ODD}
    assert "forged" not in str(reply.headers)
    assert reply.headers["location"] == f"/runs/{reply.json['id']}"


@pytest.mark.parametrize("body", [{"workspace": ODD}, {"flow": ODD}, {"labels": {ODD: "x"}}, {"model": ODD}])
def test_what_names_something_may_hold_nothing_odd(live: Secured, body: dict[str, object]) -> None:
    assert live.post("/runs", json.dumps({"task": "a", **body}).encode()).status == 422


@pytest.mark.parametrize("form", ["text", "json"])
def test_nothing_a_client_sends_breaks_a_line_of_the_log_or_steers_a_terminal(live: Secured, form: str) -> None:
    bearer = live.bearer("start")
    targets = [f"/{quoted(ODD)}", f"/runs/{quoted(ODD)}", f"/runs/{quoted(ODD)}/events", f"/runs?{quoted(ODD)}=1"]
    with logging_as(form) as written:
        for target in targets:
            live.ask(target, headers=f"{bearer}User-Agent: \x1b[31m\x9b31m\r\nReferer: \x1b[31m\r\n")
        live.ask("/healthz", headers="X-Request-Id: \x1b[31m\r\n")
        live.ask(f"/{quoted(ODD)}", method="B\x7cREW", headers=bearer)
        eventually(lambda: written.getvalue().count("\n") >= 5)
    lines = written.getvalue().split("\n")
    assert lines.pop() == ""
    assert [line for line in lines if not line.isprintable()] == []
    assert not [line for line in lines if line.startswith("2026-01-01")]
    if form == "json":
        assert all(set(json.loads(line)) >= {"at", "level", "logger", "message"} for line in lines)


@pytest.mark.parametrize("form", ["text", "json"])
def test_no_client_can_fill_the_log_with_one_request(live: Secured, form: str) -> None:
    with logging_as(form) as written:
        live.ask("/" + "p" * 20_000, headers=live.bearer("read"))
        live.ask("/runs", method="M" * 20_000)
        with Wire(live.server) as wire:  # what waitress itself says about a client that has gone
            wire.send("/runs/" + "q" * 20_000, headers=live.bearer("read"))
        eventually(lambda: written.getvalue().count("\n") >= 2)
        logging.getLogger("waitress").info("Client disconnected while serving %s", "/" + "r" * 20_000)
    assert max(map(len, written.getvalue().split("\n"))) < 5000


def test_what_cannot_be_understood_is_repeated_only_in_part(live: Secured) -> None:
    reply = live.raw(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + b"secret " * 2000 + b"\r\n\r\n")
    assert (reply.status, reply.json["type"]) == (400, "bad-request")
    assert len(reply.body) < 1000


def test_a_request_that_was_never_understood_can_still_be_named_in_a_log() -> None:
    parser = Parser(Adjustments(), KnownLines())
    assert (parser.command, parser.path) == ("?", "?")
