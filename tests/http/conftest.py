from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from flask.testing import FlaskClient

from flower_http.app import create_app
from flower_http.idempotency import SqliteKeys
from flower_http.settings import Settings
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
