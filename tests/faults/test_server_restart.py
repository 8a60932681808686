"""An orderly end and a new beginning: SIGTERM, resuming by hand, keys and tokens that outlive the process."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from tests.e2e.serving import PATIENCE_S, SERVER, FlowerServer, clean_environ, told_of
from tests.support import eventually

pytestmark = pytest.mark.e2e


def test_sigterm_stops_within_ten_seconds_with_its_books_written_and_the_run_goes_on_later(tmp_path: Path) -> None:
    with FlowerServer.rehearsing(tmp_path, gated=True) as server:
        run = server.start_run(timeout_s=0, goal=False)
        server.wait_for_worker(run)
        begun = time.monotonic()
        assert server.stop(signal.SIGTERM) == 0
        assert time.monotonic() - begun < 10
        eventually(lambda: not server.agents(), PATIENCE_S)

        server.start_again("--no-resume")
        stopped = server.get(f"/runs/{run['id']}")
        assert (stopped["state"], stopped["error"]) == ("interrupted", "the server was stopped")
        assert told_of(server.events(run["id"]))[-1] == "run.interrupted"
        work = server.get(f"/runs/{run['id']}/steps")["steps"][-1]
        assert (work["step"], work["ok"], work["error"]) == ("Work", False, "killed-by-signal")
        assert work["session_id"]

        assert server.refused(f"/runs/{run['id']}/inbox", text="x")[:2] == (409, "not-running")
        server.let_go(run)
        assert server.post(f"/runs/{run['id']}/resume")["state"] in ("queued", "running")
        assert server.refused(f"/runs/{run['id']}/resume")[:2] == (409, "not-interrupted")
        assert server.wait_for(run["id"], "succeeded", "failed")["state"] == "succeeded"


def test_the_same_key_after_a_kill_starts_no_second_run(tmp_path: Path) -> None:
    with FlowerServer.rehearsing(tmp_path) as server:
        body = json.dumps({"task": "Greet", "clarify_only": True}).encode()
        headers = {"Content_Type": "application/json", "Idempotency_Key": "one-job"}
        status, _, first = server.fetch("POST", "/runs", body, **headers)
        assert status == 201
        server.kill()
        server.start_again()
        status, replied, second = server.fetch("POST", "/runs", body, **headers)
        assert (status, second) == (201, first)
        assert replied["Idempotent-Replayed"] == "true"
        assert len(server.get("/runs")["runs"]) == 1
        assert server.fetch("POST", "/runs", b'{"task": "Other"}', **headers)[0] == 422
        server.post(f"/runs/{json.loads(first)['id']}/cancel")


def test_a_data_dir_has_one_server_and_a_port_one_listener(tmp_path: Path) -> None:
    with FlowerServer.rehearsing(tmp_path) as server:
        port = server.url.rpartition(":")[2]
        for flags in (
            ["--data-dir", str(server.data_dir), "--port", "0"],
            ["--data-dir", str(tmp_path / "other"), "--port", port],
        ):
            second = subprocess.run(
                [str(SERVER), "serve", "--rehearse", *flags],
                env=clean_environ(tmp_path),
                capture_output=True,
                text=True,
                timeout=30,
            )
            assert (second.returncode, second.stdout) == (2, "")
            assert len(second.stderr.strip().splitlines()) == 1, second.stderr
        assert server.get("/healthz")


def test_tokens_are_checked_scoped_and_revoked_while_a_reader_waits(tmp_path: Path) -> None:
    data = tmp_path / "data"

    def token(*words: str) -> str:
        command = [str(SERVER), "token", *words, "--data-dir", str(data)]
        done = subprocess.run(command, env=clean_environ(tmp_path), capture_output=True, text=True, timeout=30)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip().splitlines()[-1].split()[-1]

    starter, reader = token("add", "boss", "--scope", "start"), token("add", "viewer", "--scope", "read")
    with FlowerServer.rehearsing(tmp_path) as server:
        assert server.fetch("GET", "/healthz")[0] == 200
        assert [server.call("GET", "/runs")[0], server.call("POST", "/runs", {"task": "x"})[0]] == [401, 401]
        assert server.call("GET", "/runs", Authorization="Bearer wrong")[0] == 401
        server.token = reader
        assert server.call("POST", "/runs", {"task": "x"})[1]["type"] == "scope-too-small"
        server.token = starter
        run = server.start_run(clarify_only=True)
        server.wait_for_ask(run["id"])
        server.token = reader
        last = server.get(f"/runs/{run['id']}")["last_seq"]
        assert server.call("POST", f"/runs/{run['id']}/answer", {"ask_id": "q1", "text": "x"})[0] == 403
        replies: list[int] = []
        waiting = threading.Thread(
            target=lambda: replies.append(server.call("GET", f"/runs/{run['id']}/events?after={last}&wait=25")[0])
        )
        begun = time.monotonic()
        waiting.start()
        token("revoke", "viewer")
        waiting.join(PATIENCE_S)
        assert replies == [401]
        assert time.monotonic() - begun < 20, "let go long before its time was up"
        assert server.call("GET", "/runs")[0] == 401
        server.token = starter
        answered = server.post(f"/runs/{run['id']}/answer", ask_id="q1", text="x")
        assert answered["ask"]["answered_by"] == "boss"
        server.wait_for(run["id"], "succeeded")
        assert starter not in server.log()
