"""A run world behind a real server on a real port: the routes, the events and the manager as they are shipped."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

from flower_http.app import create_app
from flower_http.idempotency import SqliteKeys
from flower_http.parking import ParkingDispatcher
from flower_http.poll import EventsApp
from flower_http.server import Server, make_server
from flower_http.settings import Settings
from tests.http.run_world import RunWorld


@contextmanager
def served(world: RunWorld, *, threads: int = 4) -> Iterator[Server]:
    """Serve ``world`` on a free port of this machine; no token is needed."""
    settings = Settings(data_dir=world.home / "data", workspace_root=world.home / "work")
    keys = SqliteKeys(settings.data_dir / "idempotency.db")
    app = create_app(settings, manager=world.manager, book=world.book, keys=keys)
    events = cast(EventsApp, app.wsgi_app)
    server = make_server(events, port=0, threads=threads, dispatcher=ParkingDispatcher(events))
    thread = threading.Thread(target=server.run, name="loop")
    thread.start()
    try:
        yield server
    finally:
        server.close(2.0)
        thread.join(10)
        keys.close()
        assert not thread.is_alive()
