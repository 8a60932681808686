"""No secret of the server comes out anywhere, however hard an agent looks for it and whatever fails."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flower_core.rehearsal import RehearsalServer
from tests.e2e.serving import SERVER, FlowerServer, clean_environ

pytestmark = pytest.mark.e2e

#: Each holds a word that stands nowhere else.
SECRETS = {
    "ANTHROPIC_API_KEY": "sk-canary-key-0123456789",
    "ANTHROPIC_CUSTOM_HEADERS": "X-Gateway: canary-header-0123456789",
    "FLOWER_TOKEN": "canary-token-0123456789abcdef",
}
#: No secret: lies in the data directory like any other file, and shows that the hunt finds things.
CONTROL = "canary-in-the-open"
#: Stands in the server's environment like any other variable. Root alone can look into that.
OTHER = "canary-in-the-environment"
CANARIES = (SECRETS["ANTHROPIC_API_KEY"], "canary-header-0123456789", SECRETS["FLOWER_TOKEN"])
#: Prints whatever it finds; the word is put together so that the command itself does not hold it.
HUNT = (
    "w=can; w=${w}ary; env | grep -a $w; cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep -a $w; "
    "grep -ra $w ../.. 2>/dev/null; echo searched"
)
PLAY: dict[str, Any] = {
    "hunter": [{"tools": [["Bash", {"command": HUNT}]]}, {"text": "Found: {result}"}],
    "refused": [{"error": [401, "authentication_error", f"unknown key {SECRETS['ANTHROPIC_API_KEY']}"]}],
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlowerServer]:
    home = tmp_path_factory.mktemp("secrets")
    with RehearsalServer(PLAY) as model:
        environ = clean_environ(home, ANTHROPIC_BASE_URL=model.url, OTHER=OTHER, **SECRETS)
        with FlowerServer(home / "data", environ=environ) as running:
            (running.data_dir / "plain.txt").write_text(CONTROL)
            running.token = SECRETS["FLOWER_TOKEN"]
            yield running


def once(server: FlowerServer, role: str, **body: object) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A single agent of this role at its end, and its events."""
    run = server.start_run(f"flower-role: {role}\n\nGo", flow="once", timeout_s=0, **body)
    return server.wait_for(run["id"], "succeeded", "failed"), server.events(run["id"])


def found_in(text: str | bytes, *more: str) -> list[str]:
    raw = text.encode() if isinstance(text, str) else text
    return [secret for secret in (*CANARIES, *more) if secret.encode() in raw]


def written(folder: Path) -> dict[str, bytes]:
    """Every file below ``folder``, the log of the server among them."""
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.skipif(sys.platform != "linux", reason="the agent looks into /proc")
def test_an_agent_that_looks_everywhere_finds_no_secret(server: FlowerServer) -> None:
    run, events = once(server, "hunter", tools=["Bash"])
    assert run["state"] == "succeeded", run
    assert CONTROL in run["result"], "the hunt took place, and finds what there is"
    assert (OTHER in run["result"]) == (os.geteuid() == 0)
    assert found_in(json.dumps([run, *events])) == []


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_memory_of_the_server_ends_in_no_core_dump(server: FlowerServer) -> None:
    assert server.process is not None
    limits = Path(f"/proc/{server.process.pid}/limits").read_text()
    assert re.search(r"^Max core file size +0 ", limits, re.MULTILINE)


def test_an_endpoint_that_repeats_the_key_in_an_error_gives_nothing_away(server: FlowerServer) -> None:
    run, events = once(server, "refused")
    assert run["state"] == "failed"
    assert "[credential]" in json.dumps(events), "the error itself arrives"
    assert found_in(json.dumps([run, *events])) == []


def test_nothing_that_is_kept_or_said_holds_a_secret_whatever_goes_wrong(server: FlowerServer) -> None:
    made = subprocess.run(
        [SERVER, "token", "add", "eye", "--scope", "read", "--data-dir", server.data_dir],
        env=clean_environ(server.data_dir.parent),
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    ).stdout.strip()
    replies = [
        server.fetch("GET", f"/runs?token={made}", Authorization=f"Bearer {made}"),
        server.fetch("GET", f"/events?access_token={made}", Authorization=f"Bearer {made}"),
        server.fetch("POST", "/runs", b"{}", Authorization=f"Bearer {made}", Content_Type="application/json"),
        server.fetch("GET", "/runs", Authorization=f"Bearer {made} "),
        server.fetch("GET", "/runs", Authorization=f"Basic {made}"),
        server.fetch("GET", "/nowhere"),
        server.fetch("POST", "/answer", b"{", Content_Type="application/json"),
        server.fetch("GET", "/metrics"),
        server.fetch("GET", "/readyz"),
    ]
    assert [status for status, _, _ in replies] == [400, 400, 403, 200, 401, 404, 400, 200, 200]
    for status, headers, body in replies:
        assert found_in(body + json.dumps(dict(headers)).encode(), made) == [], status
    run, _ = once(server, "refused")
    server.kill()
    server.start_again()
    assert run["id"] in [kept["id"] for kept in server.get("/runs")["runs"]]
    assert server.stop() == 0
    kept = written(server.data_dir)
    assert any(path.endswith("journal.db") for path in kept)
    assert {path: found for path, raw in kept.items() if (found := found_in(raw, made))} == {}
    assert "readyz" in server.log(), "requests are logged"
