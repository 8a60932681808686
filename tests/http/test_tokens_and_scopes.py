from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from flower_http.app import create_app
from flower_http.auth import Guard
from flower_http.errors import Problem, StartError
from flower_http.idempotency import SqliteKeys
from flower_http.settings import Settings
from flower_http.tokens import TokenStore, add_token, read_rows, revoke_token
from tests.http.json_of import json_of
from tests.http.memory_manager import MemoryManager

FROM_ELSEWHERE = "0.0.0.0"  # noqa: S104 - nothing is bound here


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.fixture
def path(settings: Settings) -> Path:
    settings.data_dir.mkdir(parents=True)
    return settings.tokens_path


def test_the_file_holds_no_token_and_is_nobody_elses(path: Path) -> None:
    token = add_token(path, "bot", "steer")
    assert token not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    add_token(path, "other", "read")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [(row.name, row.scope) for row in read_rows(path)] == [("bot", "steer"), ("other", "read")]


@pytest.mark.parametrize("name", ["", "env", "local", "a b", "-x", "x" * 65, "ä", "bot"])
def test_a_name_that_is_malformed_reserved_or_taken_is_refused(path: Path, name: str) -> None:
    add_token(path, "bot", "read")
    with pytest.raises(StartError, match="token"):
        add_token(path, name, "read")


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"tokens": [{"name": "x"}]}', '{"tokens": [{"name":"x","scope":"root","sha256":"ab"}]}']
)
def test_a_file_that_makes_no_sense_stops_the_start(path: Path, text: str) -> None:
    path.write_text(text)
    with pytest.raises(StartError, match=r"tokens\.json"):
        TokenStore(path)


def allowed(client: FlaskClient, token: str) -> list[str]:
    """Which of a read, a steer and a start verb ``token`` may use."""
    calls = {"read": ("GET", "/runs"), "steer": ("POST", "/interrupt"), "start": ("POST", "/runs")}
    replies = {
        scope: client.open(where, method=method, json={} if method == "POST" else None, headers=bearer(token))
        for scope, (method, where) in calls.items()
    }
    return [scope for scope, reply in replies.items() if reply.status_code not in (401, 403)]


@pytest.mark.parametrize(
    ("scope", "reach"), [("read", ["read"]), ("steer", ["read", "steer"]), ("start", ["read", "steer", "start"])]
)
def test_a_token_reaches_as_far_as_its_scope(
    settings: Settings, path: Path, manager: MemoryManager, keys: SqliteKeys, scope: str, reach: list[str]
) -> None:
    token = add_token(path, "bot", scope)
    assert allowed(create_app(settings, manager=manager, keys=keys).test_client(), token) == reach


def test_the_token_of_the_environment_reaches_everything_and_is_named_env(
    settings: Settings, manager: MemoryManager, keys: SqliteKeys
) -> None:
    token = "e" * 32
    client = create_app(replace(settings, token=token), manager=manager, keys=keys).test_client()
    assert allowed(client, token) == ["read", "steer", "start"]
    assert [by for _, by in manager.started] == ["env"]


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer ", "Bearer wrong", "Basic {}", "Bearer {} {}", "{}", "Bearer é", "Bearer {},"]
)
def test_anything_but_the_token_is_refused(
    settings: Settings, path: Path, manager: MemoryManager, keys: SqliteKeys, header: str
) -> None:
    token = add_token(path, "bot", "start")
    client = create_app(settings, manager=manager, keys=keys).test_client()
    reply = client.get("/runs", headers={"Authorization": header.replace("{}", token)})
    assert (reply.status_code, json_of(reply)["type"]) == (401, "unauthorized")
    assert token not in reply.text
    assert client.get("/runs", headers={"Authorization": f"bearer {token}"}).status_code == 200


def test_a_token_in_the_address_is_refused(settings: Settings, path: Path, keys: SqliteKeys) -> None:
    token = add_token(path, "bot", "start")
    client = create_app(settings, manager=MemoryManager(), keys=keys).test_client()
    assert client.get(f"/runs?token={token}").status_code == 401


def test_only_healthz_needs_no_token(settings: Settings, path: Path, keys: SqliteKeys) -> None:
    add_token(path, "bot", "read")
    client = create_app(settings, manager=MemoryManager(), keys=keys).test_client()
    assert client.get("/healthz").status_code == 200
    assert {client.get(where).status_code for where in ("/", "/readyz", "/openapi.yaml", "/runs", "/asks")} == {401}


def test_adding_and_revoking_work_while_the_server_runs(path: Path) -> None:
    store = TokenStore(path)
    changes: list[int] = []
    store.on_change.append(lambda: changes.append(len(store.rows())))
    guard = Guard(store, open_to_loopback=True)
    assert guard({}, "start").name == "local"
    first, second = add_token(path, "a", "read"), add_token(path, "b", "read")
    assert guard({"HTTP_AUTHORIZATION": f"Bearer {first}"}, "read").name == "a"
    assert revoke_token(path, "a")
    assert not revoke_token(path, "a")
    with pytest.raises(Problem) as refused:
        guard({"HTTP_AUTHORIZATION": f"Bearer {first}"}, "read")
    assert refused.value.status == 401
    assert guard({"HTTP_AUTHORIZATION": f"Bearer {second}"}, "read").name == "b"
    assert changes == [2, 1]


@pytest.mark.parametrize("how", ["revoked", "deleted", "spoilt"])
def test_losing_the_last_token_opens_nothing(path: Path, how: str) -> None:
    add_token(path, "a", "start")
    guard = Guard(TokenStore(path), open_to_loopback=True)
    if how == "revoked":
        revoke_token(path, "a")
    elif how == "deleted":
        path.unlink()
    else:
        path.write_text("not json")
    with pytest.raises(Problem) as refused:
        guard({}, "read")
    assert refused.value.slug == "unauthorized"


def test_away_from_loopback_nothing_is_open_even_without_tokens(path: Path) -> None:
    with pytest.raises(Problem) as refused:
        Guard(TokenStore(path), open_to_loopback=False)({}, "read")
    assert refused.value.status == 401
    assert not Settings(path, path, host=FROM_ELSEWHERE).on_loopback


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:8420", "127.0.0.1:1", "127.8.9.1", "[::1]:8420", "LOCALHOST", ""]
)
def test_loopback_names_are_served_without_a_token(client: FlaskClient, host: str) -> None:
    assert client.get("/runs", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1", "[::2]", "localhost:x", "::1"],
)
def test_any_other_host_name_is_refused_without_a_token(client: FlaskClient, host: str) -> None:
    assert json_of(client.get("/runs", headers={"Host": host}))["type"] == "host-not-allowed"


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:8420"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "same-origin"},
    ],
)
def test_a_web_page_cannot_steer_without_a_token(
    client: FlaskClient, manager: MemoryManager, headers: dict[str, str]
) -> None:
    form: dict[str, Any] = {"data": "task=a", "content_type": "application/x-www-form-urlencoded"}
    assert json_of(client.post("/runs", headers=headers, **form))["type"] == "cross-origin"
    assert manager.started == []
    assert client.post("/runs", headers={"Sec-Fetch-Site": "none"}, **form).status_code == 201


def test_with_a_token_any_host_and_origin_will_do(settings: Settings, path: Path, keys: SqliteKeys) -> None:
    headers = {**bearer(add_token(path, "bot", "start")), "Host": "flower.example", "Origin": "https://ui.example"}
    client = create_app(settings, manager=MemoryManager(), keys=keys).test_client()
    assert client.post("/runs", json={"task": "a"}, headers=headers).status_code == 201
