"""Every address against every token: taken from the routes themselves, so that a new one cannot be forgotten."""

from __future__ import annotations

import ast
import json
import logging
import re
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flower_http import auth
from flower_http.errors import StartError
from flower_http.tokens import SCOPES, TokenStore, add_token, read_rows, revoke_token
from tests.http.event_tools import Wire
from tests.http.secured import Secured, secured
from tests.support import eventually

#: What a token that may only steer must not do; everything else that changes something is steering.
STARTING = {("POST", "/runs"), ("POST", "/runs/{run_id}/resume"), ("DELETE", "/runs/{run_id}")}
EVENTS = {("GET", "/events"), ("GET", "/runs/{run_id}/events"), ("HEAD", "/runs/{run_id}/events")}


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured(tmp_path_factory.mktemp("scopes")) as running:
        yield running


def addresses(live: Secured) -> set[tuple[str, str]]:
    """Every method and address the server answers, as the contract writes them."""
    rules = {(method, rule.rule) for rule in live.app.url_map.iter_rules() for method in rule.methods or ()}
    return {(method, re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", rule)) for method, rule in rules} | EVENTS


def needed(method: str, path: str) -> str | None:
    """The scope the contract's prose demands."""
    if path == "/healthz":
        return None
    if method in ("GET", "HEAD"):
        return "read"
    return "start" if (method, path) in STARTING else "steer"


def status(live: Secured, method: str, path: str, headers: str) -> int:
    target = re.sub(r"{\w+}", "x", path.replace("{run_id}", live.run_id))
    return live.ask(target, method=method, headers=headers).status


@pytest.mark.parametrize("scope", SCOPES)
def test_a_token_reaches_every_address_of_its_scope_and_no_other(live: Secured, scope: str) -> None:
    for method, path in sorted(addresses(live)):
        need = needed(method, path)
        allowed = need is None or SCOPES.index(scope) >= SCOPES.index(need)
        found = status(live, method, path, live.bearer(scope))
        assert (found not in (401, 403)) if allowed else (found == 403), (method, path, found)


@pytest.mark.parametrize("headers", ["", "Authorization: Bearer flw_guessed\r\n", "Cookie: token=1\r\n"])
def test_without_a_valid_token_there_is_healthz_and_nothing_else(live: Secured, headers: str) -> None:
    for method, path in sorted(addresses(live)):
        found = status(live, method, path, headers)
        assert found == (200 if path == "/healthz" else 401), (method, path, found)


@pytest.mark.parametrize("name", ["token", "access_token", "authorization", "bearer"])
@pytest.mark.parametrize("path", ["/runs", "/runs/{run_id}/events", "/events", "/healthz"])
def test_a_token_in_an_address_opens_nothing_and_is_written_nowhere(
    live: Secured, path: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    target = f"{path.replace('{run_id}', live.run_id)}?{name}={live.tokens['start']}"
    with caplog.at_level(logging.DEBUG):
        alone = live.ask(target)
        accompanied = live.ask(target, headers=live.bearer("read"))
    assert alone.status == (400 if path == "/healthz" else 401)
    assert (accompanied.status, accompanied.json["type"]) == (400, "bad-parameter")
    assert live.tokens["start"] not in caplog.text + str(alone) + str(accompanied)


@pytest.mark.parametrize(
    "headers",
    [
        "Authorization: Bearer {0}\r\nAuthorization: Bearer {0}\r\n",
        "Authorization: Bearer {0}, Bearer {0}\r\n",
        "Authorization: Basic {0}\r\n",
        "Proxy-Authorization: Bearer {0}\r\n",
        "X-Authorization: Bearer {0}\r\n",
        "Authorization: Bearer {0}\x00\r\n",
        "Authorization: Bearer {0}" + "A" * 600 + "\r\n",
    ],
)
def test_a_token_counts_in_one_place_and_one_form(live: Secured, headers: str) -> None:
    assert live.ask("/runs", headers=headers.format(live.tokens["start"])).status in (400, 401)


@pytest.mark.parametrize("line", ["X-Forwarded-For: 127.0.0.1", "X-Forwarded-User: ada", "X-Real-IP: ::1"])
def test_a_proxy_may_say_what_it_likes_the_token_counts(live: Secured, line: str) -> None:
    assert live.ask("/runs", headers=f"{line}\r\n").status == 401
    assert live.ask("/runs", headers=f"{line}\r\n{live.bearer('read')}").status == 200


def test_a_hash_from_the_file_is_no_token(live: Secured) -> None:
    for row in read_rows(live.store.path):
        assert live.ask("/runs", headers=f"Authorization: Bearer {row.sha256}\r\n").status == 401


def test_no_hash_is_compared_but_in_constant_time() -> None:
    """How long a look takes says nothing about a guess only if nothing else than compare_digest ever looks."""
    tree = ast.parse(Path(auth.__file__).read_text(encoding="utf-8"))
    compared = [node for node in ast.walk(tree) if isinstance(node, ast.Compare) and "sha256" in ast.dump(node)]
    assert compared == []
    called = [ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)]
    assert called.count("hmac.compare_digest") == 1
    loops = [node for node in ast.walk(tree) if isinstance(node, ast.For) and "compare_digest" in ast.dump(node)]
    assert not [node for loop in loops for node in ast.walk(loop) if isinstance(node, (ast.Break, ast.Return))]


def test_a_revoked_token_lets_its_held_readers_go_and_no_others(tmp_path: Path) -> None:
    with secured(tmp_path) as live:
        live.store.on_change.append(live.dispatcher.recheck)
        target = f"/runs/{live.run_id}/events?after=1&wait=25"
        with Wire(live.server) as loser, Wire(live.server) as keeper:
            loser.send(target, headers=live.bearer("read"))
            keeper.send(target, headers=live.bearer("steer"))
            eventually(lambda: live.dispatcher.parked == 2)
            began = time.monotonic()
            revoke_token(live.store.path, "a-read")
            live.store.refresh()  # the server does so every second
            assert loser.reply().status == 401
            assert time.monotonic() - began < 5
            eventually(lambda: live.dispatcher.parked == 1)
            live.log.append("text", "news")
            assert [event["text"] for event in keeper.reply().json["events"]] == ["news"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[" * 100_000,
        '{"tokens": {}',
        '{"tokens": [{"name": "x", "scope": ["start"], "sha256": "00"}]}',
    ],
)
def test_a_tokens_file_that_is_spoilt_under_a_running_server_closes_it_until_it_is_mended(
    tmp_path: Path, text: str
) -> None:
    with secured(tmp_path) as live:
        path = live.store.path
        whole = path.read_text()
        path.write_text(text)
        assert live.ask("/runs", headers=live.bearer("start")).status == 401
        assert live.ask("/healthz").status == 200
        path.write_text(whole)
        assert live.ask("/runs", headers=live.bearer("start")).status == 200


@contextmanager
def no_file_can_be_opened() -> Iterator[None]:
    """As in a process that has as many files open as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_tokens_file_that_cannot_be_read_for_a_moment_is_read_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "tokens.json"
    add_token(path, "a", "read")
    store = TokenStore(path)
    add_token(path, "b", "read")
    with no_file_can_be_opened():
        for _ in range(3):
            store.refresh()
    assert store.rows() == ()
    assert len(caplog.records) == 1, "said once, however many requests come"
    assert store.refresh()
    assert [row.name for row in store.rows()] == ["a", "b"]


@pytest.mark.parametrize("name", ["two\nlines", "", "-", "a b", 7, None, ["a"], "x" * 65])
def test_a_name_that_could_not_have_been_made_here_spoils_the_file(tmp_path: Path, name: object) -> None:
    path = tmp_path / "tokens.json"
    path.write_text(json.dumps({"tokens": [{"name": name, "scope": "start", "sha256": "0" * 64}]}))
    with pytest.raises(StartError, match=r"tokens\.json"):
        read_rows(path)


@pytest.mark.parametrize("mode", [0o666, 0o660, 0o602])
def test_a_file_that_others_may_write_lets_nobody_in(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "tokens.json"
    add_token(path, "a", "read")
    store = TokenStore(path)
    path.chmod(mode)
    assert store.refresh()
    assert store.rows() == ()
    with pytest.raises(StartError, match="chmod 600"):
        TokenStore(path)
    path.chmod(0o640)  # reading it is harmless: it holds no token
    assert store.refresh()
    assert [row.name for row in store.rows()] == ["a"]


def test_names_that_were_made_here_are_names_that_are_taken(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    for name in ("a", "0.b-c_d", "x" * 64):
        add_token(path, name, "read")
    assert len(json.loads(path.read_text())["tokens"]) == len(read_rows(path)) == 3
