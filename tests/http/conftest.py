from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from flask.testing import FlaskClient

from flower_http.app import create_app
from flower_http.event_log import EventLog
from flower_http.idempotency import SqliteKeys
from flower_http.log_book import LogBook
from flower_http.settings import Settings
from tests.http.event_tools import new_run, open_book
from tests.http.memory_manager import MemoryManager


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
def book(tmp_path: Path) -> Iterator[LogBook]:
    """The runs of a journal of its own."""
    with open_book(tmp_path / "journal.db") as opened:
        yield opened


@pytest.fixture
def log(book: LogBook) -> EventLog:
    """A run of ``book``, called r1."""
    return new_run(book)
