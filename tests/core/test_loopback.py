"""The small server on loopback ends cleanly, whatever it is doing and however often it has to."""

from __future__ import annotations

import socket
import threading
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from flower_core.loopback import LoopbackServer


def hello(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    start_response("200 OK", [("Content-Length", "5")])
    return [b"hello"]


def test_it_answers_until_it_is_closed_and_then_frees_its_port() -> None:
    server = LoopbackServer(hello, name="test", threads=1)
    server.start()
    with urllib.request.urlopen(server.url) as reply:
        assert reply.read() == b"hello"
    server.close()
    server.close()
    with socket.create_server(("127.0.0.1", server.port)):
        pass


@pytest.mark.parametrize("start", [False, True])
def test_many_can_be_made_and_closed_at_once(start: bool) -> None:
    """Closing races with a loop that has just begun: the descriptor behind its trigger must not go too early."""
    for _ in range(60):
        server = LoopbackServer(hello, name="test", threads=1)
        if start:
            server.start()
        server.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "test"]


def test_a_reply_under_way_is_sent_to_its_end() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slow(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterator[bytes]:
        start_response("200 OK", [("Content-Length", "10")])
        yield b"first"
        begun.set()
        go_on.wait(10)
        yield b" last"

    server = LoopbackServer(slow, name="test", threads=1)
    server.start()
    with urllib.request.urlopen(server.url) as reply:
        assert begun.wait(10)
        closing = threading.Thread(target=server.close)
        closing.start()
        go_on.set()
        assert reply.read() == b"first last"
        closing.join(10)


def test_a_taken_port_is_an_error_of_its_own() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        LoopbackServer(hello, name="test", threads=1, port=taken.getsockname()[1])
