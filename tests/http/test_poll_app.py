from __future__ import annotations

import logging
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from werkzeug.test import Client

from flower_http.app import create_app
from flower_http.auth import Principal
from flower_http.errors import Problem
from flower_http.event_log import EventLog
from flower_http.log_book import LogBook
from flower_http.poll import EventsApp
from flower_http.settings import Settings
from flower_http.tokens import TokenStore, add_token
from tests.http.event_tools import Door, behind, finish, new_run, only_run, open_book, say
from tests.http.json_of import json_of
from tests.support import eventually


@pytest.fixture
def door() -> Door:
    return Door()


@pytest.fixture
def client(book: LogBook, door: Door) -> Client:
    return Client(EventsApp(book, door, behind, only_run))


def test_events_are_served(client: Client, log: EventLog) -> None:
    reply = client.get("/runs/r1/events")
    assert reply.status_code == 200
    assert json_of(reply)["events"][0]["text"] == "run.created"
    assert reply.data == log.page(0)


def test_the_root_verb_means_the_run_that_resolve_finds(client: Client, book: LogBook, log: EventLog) -> None:
    new_run(book, "r2")
    assert json_of(client.get("/events"))["run"] == "r1"
    assert json_of(client.get("/events?run=r2"))["run"] == "r2"
    assert client.get("/runs/r1/events?run=r2").status_code == 400


def test_what_resolve_refuses_is_passed_on(book: LogBook, door: Door) -> None:
    def several(run: str | None) -> str:
        raise Problem(409, "which-run", "name one", runs=["r1", "r2"])

    reply = Client(EventsApp(book, door, behind, several)).get("/events")
    assert (reply.status_code, json_of(reply)["type"], json_of(reply)["runs"]) == (409, "which-run", ["r1", "r2"])


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/runs/r1/events"),
        ("DELETE", "/events"),
        ("OPTIONS", "/events"),
        ("GET", "/"),
        ("GET", "/runs"),
        ("GET", "/runs/r1"),
        ("GET", "/runs/r1/events/"),
        ("GET", "/runs//events"),
        ("GET", "/runs/r1/x/events"),
        ("GET", "/other/r1/events"),
        ("GET", "/runs/r1/myevents"),
    ],
)
def test_everything_else_goes_to_the_application_behind(client: Client, method: str, path: str) -> None:
    assert client.open(path, method=method).text == f"{method} {path} "


def test_replies_carry_the_common_headers(client: Client, log: EventLog) -> None:
    for path in ("/runs/r1/events", "/runs/nobody/events"):
        reply = client.get(path, headers={"X-Request-Id": "abc"})
        assert reply.headers["X-Request-Id"] == "abc"
        assert reply.headers["Cache-Control"] == "no-store"
        assert int(reply.headers["Content-Length"]) == len(reply.data)
    assert client.get("/runs/r1/events").headers["X-Request-Id"]


@pytest.mark.parametrize(
    ("path", "status", "slug"),
    [
        ("/runs/nobody/events", 404, "unknown-run"),
        ("/runs/%00%F0/events", 404, "unknown-run"),
        ("/runs/r1/events?after=x", 400, "bad-parameter"),
        ("/runs/r1/events?after=2", 409, "cursor-ahead"),
        ("/runs/r1/events?after=9999999999999999&wait=25", 409, "cursor-ahead"),
        ("/runs/r1/events?epoch=other", 410, "epoch-changed"),
        ("/runs/r1/events?epoch=other&after=99&wait=25", 410, "epoch-changed"),
    ],
)
def test_errors_are_problem_documents_and_come_at_once(
    client: Client, log: EventLog, path: str, status: int, slug: str
) -> None:
    started = time.monotonic()
    reply = client.get(path)
    assert (reply.status_code, json_of(reply)["type"], json_of(reply)["status"]) == (status, slug, status)
    assert reply.mimetype == "application/problem+json"
    assert time.monotonic() - started < 15


def test_a_changed_epoch_tells_the_new_one(client: Client, log: EventLog) -> None:
    told = json_of(client.get("/runs/r1/events?epoch=other&after=1"))
    assert told["epoch"] == log.epoch
    assert client.get(f"/runs/r1/events?epoch={told['epoch']}&after={told['resume_after']}").status_code == 200


