"""A server, a run on it, and a client that never really sleeps."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from flower_client import FlowerClient

from tests.client.scripted_run import ScriptedRun
from tests.client.scripted_server import ScriptedServer


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
