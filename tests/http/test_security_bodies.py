"""Bodies, fields and addresses as somebody would send them who wants to see the server fall over."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import marshmallow
import pytest

from flower_http import schemas
from flower_http.fields import Flag, Labels, Number, Text, Texts, Whole
from flower_http.settings import MAX_BODY_BYTES
from tests.http.event_tools import Wire
from tests.http.secured import Secured, secured

FORM = "application/x-www-form-urlencoded"
#: Far more than any of these should take, even on a busy machine; the slow ways took minutes.
SOON_S = 10.0
BODIES = [
    found
    for found in vars(schemas).values()
    if isinstance(found, type) and issubclass(found, schemas.Body) and found is not schemas.Body
]


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured(tmp_path_factory.mktemp("bodies")) as running:
        yield running


def is_bounded(made: marshmallow.fields.Field[Any]) -> bool:
    if isinstance(made, Text):
        return 0 < made.high <= schemas.LONG_TEXT
    if isinstance(made, Labels):
        return made.most <= 100 and is_bounded(made.key) and is_bounded(made.value)
    if isinstance(made, Texts):
        return made.most <= 100 and is_bounded(made.item)
    return isinstance(made, (Flag, Whole, Number))


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
def test_whatever_a_body_may_hold_has_an_end(body: type[schemas.Body]) -> None:
    assert [name for name, made in body().fields.items() if not is_bounded(made)] == []


@pytest.mark.parametrize(
    ("raw", "slug"),
    [
        (b"[" * 500_000, "bad-json"),
        (b'{"labels":' * 100_000, "bad-json"),
        (b'{"task":' + b"9" * 1_000_000 + b"}", "bad-json"),
        (b'{"rounds":' + b"9" * 4000 + b"}", "invalid-body"),
        (b'{"timeout_s": 1e999999}', "invalid-body"),
        (b'{"timeout_s": -1e400}', "invalid-body"),
        (b'{"timeout_s": 0.' + b"1" * 900_000 + b"e99}", "invalid-body"),
        (b'{"task": "\\ud800"}', "invalid-body"),
        (b'{"workspace": "a\\u0000b"}', "invalid-body"),
        (b'{"task": "\xff\xfe"}', "bad-json"),
        (b"\x00", "bad-json"),
        (b'{"task": "a"}\x00', "bad-json"),
        (b"\xef\xbb\xbf{}", "bad-json"),
        (b'{"task": "a", "task": "b"}', "bad-json"),
        (b'{"labels": {"a": "1", "a": "2"}}', "bad-json"),
        (b'{"__proto__": {"admin": true}}', "invalid-body"),
        (b'{"__class__": "x", "task": "a"}', "invalid-body"),
        (b'{"task": Infinity}', "bad-json"),
        (b'{"flow": "once", "tools": [' + b"0," * 500_000 + b"0]}", "invalid-body"),
        (b'{"labels": {' + b",".join(b'"k%d":0' % number for number in range(75_000)) + b"}}", "invalid-body"),
        (b'{"task": "' + b"a" * 200_001 + b'"}', "invalid-body"),
        (b'"' + b"a" * 1_000_000 + b'"', "invalid-body"),
    ],
    ids=lambda value: value if isinstance(value, str) else value[:20].decode("latin-1"),
)
def test_a_hostile_body_is_refused_briefly_and_soon(live: Secured, raw: bytes, slug: str) -> None:
    before, began = len(live.manager.runs), time.monotonic()
    reply = live.post("/runs", raw)
    assert (reply.status, reply.json["type"]) == ({"bad-json": 400, "invalid-body": 422}[slug], slug)
    assert time.monotonic() - began < SOON_S
    assert len(reply.body) < 5000
    assert len(live.manager.runs) == before


def test_a_hundred_thousand_unknown_fields_are_not_looked_at_one_by_one(live: Secured) -> None:
    began = time.monotonic()
    reply = live.post("/runs", json.dumps({f"k{number}": 0 for number in range(75_000)}).encode())
    assert (reply.status, list(reply.json["errors"])) == (422, ["_schema"])
    assert time.monotonic() - began < SOON_S


def test_a_field_with_a_name_of_half_a_mebibyte_is_named_by_its_beginning(live: Secured) -> None:
    reply = live.post("/runs", json.dumps({"n" * 500_000: 0}).encode())
    assert (reply.status, len(reply.body) < 1000) == (422, True)
    twice = b'{"%s": 0, "%s": 0}' % (b"n" * 400_000, b"n" * 400_000)
    assert len(live.post("/runs", twice).body) < 1000
    form = b"%s=&%s=" % (b"n" * 400_000, b"n" * 400_000)
    assert len(live.post("/answer", form, FORM).body) < 1000


def test_one_name_given_twice_among_many_is_found_at_once(live: Secured) -> None:
    pairs = ",".join([*(f'"k{number}":0' for number in range(75_000)), '"k74999":1'])
    began = time.monotonic()
    reply = live.post("/runs", b"{" + pairs.encode() + b"}")
    assert (reply.status, reply.json["type"]) == (400, "bad-json")
    assert "k74999" in reply.json["detail"]
    assert time.monotonic() - began < SOON_S


@pytest.mark.parametrize(
    "form",
    [
        b"&".join(b"f%d=x" % number for number in range(20_000)),
        b"&" * 500_000 + b"=" * 1000,
        b"text=" + b"%00" * 10 + b"&ask_id=%ff",
        b"ask_id=" + b"a" * 65 + b"&text=x",
        b"ask_id=q1&text=" + b"%41" * 200_001,
    ],
)
def test_a_hostile_form_is_refused_briefly_and_soon(live: Secured, form: bytes) -> None:
    began = time.monotonic()
    reply = live.post("/answer", form, FORM)
    assert reply.status in (400, 422)
    assert time.monotonic() - began < SOON_S
    assert len(reply.body) < 10_000


@pytest.mark.parametrize("path", ["/runs", "/answer", "/events", "/nowhere", "/healthz"])
def test_ten_megabytes_are_refused_before_they_have_come(live: Secured, path: str) -> None:
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10485760\r\n{live.bearer('start')}\r\n"
    assert live.raw(head.encode()).status == 413


def test_ten_megabytes_in_chunks_are_refused_once_they_are_too_many(live: Secured) -> None:
    with Wire(live.server) as wire:
        lines = f"Host: localhost\r\nTransfer-Encoding: chunked\r\n{live.bearer('start')}"
        wire.raw(f"POST /runs HTTP/1.1\r\n{lines}\r\n".encode())
        chunk = b"10000\r\n" + b" " * 65_536 + b"\r\n"
        sent = 0
        try:
            while sent < 10 * MAX_BODY_BYTES:
                wire.raw(chunk)
                sent += 65_536
        except OSError:
            return  # it hung up while we were still talking
        assert wire.reply().status == 413
    assert live.ask("/healthz").status == 200


@pytest.mark.parametrize(
    "path",
    [
        "/runs/..%2f..%2fetc%2fpasswd",
        "/runs/%2e%2e/%2e%2e/etc/passwd",
        "/runs/../../etc/passwd",
        "/runs/..%5c..%5cetc",
        "/runs/%00",
        "/runs/RUN%00",
        "/runs/RUN/events/",
        "/runs/RUN;x/events",
        "/runs/%52UN/../RUN",
        "/runs//events",
        "//evil.example/runs",
        "/runs/%ff%fe",
        "/runs/%c0%ae%c0%ae",
        "/runs/%E2%80%AE",
        "/runs/" + "a" * 10_000,
        "/runs/" + "a" * 10_000 + "/events",
        "/%0d%0aSet-Cookie:%20x=1",
        "/runs/x%0d%0aSet-Cookie:%20x=1/events",
    ],
)
def test_no_address_leads_out_of_the_service(live: Secured, path: str) -> None:
    reply = live.ask(path.replace("RUN", live.run_id), headers=live.bearer("start"))
    assert reply.status in (400, 404)
    assert len(reply.body) < 1000
    assert "set-cookie" not in reply.headers
    assert "root:" not in reply.body.decode()


@pytest.mark.parametrize(
    "query",
    [
        "label=" + "a" * 20_000 + "=x",
        "label=a=" + "x" * 20_000,
        "cursor=" + "A" * 20_000,
        "limit=0" + "9" * 5000,
        "limit=1e3",
        "state=" + "x" * 20_000,
        "x" * 20_000 + "=1",
        "&".join(f"p{number}=1" for number in range(2000)),
        "state=%ff",
        "state=running%00",
    ],
)
def test_no_query_of_a_list_is_too_long_or_too_odd_to_be_refused(live: Secured, query: str) -> None:
    reply = live.ask(f"/runs?{query}", headers=live.bearer("read"))
    assert (reply.status, reply.json["type"]) == (400, "bad-parameter")
    assert len(reply.body) < 1000


@pytest.mark.parametrize("query", ["run=" + "r" * 20_000, "run=%00", "run=..%2f", "after=" + "9" * 20_000])
def test_no_query_of_the_events_is_too_long_or_too_odd_to_be_refused(live: Secured, query: str) -> None:
    reply = live.ask(f"/events?{query}", headers=live.bearer("read"))
    assert reply.status in (400, 404)
    assert len(reply.body) < 1000
