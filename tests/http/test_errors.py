from __future__ import annotations

import ast
import hashlib
import json
import logging
import sqlite3
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from flask.testing import FlaskClient
from werkzeug.datastructures import Headers
from werkzeug.test import TestResponse
from werkzeug.wrappers import Request

from flower_http.app import create_app
from flower_http.channel import Deadlines
from flower_http.errors import CATALOGUE, CONTENT_TYPE
from flower_http.idempotency import SqliteKeys, digest
from flower_http.journal import Journal
from flower_http.log_book import LogBook
from flower_http.server import make_server
from flower_http.settings import MAX_BODY_BYTES, Settings
from flower_http.views import AskView
from tests.http.event_tools import Wire
from tests.http.json_of import json_of
from tests.http.memory_manager import MemoryManager

SOURCE = Path(__file__).parents[2] / "flower_http"
KEY = {"Idempotency-Key": "k1"}
TOKEN = "r" * 43
SETTLED = AskView("q1", "?", ("a", "b"), state="answered", answer="a", answered_by="x")


class World:
    """An app that needs no token, one that does, and a run with events and a settled question."""

    def __init__(self, settings: Settings, manager: MemoryManager, keys: SqliteKeys, book: LogBook) -> None:
        self.manager = manager
        self.keys = keys
        self.folder = settings.data_dir
        self.open: FlaskClient = create_app(settings, manager=manager, book=book, keys=keys).test_client()
        self.run: str = json_of(self.open.post("/runs", json={"task": "a", "workspace": "w"}))["id"]
        manager.put(self.run, asks=(SETTLED,))
        self.log = book.create({"id": self.run, "task": "a"})
        for number in range(5):
            self.log.append("text", f"word {number}").result(5)
        row = {"name": "eye", "scope": "read", "sha256": hashlib.sha256(TOKEN.encode()).hexdigest()}
        guarded = replace(settings, data_dir=settings.data_dir / "guarded")
        guarded.data_dir.mkdir()
        guarded.tokens_path.write_text(json.dumps({"tokens": [row]}))
        self.guarded: FlaskClient = create_app(guarded, manager=manager, keys=keys).test_client()

    @property
    def at(self) -> str:
        return f"/runs/{self.run}"

    def post(self, path: str, **body: Any) -> TestResponse:
        return self.open.post(path, json=body)

    def ask_twice(self) -> TestResponse:
        """The reply to a question that is asked while another one about the run is being answered."""
        self.post(f"{self.at}/oracle", question="again")
        return self.post(f"{self.at}/oracle", question="again")

    def part_of_a_file(self, **headers: str) -> TestResponse:
        """The reply to a request with these headers for a file that has three bytes."""
        self.manager.workspaces = self.folder
        file = self.folder / self.manager.get(self.run).workspace / "three"
        file.parent.mkdir()
        file.write_bytes(b"123")
        return self.open.get(f"{self.at}/files/three", headers=headers)

    def failing(self, name: str, error: Exception) -> FlaskClient:
        """A client of the app whose manager raises ``error`` in the method ``name``."""

        def fail(*_: object, **__: object) -> Any:
            raise error

        setattr(self.manager, name, fail)
        return self.open


@pytest.fixture
def world(settings: Settings, manager: MemoryManager, keys: SqliteKeys, tmp_path: Path) -> Iterator[World]:
    journal = Journal(tmp_path / "journal.db")
    yield World(settings, manager, keys, LogBook(journal))
    journal.close()


def _idempotent(world: World, second: str) -> TestResponse:
    path = f"{world.at}/cancel"
    world.keys.claim(digest("local", "POST", path, "k1"), digest(b"", "application/json", b"{}"))
    return world.open.post(path, data=second, content_type="application/json", headers=KEY)


def _full(world: World) -> TestResponse:
    world.manager.queue = 1
    return world.post("/runs", task="b")


def _two_runs(world: World) -> TestResponse:
    world.post("/runs", task="b")
    return world.post("/interrupt")


def _ended(world: World) -> TestResponse:
    world.post(f"{world.at}/cancel")
    return world.post(f"{world.at}/inbox", text="too late")


def _unready(world: World) -> TestResponse:
    world.manager.reasons = ["no"]
    return world.open.get("/readyz")


def _expired(world: World) -> TestResponse:
    world.log.drop_before(4).result(5)
    return world.open.get(f"{world.at}/events?after=1")


def _on_the_wire(sent: bytes, **settings: Any) -> TestResponse:
    """What a server answers to bytes that no application ever sees."""
    server = make_server(lambda environ, start: [], **settings)
    serving = threading.Thread(target=server.run)
    serving.start()
    try:
        with Wire(server) as wire:
            wire.raw(sent)
            got = wire.reply()
    finally:
        server.close()
        serving.join(5)
    return TestResponse([got.body], str(got.status), Headers(list(got.headers.items())), Request.from_values())


