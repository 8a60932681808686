from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from flask.testing import FlaskClient

from flower_http.app import create_app
from flower_http.event_log import EventLog
from flower_http.flow_registry import Flows
from flower_http.idempotency import SqliteKeys
from flower_http.log_book import LogBook
from flower_http.settings import Settings
from tests.http.event_tools import new_run, open_book
from tests.http.gated_flow import SCENES
from tests.http.memory_manager import MemoryManager
from tests.http.run_world import FLOWS, RunWorld


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path / "data", workspace_root=tmp_path / "work")


@pytest.fixture
def keys(settings: Settings) -> Iterator[SqliteKeys]:
    store = SqliteKeys(settings.data_dir / "idempotency.db")
    yield store
    store.close()


@pytest.fixture
def manager() -> MemoryManager:
    return MemoryManager()


@pytest.fixture
def client(settings: Settings, manager: MemoryManager, keys: SqliteKeys) -> FlaskClient:
    """A client of an app that needs no token."""
    return create_app(settings, manager=manager, keys=keys).test_client()


@pytest.fixture
def journal_path(tmp_path: Path) -> Path:
    """Where the journal of ``book`` lies."""
    return tmp_path / "journal.db"


@pytest.fixture
def book(journal_path: Path) -> Iterator[LogBook]:
    """The runs of a journal of its own."""
    with open_book(journal_path) as opened:
        yield opened


@pytest.fixture
def log(book: LogBook) -> EventLog:
    """A run of ``book``, called r1."""
    return new_run(book)


@pytest.fixture
def flows() -> Flows:
    """The flows that runs of ``world`` may name."""
    return Flows(FLOWS)


@pytest.fixture
def world(tmp_path: Path, flows: Flows) -> Iterator[RunWorld]:
    """A server's runs without its HTTP, with none of the scenes that earlier tests have played."""
    SCENES.clear()
    made = RunWorld(tmp_path, flows=flows)
    yield made
    for here in SCENES.values():
        here.may_stop.set()
    made.shut_down()
