"""Every exit code of flower-client, from a real server, a real run and a real signal."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from flower_client.exits import Exit

from tests.e2e.serving import PATIENCE_S, SERVER, FlowerServer, clean_environ, quick_play

pytestmark = pytest.mark.e2e

CLIENT = Path(sys.executable).parent / "flower-client"
TOKEN = "every-scope-there-is-" + "x" * 24


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlowerServer]:
    """Knows a token, and forgets all but the newest events."""
    home = tmp_path_factory.mktemp("codes")
    flags = (f"--rehearse={quick_play(home)}", "--max-runs", "4", "--keep-events", "10")
    with FlowerServer(home / "data", *flags, environ=clean_environ(home, FLOWER_TOKEN=TOKEN)) as running:
        running.token = TOKEN
        yield running


@pytest.fixture(scope="module")
def reader(server: FlowerServer) -> str:
    """A token that may only look."""
    command = [str(SERVER), "token", "add", "reader", "--scope", "read", "--data-dir", str(server.data_dir)]
    done = subprocess.run(
        command, env=clean_environ(server.data_dir.parent), capture_output=True, text=True, check=True
    )
    words: list[str] = re.findall(r"\S+", done.stdout)
    return max(words, key=len)


def popen(server: FlowerServer, *words: str, token: str = TOKEN) -> subprocess.Popen[str]:
    environ = clean_environ(server.data_dir.parent, FLOWER_URL=server.url, FLOWER_TOKEN=token)
    return subprocess.Popen(
        [str(CLIENT), *words],
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def call(server: FlowerServer, *words: str, token: str = TOKEN) -> tuple[int, str, str]:
    with popen(server, *words, token=token) as process:
        out, errors = process.communicate(timeout=2 * PATIENCE_S)
        return process.returncode, out, errors


@pytest.fixture(scope="module")
def ended(server: FlowerServer) -> str:
    """The id of a run that has succeeded, most of whose events are forgotten."""
    code, out, errors = call(server, "start", "Greet", "--no-goal", "--watch", "--on-ask", "first")
    assert code == Exit.DONE, errors
    return out.split()[0]


def test_0_a_watched_run_succeeded(server: FlowerServer, ended: str) -> None:
    assert call(server, "watch", ended)[0] == Exit.DONE


def test_1_the_run_was_cancelled(server: FlowerServer) -> None:
    run = server.start_run(goal=False)
    server.wait_for_ask(run["id"])
    assert call(server, "cancel", run["id"])[0] == Exit.DONE, "cancelling itself was done"
    assert call(server, "watch", run["id"])[0] == Exit.RUN_FAILED


def test_2_nothing_was_sent(server: FlowerServer) -> None:
    for words in (["watch"], ["nonsense"], ["--url", "nonsense", "runs"], ["show", ".."]):
        assert call(server, *words)[0] == Exit.USAGE, words


def test_3_there_is_no_server(tmp_path: Path) -> None:
    nowhere = FlowerServer(tmp_path)
    nowhere.url = "http://127.0.0.1:9"
    assert call(nowhere, "runs")[0] == Exit.UNREACHABLE


def test_4_no_token_and_a_token_that_may_not(server: FlowerServer, reader: str) -> None:
    assert call(server, "runs", token="wrong")[0] == Exit.NOT_ALLOWED
    assert call(server, "runs", token=reader)[0] == Exit.DONE
    code, _, errors = call(server, "--json", "start", "Greet", token=reader)
    problem = json.loads(errors)
    assert (code, problem["exit"], problem["problem"]["type"]) == (4, 4, "scope-too-small")


def test_5_it_cannot_be_done(server: FlowerServer, ended: str) -> None:
    for words in (["show", "no-such-run"], ["resume", ended], ["interrupt", ended], ["answer", ended, "q1", "no"]):
        code, _, errors = call(server, "--json", *words)
        assert (code, json.loads(errors)["error"]) == (Exit.REFUSED, "refused"), words


def test_6_events_were_lost_and_those_there_are_come_all_the_same(server: FlowerServer, ended: str) -> None:
    code, out, errors = call(server, "--json", "events", ended)
    events = [json.loads(line) for line in out.splitlines()]
    assert code == Exit.LOST
    first = events[0]["seq"]
    assert [event["seq"] for event in events] == list(range(first, first + len(events)))
    assert events[-1]["text"] == "run.finished"
    assert f"events 1 to {first - 1} are lost" in json.loads(errors)["message"]


def test_7_and_130_left_at_a_question_and_left_by_ctrl_c(server: FlowerServer) -> None:
    code, out, errors = call(server, "start", "Greet", "--no-goal", "--watch", "--exit-on-ask")
    assert code == Exit.AT_ASK, errors
    run_id = out.split()[0]
    with popen(server, "events", run_id, "--follow") as follower:
        assert follower.stdout is not None
        follower.stdout.readline()
        follower.send_signal(signal.SIGINT)
        _, errors = follower.communicate(timeout=PATIENCE_S)
        assert (follower.returncode, "Traceback" in errors) == (Exit.INTERRUPTED, False)


def test_141_nobody_reads_any_more_though_the_run_only_waits(server: FlowerServer) -> None:
    """As in ``flower-client events RUN --follow | grep -m1 …``: the question has to be seen to be answered."""
    run = server.start_run(goal=False)
    server.wait_for_ask(run["id"])
    line = f"set -o pipefail; '{CLIENT}' events {run['id']} --follow | grep -m1 -o Which.greeting"
    environ = clean_environ(server.data_dir.parent, FLOWER_URL=server.url, FLOWER_TOKEN=TOKEN)
    done = subprocess.run(["bash", "-c", line], env=environ, capture_output=True, text=True, timeout=PATIENCE_S)
    assert (done.returncode, set(done.stdout.splitlines())) == (Exit.PIPE_CLOSED, {"Which greeting"})
    assert "Traceback" not in done.stderr
