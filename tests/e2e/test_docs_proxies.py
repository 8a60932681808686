"""The proxies of docs/security.md before a real server: what its clients need comes through, over TLS."""

from __future__ import annotations

import json
import shutil
import socket
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trustme

from tests.doc_blocks import blocks
from tests.e2e.serving import PATIENCE_S, FlowerServer, clean_environ, quick_play
from tests.support import eventually

pytestmark = pytest.mark.e2e
CLIENT = Path(sys.executable).parent / "flower-client"
TOKEN = "one-that-is-long-enough-" + "x" * 20
CONFIGS = {it.language: it.text for it in blocks("docs/security.md") if it.language in ("nginx", "caddyfile")}


def replaced(text: str, **places: str) -> str:
    """The configuration with places of this machine instead of the reader's; each has to be there once at least."""
    for old, new in places.items():
        assert old in text
        text = text.replace(old, new)
    return text


def nginx(home: Path, port: int, server: FlowerServer) -> list[str]:
    """The command that runs the documented nginx on ``port`` before ``server``."""
    site = replaced(
        CONFIGS["nginx"],
        **{
            "127.0.0.1:8420": server.url.removeprefix("http://"),
            "listen 443 ssl": f"listen 127.0.0.1:{port} ssl",
            "/etc/ssl/flower.pem": str(home / "proxy.pem"),
            "/etc/ssl/flower.key": str(home / "proxy.key"),
        },
    )
    folders = "".join(
        f"{kind}_temp_path {home}/{kind};" for kind in ("proxy", "client_body", "fastcgi", "uwsgi", "scgi")
    )
    around = f"daemon off; master_process off; pid {home}/pid; error_log stderr; events {{}}"
    (home / "nginx.conf").write_text(f"{around} http {{ access_log off; {folders}\n{site}\n}}\n")
    return ["nginx", "-e", "stderr", "-c", str(home / "nginx.conf")]


def caddy(home: Path, port: int, server: FlowerServer) -> list[str]:
    """The command that runs the documented Caddy on ``port`` before ``server``."""
    own = f"localhost:{port} {{\n    tls {home}/proxy.pem {home}/proxy.key"
    places = {"flower.example {": own, "127.0.0.1:8420": server.url.removeprefix("http://")}
    site = replaced(CONFIGS["caddyfile"], **places)
    (home / "Caddyfile").write_text(f"{{\n    admin off\n    auto_https disable_redirects\n}}\n{site}")
    return ["caddy", "run", "--adapter", "caddyfile", "--config", str(home / "Caddyfile")]


@dataclass(frozen=True)
class Front:
    """The proxy ``name`` at ``url`` before ``server``, and the authority that vouches for it."""

    name: str
    url: str
    server: FlowerServer
    authority: Path

    def fetch(self, path: str, data: bytes | None = None, **headers: str) -> tuple[int, Any]:
        """Status and decoded body of one request through the proxy."""
        sent = {"Authorization": f"Bearer {TOKEN}", **headers}
        request = urllib.request.Request(self.url + path, data, sent)
        trust = ssl.create_default_context(cafile=str(self.authority))
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S, context=trust) as reply:
                assert reply.headers["Strict-Transport-Security"] == "max-age=31536000"
                return reply.status, json.loads(reply.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read())

    def client(self, *words: str) -> subprocess.CompletedProcess[str]:
        """``flower-client`` through the proxy."""
        environ = clean_environ(self.server.data_dir.parent, FLOWER_TOKEN=TOKEN, REQUESTS_CA_BUNDLE=str(self.authority))
        command = [str(CLIENT), "--url", self.url, *words]
        return subprocess.run(
            command, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=90
        )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def running(command: list[str], home: Path, port: int) -> Iterator[None]:
    """``command`` until the block ends, once it takes connections on ``port``."""

    def taken() -> bool:
        assert process.poll() is None, (home / "proxy.log").read_text()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    with (home / "proxy.log").open("wb") as log:
        process = subprocess.Popen(command, env=clean_environ(home), cwd=home, stdout=log, stderr=log)
    try:
        eventually(taken, PATIENCE_S)
        yield
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


@pytest.fixture(scope="module", params=[nginx, caddy], ids=["nginx", "caddy"])
def front(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    configured: Callable[[Path, int, FlowerServer], list[str]] = request.param
    if shutil.which(configured.__name__) is None:
        pytest.skip(f"there is no {configured.__name__} here")
    home = tmp_path_factory.mktemp("proxy")
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost")
    authority.cert_pem.write_to_path(str(home / "authority.pem"))
    certificate.private_key_pem.write_to_path(str(home / "proxy.key"))
    certificate.cert_chain_pems[0].write_to_path(str(home / "proxy.pem"))
    environ = clean_environ(home, FLOWER_TOKEN=TOKEN)
    with FlowerServer(home / "data", f"--rehearse={quick_play(home)}", environ=environ) as server:
        port = free_port()
        with running(configured(home, port, server), home, port):
            yield Front(configured.__name__, f"https://localhost:{port}", server, home / "authority.pem")


def test_a_run_is_started_answered_and_watched_to_its_verdict(front: Front) -> None:
    done = front.client("start", "Greet the world", "--watch", "--on-ask", "first")
    assert done.returncode == 0, done.stdout + done.stderr
    run_id = done.stdout.split()[0]
    events = front.client("events", run_id, "--json")
    assert [json.loads(line)["seq"] for line in events.stdout.splitlines()][-1] > 20


def test_a_held_request_is_let_go_by_the_server_and_not_by_the_proxy(front: Front) -> None:
    run_id = front.client("start", "Greet the world").stdout.split()[0]
    asked = eventually(lambda: front.fetch(f"/runs/{run_id}/asks")[1]["asks"], PATIENCE_S)
    last = front.fetch(f"/runs/{run_id}")[1]["last_seq"]
    status, page = front.fetch(f"/runs/{run_id}/events?after={last}&wait=3")
    assert (status, page["events"], page["next_after"]) == (200, [], last)
    assert asked[0]["id"] == "q1"


def test_what_the_server_refuses_comes_through_as_the_server_says_it(front: Front) -> None:
    assert front.fetch("/runs/20260101t000000000-0000")[1]["type"] == "unknown-run"
    assert front.fetch("/runs", Authorization="Bearer wrong")[0] == 401
    status, problem = front.fetch("/runs", b'{"tusk": 1}', **{"Content-Type": "application/json"})
    assert (status, problem["type"]) == (422, "invalid-body")


def test_a_body_that_is_too_large_is_refused_in_the_servers_own_words(front: Front) -> None:
    if front.name == "caddy":
        pytest.skip("it hangs up on what is still being sent, and the reply may be lost with that")
    status, problem = front.fetch("/runs", b" " * 1_500_000, **{"Content-Type": "application/json"})
    assert (status, problem["type"]) == (413, "body-too-large")


def test_a_key_comes_through_and_makes_a_repeat_harmless(front: Front) -> None:
    body, headers = b'{"task": "Greet"}', {"Content-Type": "application/json", "Idempotency-Key": "one-of-a-kind"}
    first, second = (front.fetch("/runs", body, **headers) for _ in range(2))
    assert first == second
    assert first[0] == 201