def test_a_gap_is_410_and_may_be_skipped(client: Client, log: EventLog) -> None:
    say(log, *"abcd")
    log.drop_before(4).result(5)
    reply = client.get("/runs/r1/events?after=1&wait=25")
    assert (reply.status_code, json_of(reply)["lost"]) == (410, {"from": 2, "to": 3, "count": 2})
    skipped = json_of(client.get("/runs/r1/events?after=1&on_gap=skip"))
    assert (skipped["gap"], skipped["next_after"]) == ({"from": 2, "to": 3}, 5)


@pytest.mark.parametrize(("tail", "first"), [(0, None), (1, 9), (3, 7), (9, 1), (500, 1)])
def test_tail_starts_that_many_events_before_the_end(
    client: Client, log: EventLog, tail: int, first: int | None
) -> None:
    say(log, *"abcdefgh")
    got = json_of(client.get(f"/runs/r1/events?tail={tail}"))
    assert [event["seq"] for event in got["events"]][:1] == ([] if first is None else [first])
    assert got["after"] == max(0, 9 - tail)
    assert got["next_after"] == 9


def test_tail_is_no_gap_where_events_were_dropped(client: Client, log: EventLog) -> None:
    say(log, *"abcd")
    log.drop_before(4).result(5)
    got = json_of(client.get("/runs/r1/events?tail=100"))
    assert ([event["seq"] for event in got["events"]], got["gap"]) == ([4, 5], None)


def test_tail_and_limit_together_lose_nothing(client: Client, log: EventLog) -> None:
    say(log, *"abcdefgh")
    got = json_of(client.get("/runs/r1/events?tail=6&limit=2"))
    assert ([event["seq"] for event in got["events"]], got["pending"]) == ([4, 5], 4)


def test_head_has_the_headers_of_get_and_no_body_and_never_waits(client: Client, log: EventLog) -> None:
    started = time.monotonic()
    reply = client.head("/runs/r1/events?after=1&wait=20")
    assert time.monotonic() - started < 15
    assert (reply.status_code, reply.data) == (200, b"")
    assert int(reply.headers["Content-Length"]) == len(log.page(1, idle_ms=250))


def test_the_guard_comes_before_everything_else(client: Client, door: Door, log: EventLog) -> None:
    door.needs_token = True
    for path in ("/runs/nobody/events", "/runs/r1/events?bad=1", "/events", "/runs/r1/events?after=1&wait=25"):
        reply = client.get(path)
        assert (reply.status_code, reply.headers["WWW-Authenticate"]) == (401, "Bearer")
    assert client.get("/runs/r1/events", headers={"Authorization": "Bearer good"}).status_code == 200


def test_a_reader_that_was_not_held_is_told_when_to_come_again(client: Client, log: EventLog) -> None:
    assert json_of(client.get("/runs/r1/events?after=1"))["retry_after_ms"] == 250
    assert json_of(client.get("/runs/r1/events?after=0"))["retry_after_ms"] == 0
    finish(log)
    assert json_of(client.get("/runs/r1/events?after=2&wait=20"))["retry_after_ms"] == 0


# ---- under a server that cannot park: a few wait in threads


def asking(client: Client, path: str, replies: list[Any], **how: Any) -> threading.Thread:
    thread = threading.Thread(target=lambda: replies.append(client.get(path, **how)))
    thread.start()
    return thread


def test_a_reader_in_a_thread_gets_what_is_published(client: Client, log: EventLog) -> None:
    replies: list[Any] = []
    reader = asking(client, "/runs/r1/events?after=1&wait=20", replies)
    eventually(lambda: log.waiting)
    say(log, "news")
    reader.join(5)
    assert [event["text"] for event in json_of(replies[0])["events"]] == ["news"]


def test_a_reader_in_a_thread_leaves_when_its_time_is_up(client: Client, log: EventLog) -> None:
    started = time.monotonic()
    got = json_of(client.get("/runs/r1/events?after=1&wait=1.2"))
    assert 1.2 <= time.monotonic() - started < 15
    assert (got["events"], got["retry_after_ms"]) == ([], 0)
    assert not log.waiting


def test_only_so_many_wait_in_threads(book: LogBook, door: Door, log: EventLog) -> None:
    client = Client(EventsApp(book, door, behind, only_run, max_waits=2))
    replies: list[Any] = []
    readers = [asking(client, "/runs/r1/events?after=1&wait=20", replies) for _ in range(2)]
    eventually(lambda: log.waiting == 2)
    third = json_of(client.get("/runs/r1/events?after=1&wait=20"))
    assert (third["events"], third["retry_after_ms"]) == ([], 1000)
    say(log, "news")
    for reader in readers:
        reader.join(5)
    assert len(replies) == 2
    fourth = asking(client, "/runs/r1/events?after=2&wait=20", replies)
    eventually(lambda: log.waiting)
    finish(log)
    fourth.join(5)
    assert json_of(replies[2])["final"] is True


