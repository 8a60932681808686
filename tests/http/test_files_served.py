"""Files and documents over real HTTP: bytes, ranges, attackers, slow readers."""

from __future__ import annotations

import hashlib
import io
import os
import socket
import threading
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import requests
from flower_client import FlowerClient, Refused

from flower_http.server import Server
from tests.http.event_tools import Wire
from tests.http.run_world import RunWorld
from tests.http.served_world import served
from tests.support import eventually

HTTP_DATE = "%a, %d %b %Y %H:%M:%S GMT"
SIZE = 32 * 1024 * 1024
NAMES = ["big", "digits", "empty", "page.html", "src"]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunWorld]:
    world = RunWorld(tmp_path_factory.mktemp("world"))
    yield world
    world.shut_down()


@pytest.fixture(scope="module")
def server(world: RunWorld) -> Iterator[Server]:
    with served(world, threads=2) as server:
        yield server


@pytest.fixture(scope="module")
def run_id(world: RunWorld) -> str:
    run = world.start("", "shop")
    world.reaches(run.id, "succeeded")
    workspace = world.home / "work" / "shop"
    (workspace / "src").mkdir()
    (workspace / "page.html").write_text("<script>alert(1)</script>")
    (workspace / "digits").write_bytes(b"0123456789")
    (workspace / "empty").touch()
    (workspace / "src" / "größe #1?.txt").write_text("ü")
    (workspace / "big").write_bytes(os.urandom(1024 * 1024) * (SIZE // 1024 // 1024))
    (world.home / "work" / "secret").write_text("the secret")
    return run.id


@pytest.fixture
def base(server: Server, run_id: str) -> str:
    return f"{server.url}/runs/{run_id}/files"


def get(url: str, **headers: str) -> requests.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return requests.get(url, headers={**named, "Accept-Encoding": "identity"}, timeout=20)


def test_a_listing_leads_to_every_file(base: str, server: Server) -> None:
    listing = get(base).json()
    assert {entry["name"]: entry["type"] for entry in listing["entries"]} == {
        "big": "file",
        "digits": "file",
        "empty": "file",
        "page.html": "file",
        "src": "directory",
    }
    (source,) = [entry for entry in listing["entries"] if entry["name"] == "src"]
    (entry,) = get(server.url + source["href"]).json()["entries"]
    assert (entry["name"], entry["size"]) == ("größe #1?.txt", 2)
    assert get(server.url + entry["href"]).text == "ü"


def test_a_listing_comes_in_pages(base: str) -> None:
    seen: list[str] = []
    cursor = ""
    while True:
        page = get(f"{base}?limit=2" + (f"&cursor={cursor}" if cursor else "")).json()
        assert len(page["entries"]) <= 2
        seen += [entry["name"] for entry in page["entries"]]
        if not (cursor := page["next_cursor"] or ""):
            break
    assert seen == NAMES
    assert get(f"{base}?cursor=cnVuczp4").json()["parameter"] == "cursor"
    assert get(f"{base}?limit=0").json()["parameter"] == "limit"


def test_a_page_an_agent_wrote_is_never_run_by_a_browser(base: str) -> None:
    reply = get(f"{base}/page.html")
    assert reply.text == "<script>alert(1)</script>"
    assert reply.headers["Content-Type"] == "application/octet-stream"
    assert reply.headers["Content-Disposition"].startswith("attachment;")
    assert reply.headers["X-Content-Type-Options"] == "nosniff"
    assert "sandbox" in reply.headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    ("wanted", "status", "body", "where"),
    [
        ("bytes=0-0", 206, b"0", "bytes 0-0/10"),
        ("bytes=2-4", 206, b"234", "bytes 2-4/10"),
        ("bytes=7-", 206, b"789", "bytes 7-9/10"),
        ("bytes=-3", 206, b"789", "bytes 7-9/10"),
        ("bytes=5-999999999999", 206, b"56789", "bytes 5-9/10"),
        ("bytes=-999", 206, b"0123456789", "bytes 0-9/10"),
        ("bytes=10-", 416, None, "bytes */10"),
        ("bytes=99-", 416, None, "bytes */10"),
        ("bytes=0-1,4-5", 200, b"0123456789", None),
        ("bytes=4-2", 200, b"0123456789", None),
        ("lines=1-2", 200, b"0123456789", None),
        ("nonsense", 200, b"0123456789", None),
    ],
)
def test_a_part_of_a_file_is_given_where_one_is_meant(
    base: str, wanted: str, status: int, body: bytes | None, where: str | None
) -> None:
    reply = get(f"{base}/digits", Range=wanted)
    assert (reply.status_code, reply.headers.get("Content-Range")) == (status, where)
    if body is None:
        assert reply.json()["type"] == "range-not-satisfiable"
    else:
        assert (reply.content, int(reply.headers["Content-Length"])) == (body, len(body))


def test_no_part_of_an_empty_file_can_be_had_but_all_of_it(base: str) -> None:
    assert get(f"{base}/empty", Range="bytes=0-").status_code == 416
    assert (get(f"{base}/empty").status_code, get(f"{base}/empty").content) == (200, b"")


def test_a_file_that_has_changed_is_not_continued_and_one_that_has_not_is_not_sent_again(base: str) -> None:
    etag = get(f"{base}/digits").headers["ETag"]
    assert get(f"{base}/digits", Range="bytes=2-4", If_Range=etag).status_code == 206
    assert get(f"{base}/digits", Range="bytes=2-4", If_Range='"another"').content == b"0123456789"
    same = get(f"{base}/digits", If_None_Match=etag)
    assert (same.status_code, same.content) == (304, b"")
    assert get(f"{base}/digits", If_None_Match='"another"').status_code == 200


def test_a_file_is_sent_only_while_it_is_the_one_that_is_meant(base: str) -> None:
    headers = get(f"{base}/digits").headers
    changed = datetime.strptime(headers["Last-Modified"], HTTP_DATE)
    earlier, later = (changed + timedelta(hours=hours) for hours in (-1, 1))
    for name, value in (
        ("If-Match", headers["ETag"]),
        ("If-Match", "*"),
        ("If-Match", f'"another", {headers["ETag"]}'),
        ("If-Unmodified-Since", headers["Last-Modified"]),
        ("If-Unmodified-Since", later.strftime(HTTP_DATE)),
        ("If-Unmodified-Since", "some day"),
    ):
        assert get(f"{base}/digits", **{name: value}).content == b"0123456789", (name, value)
    for name, value in (
        ("If-Match", '"another"'),
        ("If-Match", f"W/{headers['ETag']}"),
        ("If-Unmodified-Since", earlier.strftime(HTTP_DATE)),
    ):
        for more in ({}, {"Range": "bytes=2-4"}):
            reply = get(f"{base}/digits", **{name: value, **more})
            assert (reply.status_code, reply.json()["type"]) == (412, "precondition-failed"), (name, value)
            assert reply.headers["ETag"] == headers["ETag"]


def test_head_says_what_get_would_send_and_leaves_nothing_open(base: str, server: Server, run_id: str) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with Wire(server) as wire:
        for target, length in (("big", str(SIZE)), ("digits", "10"), ("src", None)):
            wire.send(f"/runs/{run_id}/files/{target}", method="HEAD")
            reply = wire.reply(head=True)
            assert reply.status == 200
            assert length in (None, reply.headers["content-length"])
    eventually(lambda: len(os.listdir("/proc/self/fd")) <= before)


@pytest.mark.parametrize(
    "path",
    [
        "../secret",
        "..%2fsecret",
        "%2e%2e/secret",
        "%2e%2e%2fsecret",
        "src/..%2f..%2fsecret",
        "%2fetc%2fpasswd",
        "/etc/passwd",
        "//etc/passwd",
        "..%5csecret",
        "%c0%ae%c0%ae/secret",
        "..%252fsecret",
        "digits%00",
        "digits%00.txt",
        "%ff%fe",
        "x" * 300,
        "x/" * 4000,
        "digits/",
        "digits/more",
        "nothing",
    ],
)
def test_no_path_leads_out_of_the_workspace(server: Server, run_id: str, path: str) -> None:
    with Wire(server) as wire:
        reply = wire.get(f"/runs/{run_id}/files/{path}")
    assert reply.status == 404
    assert reply.json["type"] in ("unknown-file", "not-found")
    assert b"the secret" not in reply.body


def test_a_download_arrives_whole_and_an_interrupted_one_goes_on(base: str, world: RunWorld) -> None:
    right = hashlib.sha256((world.home / "work/shop/big").read_bytes()).hexdigest()
    assert hashlib.sha256(get(f"{base}/big").content).hexdigest() == right
    half = get(f"{base}/big", Range=f"bytes=0-{SIZE // 2 - 1}").content
    rest = get(f"{base}/big", Range=f"bytes={SIZE // 2}-").content
    assert hashlib.sha256(half + rest).hexdigest() == right


def test_downloads_that_nobody_takes_hold_no_thread_and_no_memory(server: Server, run_id: str) -> None:
    """More of them than there are threads, each with a second request behind it, and a GET is served at once."""
    slow = [socket.create_connection((server.host, server.port)) for _ in range(8)]
    request = f"GET /runs/{run_id}/files/big HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    try:
        for each in slow:
            each.sendall(request * 2)
        for each in slow:
            assert each.recv(12) == b"HTTP/1.1 200"
        before = _resident()
        began = time.monotonic()
        for _ in range(20):
            assert get(f"{server.url}/runs/{run_id}").status_code == 200
        assert time.monotonic() - began < 5
        assert _resident() - before < SIZE
    finally:
        for each in slow:
            each.close()


def test_a_file_that_shrinks_while_it_is_sent_ends_the_connection(server: Server, world: RunWorld, run_id: str) -> None:
    path = world.home / "work/shop/shrinking"
    path.write_bytes(b"x" * SIZE)
    with socket.create_connection((server.host, server.port), timeout=20) as wire:
        wire.sendall(f"GET /runs/{run_id}/files/shrinking HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert wire.recv(12) == b"HTTP/1.1 200"
        os.truncate(path, 0)
        got = 0
        while chunk := _received(wire):
            got += len(chunk)
        assert got < SIZE
    path.unlink()
    assert get(f"{server.url}/healthz").status_code == 200


def test_a_connection_that_breaks_in_a_download_leaves_no_file_open(server: Server, run_id: str) -> None:
    def open_files() -> int:
        return sum(1 for name in os.listdir("/proc/self/fd") if _target(name).endswith("/big"))

    with socket.create_connection((server.host, server.port)) as wire:
        wire.sendall(f"GET /runs/{run_id}/files/big HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert wire.recv(12) == b"HTTP/1.1 200"
        eventually(lambda: open_files() == 1)
    eventually(lambda: open_files() == 0)


def test_the_client_reads_what_the_server_gives(server: Server, world: RunWorld, run_id: str) -> None:
    with FlowerClient(server.url) as client:
        first = client.files(run_id, limit=3)
        rest = client.files(run_id, limit=3, cursor=first.next_cursor)
        assert [entry.name for entry in (*first.entries, *rest.entries)] == NAMES
        below = client.fetch(run_id, "src", io.BytesIO())
        assert below is not None
        assert [entry.name for entry in below.entries] == ["größe #1?.txt"]
        out = io.BytesIO()
        client.fetch(run_id, "src/größe #1?.txt", out)
        assert out.getvalue().decode() == "ü"
        assert client.documents(run_id) == []
        ended = world.start("", "to-be-deleted")
        world.reaches(ended.id, "succeeded")
        client.delete(ended.id)
        with pytest.raises(Refused, match="there is no run"):
            client.run(ended.id)
        with pytest.raises(Refused, match="there is no document"):
            client.document(run_id, "goal")


def test_many_read_the_same_file_at_once(base: str, world: RunWorld) -> None:
    right = hashlib.sha256((world.home / "work/shop/big").read_bytes()).digest()
    results: list[Any] = []
    threads = [
        threading.Thread(target=lambda: results.append(hashlib.sha256(get(f"{base}/big").content).digest()))
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert results == [right] * 6


def test_files_of_a_run_nobody_knows(server: Server) -> None:
    assert get(f"{server.url}/runs/nobody/files").json()["type"] == "unknown-run"
    assert get(f"{server.url}/runs/nobody/files/x").json()["type"] == "unknown-run"


def test_a_workspace_that_is_gone_has_no_files(server: Server, world: RunWorld) -> None:
    run = world.start("", "gone")
    world.reaches(run.id, "succeeded")
    assert get(f"{server.url}/runs/{run.id}/files").json()["entries"] == []
    (world.home / "work" / "gone").rmdir()
    assert get(f"{server.url}/runs/{run.id}/files").json()["type"] == "unknown-file"


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _received(wire: socket.socket) -> bytes:
    try:
        return wire.recv(1 << 20)
    except ConnectionResetError:
        return b""


def _target(name: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{name}")
    except OSError:
        return ""
