"""A real server on a real socket, with a token of each scope: what an attacker on the network has before him."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from flask import Flask

from flower_http.app import create_app
from flower_http.event_log import EventLog
from flower_http.idempotency import SqliteKeys
from flower_http.parking import ParkingDispatcher
from flower_http.poll import EventsApp
from flower_http.schemas import StartParams
from flower_http.server import Server, make_server
from flower_http.settings import Settings
from flower_http.tokens import SCOPES, TokenStore, add_token
from tests.http.event_tools import Reply, Wire, open_book
from tests.http.memory_manager import MemoryManager


@dataclass
class Secured:
    """The server, its parts, and the tokens by their scope; ``run_id`` is a run with one event."""

    server: Server
    app: Flask
    manager: MemoryManager
    store: TokenStore
    dispatcher: ParkingDispatcher
    tokens: dict[str, str]
    log: EventLog

    @property
    def run_id(self) -> str:
        return self.log.run_id

    def bearer(self, scope: str) -> str:
        """The header line of the token with this scope; of none when there are no tokens."""
        return f"Authorization: Bearer {self.tokens[scope]}\r\n" if self.tokens else ""

    def ask(self, target: str, *, method: str = "GET", body: bytes = b"", headers: str = "") -> Reply:
        """One request on a connection of its own. ``headers`` are whole lines."""
        with Wire(self.server) as wire:
            wire.send(target, method=method, body=body, headers=headers)
            return wire.reply(head=method == "HEAD")

    def raw(self, request: bytes, *, head: bool = False) -> Reply:
        """The reply to these very bytes."""
        with Wire(self.server) as wire:
            wire.raw(request)
            return wire.reply(head=head)

    def post(self, target: str, body: bytes, kind: str = "application/json", headers: str = "") -> Reply:
        """A POST with the widest token there is."""
        lines = f"Content-Type: {kind}\r\n{self.bearer('start')}{headers}"
        return self.ask(target, method="POST", body=body, headers=lines)


@contextmanager
def secured(home: Path, *, tokens: bool = True) -> Iterator[Secured]:
    """Serve below ``home``, with one token for each scope or, on loopback, with none."""
    settings = Settings(data_dir=home / "data", workspace_root=home / "work")
    settings.data_dir.mkdir(parents=True)
    made = {scope: add_token(settings.tokens_path, f"a-{scope}", scope) for scope in SCOPES} if tokens else {}
    store, keys, manager = TokenStore(settings.tokens_path), SqliteKeys(settings.data_dir / "keys.db"), MemoryManager()
    with open_book(settings.data_dir / "journal.db") as book:
        run = manager.start(StartParams(task="a"), by="local")
        log = book.create({"id": run.id, "task": "a"})
        app = create_app(settings, manager=manager, book=book, tokens=store, keys=keys)
        events = cast(EventsApp, app.wsgi_app)
        dispatcher = ParkingDispatcher(events)
        server = make_server(events, threads=2, dispatcher=dispatcher)
        thread = threading.Thread(target=server.run)
        thread.start()
        try:
            yield Secured(server, app, manager, store, dispatcher, made, log)
        finally:
            server.close(2.0)
            thread.join(10)
            keys.close()