def test_a_revoked_reader_in_a_thread_is_let_go(client: Client, door: Door, log: EventLog) -> None:
    door.needs_token = True
    replies: list[Any] = []
    reader = asking(client, "/runs/r1/events?after=1&wait=20", replies, headers={"Authorization": "Bearer good"})
    eventually(lambda: log.waiting)
    door.revoked = True
    reader.join(5)
    assert replies[0].status_code == 401


def test_readers_in_threads_are_let_go_when_the_server_leaves(book: LogBook, door: Door, log: EventLog) -> None:
    app = EventsApp(book, door, behind, only_run)
    replies: list[Any] = []
    reader = asking(Client(app), "/runs/r1/events?after=1&wait=20", replies)
    eventually(lambda: log.waiting)
    app.leave()
    reader.join(5)
    got = json_of(replies[0])
    assert (got["events"], got["retry_after_ms"]) == ([], 1000)


def test_a_reader_whose_client_left_frees_its_place(client: Client, log: EventLog) -> None:
    gone = threading.Event()
    replies: list[Any] = []
    reader = asking(
        client,
        "/runs/r1/events?after=1&wait=20",
        replies,
        environ_overrides={"waitress.client_disconnected": gone.is_set},
    )
    eventually(lambda: log.waiting)
    gone.set()
    reader.join(5)
    assert not reader.is_alive()
    assert not log.waiting


def test_a_journal_that_cannot_be_read_is_503(tmp_path: Path, door: Door) -> None:
    with open_book(tmp_path / "other.db") as book:
        new_run(book)
    client = Client(EventsApp(book, door, behind, only_run))  # its journal is closed
    reply = client.get("/runs/elsewhere/events")
    assert (reply.status_code, json_of(reply)["type"]) == (503, "journal-unavailable")
    assert reply.headers["Retry-After"] == "1"


def test_a_bug_is_500_without_a_trace(book: LogBook, log: EventLog) -> None:
    def broken(environ: Any, scope: str) -> Principal:
        raise RuntimeError("secret detail")

    reply = Client(EventsApp(book, broken, behind, only_run)).get("/events")
    assert (reply.status_code, json_of(reply)["type"]) == (500, "internal-error")
    assert "secret" not in reply.text


def test_every_reply_leaves_one_line_without_token_and_query(
    settings: Settings, log: EventLog, book: LogBook, caplog: pytest.LogCaptureFixture
) -> None:
    settings.data_dir.mkdir(parents=True)
    token = add_token(settings.tokens_path, "eye", "read")
    app = create_app(settings, book=book, tokens=TokenStore(settings.tokens_path, ""))
    caplog.set_level(logging.INFO, "flower_http.access")
    given = {"Authorization": f"Bearer {token}", "X-Request-Id": "mine"}
    client = Client(app.wsgi_app)
    for path, headers in (
        ("/runs/r1/events?after=0&limit=77", given),
        ("/openapi.yaml", given),
        ("/runs/r1/events?after=x", given),
        ("/runs/r1/events", {"X-Request-Id": "mine"}),
        ("/runs", {"X-Request-Id": "mine"}),
    ):
        client.get(path, headers=headers)
    assert [record.getMessage() for record in caplog.records if record.name == "flower_http.access"] == [
        "eye GET '/runs/r1/events' 200 mine",
        "eye GET '/openapi.yaml' 200 mine",
        "eye GET '/runs/r1/events' 400 mine",
        "- GET '/runs/r1/events' 401 mine",
        "- GET '/runs' 401 mine",
    ]


def test_events_and_the_rest_refuse_alike(settings: Settings, book: LogBook, log: EventLog) -> None:
    settings.data_dir.mkdir(parents=True)
    add_token(settings.tokens_path, "eye", "read")
    client = Client(create_app(settings, book=book, tokens=TokenStore(settings.tokens_path, "")).wsgi_app)
    fast, slow = (client.get(path, headers={"X-Request-Id": "mine"}) for path in ("/runs/r1/events", "/runs"))
    assert (fast.status_code, fast.data) == (slow.status_code, slow.data)
    assert sorted(fast.headers) == sorted(slow.headers)
