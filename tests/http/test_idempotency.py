from __future__ import annotations

import json
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from flower_http.app import create_app
from flower_http.errors import Problem
from flower_http.idempotency import KEEP_S, SqliteKeys, digest, serve_once
from flower_http.replies import Reply, json_reply
from flower_http.settings import Settings
from flower_http.tokens import add_token
from tests.http.json_of import json_of
from tests.http.memory_manager import MemoryManager

KEY = {"Idempotency-Key": "a new run, please"}


def test_the_same_request_twice_acts_once(client: FlaskClient, manager: MemoryManager) -> None:
    first = client.post("/runs", json={"task": "a"}, headers=KEY)
    second = client.post("/runs", json={"task": "a"}, headers=KEY)
    assert (first.status_code, second.status_code) == (201, 201)
    assert (first.data, first.headers["Location"]) == (second.data, second.headers["Location"])
    assert "Idempotent-Replayed" not in first.headers
    assert second.headers["Idempotent-Replayed"] == "true"
    assert first.headers["X-Request-Id"] != second.headers["X-Request-Id"]
    assert len(manager.started) == 1


def test_without_a_key_the_same_request_acts_twice(client: FlaskClient, manager: MemoryManager) -> None:
    client.post("/runs", json={"task": "a"})
    client.post("/runs", json={"task": "a"})
    assert len(manager.started) == 2


@pytest.mark.parametrize(
    "change", [{"json": {"task": "b"}}, {"data": "task=a", "content_type": "application/x-www-form-urlencoded"}]
)
def test_the_key_with_another_body_is_refused(
    client: FlaskClient, manager: MemoryManager, change: dict[str, Any]
) -> None:
    client.post("/runs", json={"task": "a"}, headers=KEY)
    reply = client.post("/runs", headers=KEY, **change)
    assert (reply.status_code, json_of(reply)["type"]) == (422, "idempotency-mismatch")
    assert len(manager.started) == 1


def test_a_key_belongs_to_its_path(client: FlaskClient) -> None:
    run_id = json_of(client.post("/runs", json={}, headers=KEY))["id"]
    reply = client.post(f"/runs/{run_id}/cancel", json={}, headers=KEY)
    assert json_of(reply)["state"] == "cancelled"
    assert "Idempotent-Replayed" not in reply.headers


def test_a_key_belongs_to_its_token_and_is_looked_at_after_it(settings: Settings, keys: SqliteKeys) -> None:
    tokens = [add_token(settings.tokens_path, name, "start") for name in ("a", "b")]
    manager = MemoryManager()
    client = create_app(settings, manager=manager, keys=keys).test_client()
    for token in tokens:
        reply = client.post("/runs", json={"task": "a"}, headers={**KEY, "Authorization": f"Bearer {token}"})
        assert "Idempotent-Replayed" not in reply.headers
    assert [by for _, by in manager.started] == ["a", "b"]
    assert client.post("/runs", json={"task": "a"}, headers=KEY).status_code == 401


def test_another_run_named_in_the_query_is_another_request(client: FlaskClient) -> None:
    ids = [json_of(client.post("/runs", json={}))["id"] for _ in range(2)]
    assert client.post(f"/interrupt?run={ids[0]}", headers=KEY).status_code == 202
    assert json_of(client.post(f"/interrupt?run={ids[1]}", headers=KEY))["type"] == "idempotency-mismatch"


def test_a_refused_request_leaves_its_key_free(client: FlaskClient, manager: MemoryManager) -> None:
    manager.queue = 0
    assert client.post("/runs", json={"task": "a"}, headers=KEY).status_code == 429
    manager.queue = 1
    assert client.post("/runs", json={"task": "a"}, headers=KEY).status_code == 201


@pytest.mark.parametrize("key", ["", "x" * 256, "é", "a\tb"])
def test_an_unusable_key_is_refused(client: FlaskClient, manager: MemoryManager, key: str) -> None:
    reply = client.post("/runs", json={"task": "a"}, headers={"Idempotency-Key": key})
    assert json_of(reply)["type"] == "bad-idempotency-key"
    assert manager.started == []