CASES: dict[str, Callable[[World], TestResponse]] = {
    "bad-request": lambda world: world.open.post("/interrupt", data=b"{", environ_overrides={"CONTENT_LENGTH": "9"}),
    "bad-json": lambda world: world.open.post("/runs", data="{", content_type="application/json"),
    "bad-parameter": lambda world: world.open.get("/runs?page=2"),
    "bad-idempotency-key": lambda world: world.open.post("/interrupt", headers={"Idempotency-Key": "k" * 256}),
    "unauthorized": lambda world: world.guarded.get("/runs"),
    "scope-too-small": lambda world: world.guarded.post("/runs", headers={"Authorization": f"Bearer {TOKEN}"}),
    "host-not-allowed": lambda world: world.open.get("/", headers={"Host": "rebound.example"}),
    "cross-origin": lambda world: world.open.post("/interrupt", headers={"Origin": "https://page.example"}),
    "not-found": lambda world: world.open.get("/nowhere"),
    "unknown-run": lambda world: world.open.get("/runs/20200101t000000000-0000"),
    "unknown-ask": lambda world: world.post(f"{world.at}/answer", ask_id="q9", text="x"),
    "unknown-question": lambda world: world.open.get(f"{world.at}/oracle/o9"),
    "unknown-document": lambda world: world.open.get(f"{world.at}/documents/goal"),
    "unknown-file": lambda world: world.open.get(f"{world.at}/files/nothing"),
    "method-not-allowed": lambda world: world.open.delete("/runs"),
    "request-timeout": lambda world: _on_the_wire(b"GET / HTTP/1.1\r\n", deadlines=Deadlines(head=0.1)),
    "workspace-busy": lambda world: world.post("/runs", task="a", workspace="w"),
    "flow-busy": lambda world: world.post("/runs", flow="solo"),
    "ask-settled": lambda world: world.post(f"{world.at}/answer", ask_id="q1", text="x"),
    "not-running": _ended,
    "not-interrupted": lambda world: world.post(f"{world.at}/resume"),
    "not-ended": lambda world: world.open.delete(world.at),
    "which-run": _two_runs,
    "idempotency-in-progress": lambda world: _idempotent(world, "{}"),
    "cursor-ahead": lambda world: world.open.get(f"{world.at}/events?after=99"),
    "epoch-changed": lambda world: world.open.get(f"{world.at}/events?epoch=other"),
    "cursor-expired": _expired,
    "body-too-large": lambda world: world.open.post("/runs", data=b"x" * (MAX_BODY_BYTES + 1)),
    "range-not-satisfiable": lambda world: world.part_of_a_file(Range="bytes=9-"),
    "precondition-failed": lambda world: world.part_of_a_file(**{"If-Match": '"another"'}),
    "unsupported-media-type": lambda world: world.open.post("/runs", data="<a/>", content_type="text/xml"),
    "invalid-body": lambda world: world.post("/runs", task=3),
    "unknown-flow": lambda world: world.post("/runs", flow="nobody"),
    "idempotency-mismatch": lambda world: _idempotent(world, '{"other": 1}'),
    "queue-full": _full,
    "oracle-busy": lambda world: world.ask_twice(),
    "internal-error": lambda world: world.failing("get", RuntimeError("secret")).get(world.at),
    "journal-unavailable": lambda world: world.failing("list", sqlite3.OperationalError("disk")).get("/runs"),
    "not-ready": _unready,
    "overloaded": lambda world: _on_the_wire(b"GET / HTTP/1.1\r\n\r\n", connection_limit=0),
}


@pytest.mark.parametrize("slug", CATALOGUE)
def test_every_error_arrives_as_its_problem_document(slug: str, world: World) -> None:
    status, title = CATALOGUE[slug]
    reply = CASES[slug](world)
    document = json_of(reply)
    assert (document["type"], reply.status_code) == (slug, status), document
    assert (document["status"], document["title"]) == (status, title)
    assert document["detail"]
    assert reply.headers["Content-Type"] == CONTENT_TYPE
    assert reply.headers["Cache-Control"] == "no-store"
    assert reply.headers["X-Request-Id"]
    assert "Traceback" not in reply.text
    assert "secret" not in reply.text


def test_no_case_is_left_over() -> None:
    assert set(CASES) == set(CATALOGUE)


def test_every_slug_in_the_code_is_in_the_catalogue_with_its_status() -> None:
    found = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Problem":
                status, slug = node.args[:2]
                if isinstance(slug, ast.Constant) and isinstance(status, ast.Constant):
                    found.add(slug.value)
                    assert CATALOGUE[str(slug.value)][0] == status.value, f"{path.name}:{node.lineno}"
    assert len(found) > 20


def test_the_contract_lists_every_slug_and_says_where_it_happens() -> None:
    text = (SOURCE / "openapi.yaml").read_text(encoding="utf-8")
    listed = yaml.safe_load(text)["components"]["schemas"]["Problem"]["properties"]["type"]["enum"]
    assert listed == list(CATALOGUE)
    assert [slug for slug in CATALOGUE if f"`{slug}`" not in text] == []


def test_unauthorized_says_how_to_authorize(world: World) -> None:
    assert world.guarded.get("/runs").headers["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.parametrize("path", ["/runs", "/asks", "/answer", "/events", "/runs/r1/events", "/runs/r1/cancel"])
def test_405_says_what_is_allowed(world: World, path: str) -> None:
    for method in ("PUT", "PATCH", "DELETE", "OPTIONS"):
        reply = world.open.open(path, method=method)
        assert reply.status_code == 405
        assert json_of(reply)["type"] == "method-not-allowed"
        assert reply.headers["Allow"]


@pytest.mark.parametrize("path", ["", "/runs//x", "/runs/", "/static/x", "/runs/r1/file", "/metrics/", "/\xff"])
def test_what_does_not_exist_is_a_problem_and_no_redirect(world: World, path: str) -> None:
    assert json_of(world.open.get("/", environ_overrides={"PATH_INFO": path}))["type"] == "not-found"


def test_a_fault_is_logged_under_the_request_id(world: World, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        world.failing("get", RuntimeError("lost")).get(world.at, headers={"X-Request-Id": "find-me"})
    assert any("find-me" in record.getMessage() and record.exc_info for record in caplog.records)


def test_an_app_without_a_manager_says_so(settings: Settings, keys: SqliteKeys) -> None:
    client = create_app(settings, keys=keys).test_client()
    assert client.get("/healthz").status_code == 200
    assert json_of(client.get("/runs"))["type"] == "not-ready"
