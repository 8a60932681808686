"""flower-client against a real server: watching, answering and leaving, as a script and in a terminal."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.e2e.serving import PATIENCE_S, FlowerServer, clean_environ
from tests.support import eventually

pytestmark = pytest.mark.e2e

CLIENT = Path(sys.executable).parent / "flower-client"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlowerServer]:
    with FlowerServer.rehearsing(tmp_path_factory.mktemp("client"), "--max-runs", "2") as running:
        yield running


def client(server: FlowerServer, *words: str) -> subprocess.CompletedProcess[str]:
    """``flower-client`` as a script calls it."""
    command = [str(CLIENT), "--url", server.url, *words]
    environ = clean_environ(server.data_dir.parent)
    return subprocess.run(
        command, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=2 * PATIENCE_S
    )


def test_start_and_watch_in_a_script_with_the_first_option_taken_sees_the_run_succeed(server: FlowerServer) -> None:
    done = client(server, "start", "Greet the world", "--no-goal", "--watch", "--on-ask", "first")
    assert done.returncode == 0, done.stderr
    run_id = done.stdout.split()[0]
    run = server.get(f"/runs/{run_id}")
    assert run["state"] == "succeeded"
    assert (server.workspace(run) / "greeting.txt").read_text().startswith("Hello\n")
    assert "Which greeting should the result open with?" in done.stdout
    assert re.search(r"^run +succeeded$", done.stdout, re.MULTILINE)
    assert f"flower-client steps {run_id}" in done.stdout, "and it says where the manifest is"


def test_leaving_at_a_question_is_code_7_and_coming_back_to_decline_it_goes_on(server: FlowerServer) -> None:
    left = client(server, "start", "Greet", "--no-goal", "--watch", "--exit-on-ask")
    assert left.returncode == 7, left.stderr
    run_id = left.stdout.split()[0]
    assert server.get(f"/runs/{run_id}")["state"] == "waiting"
    back = client(server, "watch", run_id, "--on-ask", "decline")
    assert back.returncode == 0, back.stderr
    ask = server.get(f"/runs/{run_id}/asks?state=all")["asks"][0]
    assert ask["state"] == "declined"


def test_a_run_that_fails_is_code_1_and_its_verdict_is_shown(server: FlowerServer) -> None:
    done = client(server, "start", "Greet", "--rounds", "1", "--timeout", "0", "--watch")
    assert done.returncode == 1, done.stderr
    assert "no line that counts the words" in done.stdout


def test_what_cannot_be_reached_or_done_has_codes_of_its_own(server: FlowerServer, tmp_path: Path) -> None:
    assert client(server, "show", "no-such-run").returncode == 5
    nowhere = FlowerServer(tmp_path)
    nowhere.url = "http://127.0.0.1:9"
    assert client(nowhere, "runs").returncode == 3


def test_watching_survives_a_killed_server_and_shows_every_event_once(tmp_path: Path) -> None:
    with FlowerServer.rehearsing(tmp_path, gated=True) as server:
        run = server.start_run(goal=False)
        command = [str(CLIENT), "--url", server.url, "--json", "watch", run["id"], "--from-start", "--on-ask", "first"]
        output = tmp_path / "watched.jsonl"
        with output.open("w") as out:
            watching = subprocess.Popen(command, env=clean_environ(tmp_path), stdin=subprocess.DEVNULL, stdout=out)
        server.wait_for_worker(run)
        eventually(lambda: '"kind":"step"' in output.read_text().replace(" ", ""), PATIENCE_S)
        server.kill()
        (server.workspace(run) / "begun").unlink()
        assert watching.poll() is None
        server.start_again()
        server.wait_for_worker(run)
        server.let_go(run)
        assert watching.wait(2 * PATIENCE_S) == 0
        lines = [json.loads(line) for line in output.read_text().splitlines()]
        shown = [line for line in lines if "seq" in line]
        assert shown == server.events(run["id"])
        assert lines[-1]["state"] == "succeeded"


class Terminal:
    """A program in a terminal of its own, with somebody who reads and types."""

    def __init__(self, command: Sequence[str], environ: dict[str, str]) -> None:
        ours, theirs = pty.openpty()
        self._ours = ours
        self.process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, env=environ, start_new_session=True
        )
        os.close(theirs)
        self.text = ""
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                found = os.read(self._ours, 65536)
            except OSError:  # the other end is closed
                return
            if not found:
                return
            self.text += found.decode("utf-8", "replace")

    def shows(self, pattern: str) -> None:
        """Wait until ``pattern`` is on the screen."""
        eventually(lambda: re.search(pattern, self.text), PATIENCE_S)

    def type(self, line: str) -> None:
        """Type a line."""
        os.write(self._ours, line.encode() + b"\n")

    def end(self) -> int:
        """Wait for the program's end; its exit code."""
        code = self.process.wait(2 * PATIENCE_S)
        self._reader.join(10)
        os.close(self._ours)
        return code


def test_in_a_terminal_a_person_answers_by_hand(server: FlowerServer) -> None:
    environ = clean_environ(server.data_dir.parent, TERM="xterm")
    screen = Terminal([str(CLIENT), "--url", server.url, "start", "Greet me", "--no-goal", "--watch"], environ)
    screen.shows(r"3[.)] 你好")
    screen.shows(r"q1> $")
    screen.type("Ahoy")
    assert screen.end() == 0, screen.text
    run = server.get("/runs?limit=1")["runs"][0]
    assert (server.workspace(run) / "greeting.txt").read_text() == "Ahoy\nTask: Greet me\n"
    assert "\x1b[" in screen.text, "in colour"
