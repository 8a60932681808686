"""A server, a run on it, a client that never really sleeps, and a watch in a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from flower_client import FlowerClient

from tests.client.scripted_run import ScriptedRun
from tests.client.scripted_server import ScriptedServer
from tests.client.terminal import Terminal, terminal


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    server = ScriptedServer()
    server.start()
    yield server
    server.stop()


@pytest.fixture
def run(server: ScriptedServer) -> ScriptedRun:
    return server.add(ScriptedRun())


@pytest.fixture
def sleeps() -> list[float]:
    """The pauses the client made, in seconds."""
    return []


@pytest.fixture
def client(server: ScriptedServer, sleeps: list[float]) -> Iterator[FlowerClient]:
    with FlowerClient(server.url, sleep=sleeps.append) as client:
        yield client


@pytest.fixture
def watching(server: ScriptedServer, run: ScriptedRun, tmp_path: Path) -> Iterator[Terminal]:
    """watch in a terminal, with the first event on the screen."""
    with terminal("watch", "r1", home=tmp_path, url=server.url) as opened:
        opened.see("· run created")
        yield opened