def test_while_the_first_is_served_the_second_is_told_to_wait(keys: SqliteKeys) -> None:
    entered, leave = threading.Event(), threading.Event()
    replies: list[Reply] = []

    def slow(again: bool) -> Reply:
        entered.set()
        assert leave.wait(5)
        return json_reply({"done": 1})

    first = threading.Thread(target=lambda: replies.append(serve_once(keys, "k", "f", slow)))
    first.start()
    assert entered.wait(5)
    with pytest.raises(Problem) as refused:
        serve_once(keys, "k", "f", slow)
    leave.set()
    first.join(5)
    assert (refused.value.slug, refused.value.headers) == ("idempotency-in-progress", {"Retry-After": "1"})
    assert serve_once(keys, "k", "f", slow).body == replies[0].body


def test_of_many_at_once_exactly_one_acts(keys: SqliteKeys) -> None:
    acted: list[int] = []
    outcomes: list[str] = []
    barrier = threading.Barrier(8)

    def act(again: bool) -> Reply:
        acted.append(int(again))
        return json_reply({})

    def call() -> None:
        barrier.wait(5)
        try:
            reply = serve_once(keys, "k", "f", act)
            outcomes.append("replayed" if ("Idempotent-Replayed", "true") in reply.headers else "acted")
        except Problem as problem:
            outcomes.append(problem.slug)

    threads = [threading.Thread(target=call) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(5)
    assert acted == [0], "one, and nobody acted before it"
    assert outcomes.count("acted") == 1
    assert set(outcomes) <= {"acted", "replayed", "idempotency-in-progress"}


def test_a_reply_is_kept_across_a_restart(tmp_path: Path) -> None:
    before = SqliteKeys(tmp_path / "keys.db")
    kept = serve_once(before, "k", "f", lambda again: json_reply({"ü": 1}, 201, Location="/x"))
    before.close()
    after = SqliteKeys(tmp_path / "keys.db")
    replayed = serve_once(after, "k", "f", lambda again: pytest.fail("acted again"))
    after.close()
    assert (replayed.status, replayed.body) == (kept.status, kept.body)
    assert set(replayed.headers) == {*kept.headers, ("Idempotent-Replayed", "true")}


def test_a_crash_in_the_middle_blocks_the_key_only_until_the_restart(tmp_path: Path) -> None:
    crashed = SqliteKeys(tmp_path / "keys.db")
    assert crashed.claim("k", "f").state == "mine"
    assert crashed.claim("k", "f").state == "running"
    crashed.close()
    after = SqliteKeys(tmp_path / "keys.db")
    assert after.claim("k", "f").state == "mine"
    after.close()


def test_what_a_crash_cut_short_may_have_been_done_so_its_key_is_good_for_nothing_else(tmp_path: Path) -> None:
    crashed = SqliteKeys(tmp_path / "keys.db")
    assert not crashed.claim("k", "f").again
    crashed.close()
    after = SqliteKeys(tmp_path / "keys.db")
    assert after.claim("k", "another body").state == "other-body"
    assert after.claim("k", "f").again
    after.close()


def test_who_is_refused_after_a_crash_still_hears_the_next_time_that_it_may_have_been_done(tmp_path: Path) -> None:
    crashed = SqliteKeys(tmp_path / "keys.db")
    crashed.claim("k", "f")
    crashed.close()
    heard: list[bool] = []

    def act(again: bool) -> Reply:
        heard.append(again)
        if len(heard) < 3:
            raise Problem(503, "journal-unavailable", "nobody can look whether it has been done")
        return json_reply({})

    after = SqliteKeys(tmp_path / "keys.db")
    for _ in range(2):
        with pytest.raises(Problem, match="journal-unavailable"):
            serve_once(after, "k", "f", act)
    assert serve_once(after, "k", "f", act).status == 200
    assert heard == [True, True, True]
    assert after.claim("k", "f").state == "kept"
    after.close()


@pytest.mark.parametrize(
    "content", [b"this is no database, and it is longer than a header would be" * 9, b"SQLite format 3\0 not"]
)
def test_a_damaged_store_is_set_aside(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "keys.db"
    path.write_bytes(content)
    keys = SqliteKeys(path, clock=lambda: 7.0)
    assert keys.claim("k", "f").state == "mine"
    keys.close()
    assert (tmp_path / "keys.db.corrupt-7").read_bytes() == content


def test_a_reply_is_forgotten_after_a_day(tmp_path: Path) -> None:
    now = [1_000_000.0]
    keys = SqliteKeys(tmp_path / "keys.db", clock=lambda: now[0])
    serve_once(keys, "k", "f", lambda again: json_reply({}))
    now[0] += KEEP_S - 1
    assert keys.claim("k", "f").state == "kept"
    now[0] += 1
    assert keys.claim("k", "f").state == "mine"
    keys.close()


def test_what_fails_half_way_frees_its_key(keys: SqliteKeys) -> None:
    def fail(again: bool) -> Reply:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        serve_once(keys, "k", "f", fail)
    assert keys.claim("k", "f").state == "mine"


@pytest.mark.parametrize("outcome", ["done", "refused"])
def test_a_disk_that_fails_half_way_does_not_block_the_key_once_it_is_well(tmp_path: Path, outcome: str) -> None:
    path = tmp_path / "keys.db"
    keys = SqliteKeys(path)

    def act(again: bool) -> Reply:
        with closing(sqlite3.connect(path)) as other:
            for verb in ("UPDATE", "DELETE"):
                other.execute(f"CREATE TRIGGER no_{verb} BEFORE {verb} ON replies BEGIN SELECT RAISE(ABORT, 'no'); END")
        if outcome == "refused":
            raise Problem(429, "queue-full", "later")
        return json_reply({"acted": True})

    if outcome == "refused":
        with pytest.raises(Problem, match="queue-full"):
            serve_once(keys, "k", "f", act)
    else:
        serve_once(keys, "k", "f", act)
    with pytest.raises(Problem) as failing:
        serve_once(keys, "k", "f", act)
    assert (failing.value.slug, failing.value.headers) == ("journal-unavailable", {"Retry-After": "5"})
    with closing(sqlite3.connect(path)) as other:
        other.executescript("DROP TRIGGER no_UPDATE; DROP TRIGGER no_DELETE;")
    assert keys.claim("k", "f").state == ("kept" if outcome == "done" else "mine")
    keys.close()


def test_a_store_that_fails_lets_nothing_happen_twice(tmp_path: Path) -> None:
    keys = SqliteKeys(tmp_path / "keys.db")
    keys.close()
    with pytest.raises(Problem) as refused:
        serve_once(keys, "k", "f", lambda again: pytest.fail("acted without a mark"))
    assert (refused.value.status, refused.value.slug) == (503, "journal-unavailable")


def test_what_is_kept_about_a_run_can_be_buried_and_then_acts_no_more(tmp_path: Path) -> None:
    keys = SqliteKeys(tmp_path / "keys.db")
    for key, run in (("gone", "r1"), ("other", "r2")):
        serve_once(keys, key, "f", lambda again, run=run: json_reply({"said": "secret"}).about(run))  # type: ignore[misc]
    keys.bury("r1")
    buried, other = (serve_once(keys, key, "f", lambda again: pytest.fail("acted again")) for key in ("gone", "other"))
    keys.close()
    assert (buried.status, json.loads(buried.body)["type"]) == (404, "unknown-run")
    assert ("Content-Type", "application/problem+json") in buried.headers
    assert (other.status, json.loads(other.body)) == (200, {"said": "secret"})


def test_a_store_of_the_first_version_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "keys.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as old:
        old.execute(
            "CREATE TABLE replies (key TEXT PRIMARY KEY, fingerprint TEXT NOT NULL, boot TEXT NOT NULL,"
            " at REAL NOT NULL, status INTEGER, headers TEXT, body BLOB) WITHOUT ROWID"
        )
        old.execute("INSERT INTO replies VALUES ('k', 'f', 'b', ?, 200, '[]', x'7b7d')", (time.time(),))
    keys = SqliteKeys(path)
    assert serve_once(keys, "k", "f", lambda again: pytest.fail("acted again")).body == b"{}"
    serve_once(keys, "new", "f", lambda again: json_reply({}).about("r1"))
    keys.bury("r1")
    keys.close()


def test_digests_tell_where_one_part_ends() -> None:
    assert digest("ab", "c") != digest("a", "bc")
    assert digest("a", b"b") == digest(b"a", "b")
