from __future__ import annotations

import json
from typing import Any

import pytest
from flask.testing import FlaskClient

from flower_http.schemas import StartParams
from tests.http.json_of import json_of
from tests.http.memory_manager import MemoryManager

FORM = "application/x-www-form-urlencoded"

REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("rounds", {"rounds": "3"}),
    ("rounds", {"rounds": 3.0}),
    ("rounds", {"rounds": True}),
    ("rounds", {"rounds": 0}),
    ("rounds", {"rounds": 101}),
    ("rounds", {"rounds": None}),
    ("goal", {"goal": 1}),
    ("goal", {"goal": "true"}),
    ("goal", {"goal": None}),
    ("timeout_s", {"timeout_s": None}),
    ("timeout_s", {"timeout_s": 86_401}),
    ("timeout_s", {"timeout_s": "60"}),
    ("timeout_s", {"timeout_s": 10**400}),
    ("timeout_s", {"timeout_s": False}),
    ("budget_usd", {"budget_usd": 0}),
    ("budget_usd", {"budget_usd": -1}),
    ("max_asks", {"max_asks": -1}),
    ("task", {"task": ["a"]}),
    ("task", {"task": "x" * 200_001}),
    ("task", {"task": "\ud800"}),
    ("instructions", {"instructions": "x" * 30_001}),
    ("instructions", {"instructions": "a\0b"}),
    ("flow", {"flow": "os:system"}),
    ("flow", {"flow": "starter\n"}),
    ("lang", {"lang": "xx"}),
    ("labels", {"labels": {"a": 1}}),
    ("labels", {"labels": {"": "x"}}),
    ("labels", {"labels": [["a", "b"]]}),
    ("labels", {"labels": {f"k{number}": "" for number in range(33)}}),
    ("params", {"flow": "mine", "params": {"depth": 1}}),
    ("params", {"flow": "mine", "params": {"1st": "x"}}),
    ("params", {"flow": "mine", "params": {"a": "x" * 4001}}),
    ("params", {"flow": "mine", "params": {f"k{number}": "" for number in range(33)}}),
    ("params", {"params": {"a": "b"}}),
    ("params", {"flow": "once", "task": "x", "params": {"a": "b"}}),
    ("tools", {"flow": "once", "tools": "Read"}),
    ("tools", {"flow": "once", "tools": ["Bash(rm *)"]}),
    ("tools", {"tools": ["Read"]}),
    ("resume", {"resume": "abc"}),
    ("fork", {"flow": "once", "fork": True}),
    ("permission_mode", {"flow": "once", "permission_mode": "yolo"}),
    ("permission_mode", {"flow": "once", "permission_mode": "bypassPermissions"}),
    ("model", {"model": "--help"}),
    ("isolated", {"isolated": True}),
    ("isolate", {"isolate": 1}),
    ("isolate", {"isolate": True, "flow": "once", "task": "x"}),
    ("workspace", {"workspace": ""}),
    ("workspace", {"workspace": "/etc"}),
    ("workspace", {"workspace": "a/../../b"}),
    ("workspace", {"workspace": "a//b"}),
    ("workspace", {"workspace": "./a"}),
    ("workspace", {"workspace": "~root"}),
    ("workspace", {"workspace": "a\\b"}),
    ("workspace", {"workspace": "a\0b"}),
    ("workspace", {"workspace": "a\nb"}),
]


@pytest.mark.parametrize(
    ("field", "body"), REFUSED, ids=[f"{name}-{number}" for number, (name, _) in enumerate(REFUSED)]
)
def test_a_wrong_field_is_refused_by_name_and_starts_nothing(
    client: FlaskClient, manager: MemoryManager, field: str, body: dict[str, Any]
) -> None:
    reply = client.post("/runs", json={"task": "a", **body})
    assert (reply.status_code, json_of(reply)["type"]) == (422, "invalid-body")
    errors = json_of(reply)["errors"]
    assert list(errors) == [field]
    assert errors[field]
    assert all(isinstance(message, str) for message in errors[field])
    assert manager.started == []


def test_every_wrong_field_is_named_at_once(client: FlaskClient) -> None:
    errors = json_of(client.post("/runs", json={"goal": 0, "rounds": 0, "nope": 0}))["errors"]
    assert sorted(errors) == ["goal", "nope", "rounds"]
    assert all(isinstance(messages, list) and messages for messages in errors.values())


def test_everything_allowed_reaches_the_manager_as_sent(client: FlaskClient, manager: MemoryManager) -> None:
    body: dict[str, Any] = {
        "task": "清理 \x00 日志",
        "workspace": "shop/front end",
        "flow": "once",
        "goal": False,
        "rounds": 100,
        "max_asks": 0,
        "timeout_s": -1,
        "isolate": False,
        "lang": "zh",
        "model": "claude-opus-5-5[1m]",
        "budget_usd": 0.01,
        "window": 200_000,
        "handoff": False,
        "labels": {"team/a": ""},
        "tools": [],
        "permission_mode": "plan",
        "resume": "0b0e-1",
        "fork": True,
    }
    assert client.post("/runs", json=body).status_code == 201
    expected = StartParams(**{**body, "tools": (), "timeout_s": -1.0})
    assert manager.started == [(expected, "local")]


