"""What was shown survives: kill -9 at any moment, and a disk that is full for a while."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from flower_http.journal import Journal
from flower_http.log_book import LogBook

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL on Windows")

SERVER = """
    import itertools, sys, threading
    from flower_http.auth import Principal
    from flower_http.journal import Journal
    from flower_http.log_book import LogBook
    from flower_http.parking import ParkingDispatcher
    from flower_http.poll import EventsApp
    from flower_http.server import make_server

    book = LogBook(Journal(sys.argv[1]), ring=50)
    log = book.get("r1") or book.create({"id": "r1"})
    app = EventsApp(book, lambda environ, scope: Principal("eye", "read", "eye"), None, str)
    server = make_server(app, dispatcher=ParkingDispatcher(app))
    threading.Thread(target=server.run, daemon=True).start()
    print(server.port, flush=True)
    for number in itertools.count():
        future = log.append("text", "x" * (number % 900), payload={"n": number})
        if number % 8 == 0:
            future.result()
"""

ANSWERS = """
    import itertools, sys
    from flower_http.journal import Journal
    from flower_http.log_book import LogBook

    log = LogBook(Journal(sys.argv[1])).create({"id": "r1"})
    for number in itertools.count():
        log.conversation.settle_answer({"id": f"q{number}", "state": "answered", "answer": "x" * 500})
        print(f"q{number}", flush=True)
"""

FULL_DISK = """
    import json, resource, sys, time
    from flower_http.journal import Journal
    from flower_http.log_book import LogBook

    def limit(size):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    def until(condition):
        deadline = time.monotonic() + 20
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.01)

    journal = Journal(sys.argv[1])
    log = LogBook(journal).create({"id": "r1"})
    limit(200_000)
    futures = [log.append("text", "x" * 5000, payload={"n": n}) for n in range(200)]
    until(lambda: journal.failing_since is not None)
    shown = json.loads(log.page(0, 1000))
    ready = [future.done() for future in futures]
    limit(resource.RLIM_INFINITY)
    until(lambda: futures[-1].done())
    print(json.dumps({"shown": shown["last_seq"], "ready": sum(ready), "last": futures[-1].result(),
                      "healthy": journal.healthy}))
    journal.close()
"""


@contextmanager
def running(script: str, path: Path) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), str(path)], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def read(port: int, after: int, epoch: str | None) -> dict[str, Any]:
    query = f"after={after}&limit=40&wait=5" + (f"&epoch={epoch}" if epoch else "")
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/runs/r1/events?{query}", timeout=20) as reply:
        found: dict[str, Any] = json.load(reply)
        return found


def kept_events(path: Path) -> tuple[str, dict[int, Any]]:
    journal = Journal(path)
    log = LogBook(journal).get("r1")
    assert log is not None
    found: dict[int, Any] = {}
    while len(found) < log.last_seq:
        for event in json.loads(log.page(len(found), 1000))["events"]:
            found[event["seq"]] = event
    journal.close()
    return log.epoch, found


def test_what_a_client_has_seen_survives_kill_9_and_its_cursor_stays_good(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    seen: dict[int, Any] = {}
    epoch: str | None = None
    for life in range(4):
        with running(SERVER, path) as process:
            port = int(line(process))
            deadline = time.monotonic() + 0.4 + 0.1 * life
            while time.monotonic() < deadline:
                got = read(port, len(seen), epoch)
                assert epoch in (None, got["epoch"])
                epoch = got["epoch"]
                for event in got["events"]:
                    assert event["seq"] == len(seen) + 1
                    seen[event["seq"]] = event
            os.kill(process.pid, signal.SIGKILL)
            process.wait(10)
        kept_epoch, kept = kept_events(path)
        assert kept_epoch == epoch
        assert sorted(kept) == list(range(1, len(kept) + 1))
        assert {number: kept.get(number) for number in seen} == seen
    assert len(seen) > 100


def test_an_answer_that_was_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    acknowledged: list[str] = []
    with running(ANSWERS, path) as process:
        while len(acknowledged) < 50:
            acknowledged.append(line(process))
        os.kill(process.pid, signal.SIGKILL)
        assert process.stdout is not None
        acknowledged += [text for text in process.stdout.read().splitlines() if text]
    journal = Journal(path)
    log = LogBook(journal).get("r1")
    assert log is not None
    assert set(acknowledged) <= set(log.conversation.answers())
    journal.close()


def test_a_full_disk_shows_nothing_that_is_not_kept_and_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with running(FULL_DISK, path) as process:
        told = json.loads(line(process))
        assert process.wait(20) == 0
    assert told["healthy"]
    assert told["shown"] == told["ready"] + 1 < 201
    assert told["last"] == 201
    _, kept = kept_events(path)
    assert [kept[number]["payload"].get("n") for number in range(2, 202)] == list(range(200))
