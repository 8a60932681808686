"""Talking TLS: whom the client trusts, and what it knows of a request that no handshake let through."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import trustme
from flower_client import FlowerClient, Unreachable

from tests.client.scripted_server import ScriptedServer


class _Empty(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(b'{"runs": []}')

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class _Quiet(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """A client that does not trust us hangs up."""


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def address(authority: trustme.CA) -> Iterator[str]:
    """Where a server speaks TLS with a certificate of ``authority``."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    with _Quiet(("127.0.0.1", 0), _Empty) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        serving = threading.Thread(target=server.serve_forever, args=(0.01,))
        serving.start()
        yield f"https://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        serving.join(30)


@pytest.mark.parametrize("name", ["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
def test_an_authority_of_ones_own_is_trusted_on_loopback_too(
    name: str, address: str, authority: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("REQUESTS_CA_BUNDLE", raising=False)
    monkeypatch.setenv(name, str(tmp_path / "ca.pem"))
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    with FlowerClient(address) as client:
        assert client.runs().runs == ()


def test_a_server_that_is_not_trusted_is_sent_nothing(address: str) -> None:
    with FlowerClient(address, attempts=1) as client, pytest.raises(Unreachable, match="certificate") as raised:
        client.start("bake")
    assert not raised.value.maybe_done
    assert "REQUESTS_CA_BUNDLE" in raised.value.hint


def test_a_server_that_does_not_answer_the_handshake_is_sent_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # as one that waits for the rest of an HTTP request
        address = f"https://127.0.0.1:{silent.getsockname()[1]}"
        with (
            FlowerClient(address, attempts=1, timeout_s=0.3) as client,
            pytest.raises(Unreachable, match="no answer to the TLS handshake in time") as raised,
        ):
            client.start("bake")
    assert not raised.value.maybe_done
    assert "http://" in raised.value.hint


def test_a_server_that_speaks_no_tls_is_sent_nothing(server: ScriptedServer) -> None:
    with (
        FlowerClient(server.url.replace("http", "https"), attempts=1) as client,
        pytest.raises(Unreachable) as raised,
    ):
        client.start("bake")
    assert not raised.value.maybe_done
    assert server.seen == []
    assert "http://" in raised.value.hint