@pytest.mark.parametrize(
    "raw",
    [
        b"{",
        b"nul",
        b'{"task": NaN}',
        b'{"task": 1e}',
        b'{"task":"a","task":"b"}',
        b"\xff",
        b"[" * 100_000,
        b"9" * 5000,
    ],
)
def test_what_is_not_json_is_refused(client: FlaskClient, raw: bytes) -> None:
    reply = client.post("/answer", data=raw, content_type="application/json")
    assert (reply.status_code, json_of(reply)["type"]) == (400, "bad-json")


def test_a_compressed_body_is_refused_for_what_it_is(client: FlaskClient) -> None:
    for coding, status in (("gzip", 415), ("br, identity", 415), ("identity", 201), ("", 201)):
        reply = client.post("/runs", json={"task": "x"}, headers={"Content-Encoding": coding})
        assert reply.status_code == status, coding
        if status == 415:
            assert json_of(reply)["type"] == "unsupported-media-type"
            assert reply.headers["Accept-Encoding"] == "identity"


def test_an_empty_body_has_no_fields(client: FlaskClient) -> None:
    for content_type in ("", "application/json", "text/plain"):
        reply = client.post("/answer", data=b"", content_type=content_type)
        assert reply.status_code == 422
        assert "ask_id" in json_of(reply)["errors"]


@pytest.mark.parametrize("raw", [b"[]", b'"a"', b"3", b"null", b"true"])
def test_json_that_is_no_object_is_refused(client: FlaskClient, raw: bytes) -> None:
    reply = client.post("/runs", data=raw, content_type="application/json")
    assert (reply.status_code, json_of(reply)["type"]) == (422, "invalid-body")


@pytest.mark.parametrize(
    "content_type", ["", "text/plain", "multipart/form-data; boundary=x", "application/json; charset=latin-1"]
)
def test_another_content_type_is_refused_with_what_would_do(client: FlaskClient, content_type: str) -> None:
    reply = client.post("/runs", data=b'{"task": "a"}', content_type=content_type)
    assert (reply.status_code, json_of(reply)["type"]) == (415, "unsupported-media-type")
    assert "application/json" in reply.headers["Accept"]


@pytest.mark.parametrize("content_type", ["application/json; charset=UTF-8", 'Application/JSON; charset="utf-8"'])
def test_utf8_may_be_named(client: FlaskClient, content_type: str) -> None:
    assert client.post("/runs", data=json.dumps({"task": "ü"}), content_type=content_type).status_code == 201


@pytest.mark.parametrize(
    ("form", "field"), [("text=a&text=b", "text"), ("ask_id=q1&option=1", "option"), ("ask_id=q1&text=a&x=1", "x")]
)
def test_a_form_is_held_to_the_same_rules(client: FlaskClient, form: str, field: str) -> None:
    client.post("/runs", json={"task": "a"})
    reply = client.post("/answer", data=form, content_type=FORM)
    assert reply.status_code == 422
    assert field in json_of(reply)["errors"]


def test_a_form_that_is_not_utf8_is_refused(client: FlaskClient) -> None:
    assert json_of(client.post("/runs", data="task=%ff", content_type=FORM))["type"] == "bad-json"


@pytest.mark.parametrize(
    "body", [{}, {"text": "a", "option": 1}, {"text": " "}, {"option": 0}, {"option": None}, {"text": None}]
)
def test_an_answer_has_words_or_an_option(client: FlaskClient, body: dict[str, Any]) -> None:
    client.post("/runs", json={"task": "a"})
    reply = client.post("/answer", json={"ask_id": "q1", **body})
    assert (reply.status_code, json_of(reply)["type"]) == (422, "invalid-body")


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("limit=0", "limit"),
        ("limit=-1", "limit"),
        ("limit=1_0", "limit"),
        ("limit=%EF%BC%91", "limit"),
        ("limit=01", "limit"),
        ("limit=1&limit=1", "limit"),
        ("limit=", "limit"),
        ("state=done", "state"),
        ("label=team", "label"),
        ("label==x", "label"),
        ("cursor=x", "cursor"),
        ("cursor=cnVuczo%3D", "cursor"),
        ("cursor=cnVuczp4", "cursor"),
        ("wait=1", "wait"),
        ("token=abc", "token"),
    ],
)
def test_a_wrong_query_parameter_is_refused_by_name(client: FlaskClient, query: str, name: str) -> None:
    reply = client.get(f"/runs?{query}")
    assert (reply.status_code, json_of(reply)["type"], json_of(reply)["parameter"]) == (400, "bad-parameter", name)


def test_a_query_where_none_belongs_is_refused(client: FlaskClient) -> None:
    for path in ("/", "/healthz", "/readyz", "/openapi.yaml", "/runs/x"):
        assert json_of(client.get(f"{path}?a=1"))["parameter"] == "a"
    assert json_of(client.post("/runs?task=a", json={}))["parameter"] == "task"


def test_a_large_limit_is_clamped(client: FlaskClient) -> None:
    for limit in ("9" * 16, "9" * 17, "9" * 6000):
        assert client.get(f"/runs?limit={limit}").status_code == 200
