"""From an append to a reader who follows: how long it takes, how many a second, and what a long run leaves in memory.

Nothing is shown that is not kept, so the floor of one event is one commit of the same bytes to a plain SQLite file.
"""

from __future__ import annotations

import http.client
import json
import statistics
import tempfile
import threading
import time
from pathlib import Path

from bench.appending import SHORT, PlainFile
from bench.measuring import Child, Goal, Report, Row, child, percentile
from bench.scene import RUN, TOKEN_FILE
from flower_http.journal import LINGER_S

RATES = (1, 100, 5000)
READERS = 10
_BATCH = 500
#: What goes to disk for a short event.
_BODY = json.dumps({"seq": 123456, "at": "2026-01-31T12:00:00.000Z", "kind": "text", "text": SHORT}).encode()


class Follower(threading.Thread):
    """Reads a run on from ``after`` with long polls until it has seen ``until``.

    ``timed`` is for a run whose texts are clocks: then :attr:`delays` has the milliseconds from each append until the
    event was here. Without it nothing is decoded, as the readers share this process.
    """

    def __init__(self, port: str, token: str, after: int, *, timed: bool) -> None:
        super().__init__(daemon=True)
        self._connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=60)
        self._token, self._timed = token, timed
        self.after = after
        self.until: int | None = None
        self.delays: list[float] = []

    def run(self) -> None:
        """Follow."""
        while self.until is None or self.after < self.until:
            target = f"/runs/{RUN}/events?after={self.after}&limit=1000&wait=1"
            self._connection.request("GET", target, headers={"Authorization": f"Bearer {self._token}"})
            body = self._connection.getresponse().read()
            seen = time.monotonic()
            self.after = int(body.rpartition(b'"next_after":')[2].split(b",")[0])
            if self._timed:
                self.delays += [(seen - float(event["text"])) * 1000 for event in json.loads(body)["events"]]
        self._connection.close()


def measure(*, quick: bool) -> Report:
    """All of it, on one server and one run after the other."""
    report = Report("Following a run")
    with tempfile.TemporaryDirectory() as folder, child("bench.servers", "flower", folder) as flower:
        token = (Path(folder) / TOKEN_FILE).read_text()
        plain = PlainFile(Path(folder) / "plain.db")
        for rate in RATES:
            _visible(report, flower, token, plain, rate, quick=quick)
        linger = LINGER_S * 1000
        report.notes.append(
            f"Of the time to visible {linger:.0f} ms are the journal's wait for others to share a commit with, which "
            "many a second repay; the rest is encoding, the commit, and waking and answering the reader. At 5,000 a "
            "second the reader decodes long pages, on the same machine, while the next events pile up."
        )
        _sustained(report, flower, token, plain, rounds=2 if quick else 5)
        plain.close()
    _memory(report, quick=quick)
    return report


def _visible(report: Report, flower: Child, token: str, plain: PlainFile, rate: int, *, quick: bool) -> None:
    """In rounds, so that the floor is measured in turn with what stands on it."""
    rounds, seconds = (2, 1.0) if quick else (5, 4.0 if rate == 1 else 2.0)
    middle, late, floor_middle, floor_late = [], [], [], []
    for _ in range(rounds):
        after = int(flower.ask("append")[0])
        follower = Follower(flower.ready, token, after, timed=True)
        follower.start()
        count = int(flower.ask("at-rate", rate, seconds)[0])
        follower.until = after + count
        follower.join(60)
        floor = [plain.commit(_BODY) for _ in range(20 if quick else 100)]
        middle.append(percentile(follower.delays, 50))
        late.append(percentile(follower.delays, 99))
        floor_middle.append(percentile(floor, 50))
        floor_late.append(percentile(floor, 99))
    name = f"append to visible at {rate:,} events/s"
    report.rows.append(Row(f"{name}, median", "ms", middle, "one plain SQLite commit", floor_middle))
    report.rows.append(Row(f"{name}, 99th percentile", "ms", late, "one plain SQLite commit", floor_late))


def _sustained(report: Report, flower: Child, token: str, plain: PlainFile, *, rounds: int) -> None:
    ours, theirs, alone, spent = [], [], [], []
    for _ in range(rounds):
        before = flower.ask("cpu")[0]
        alone += flower.ask("flat-out", 1.0)
        spent.append((flower.ask("cpu")[0] - before) / alone[-1] * 1e6)
        after = int(flower.ask("append")[0])
        followers = [Follower(flower.ready, token, after, timed=False) for _ in range(READERS)]
        for follower in followers:
            follower.start()
        started = time.monotonic()
        flower.ask("flat-out", 2.0)
        last = int(flower.ask("append")[0])
        for follower in followers:
            follower.until = last
        for follower in followers:
            follower.join(60)
        ours.append((last - after) / (time.monotonic() - started))
        took = statistics.fmean(plain.commit(_BODY, _BATCH) for _ in range(20))
        theirs.append(_BATCH / took * 1000)
    what = f"events/s kept, and read by {READERS} readers"
    report.notes.append(
        f"Without a reader {statistics.median(alone):,.0f} events/s are encoded, numbered, folded into the run's view "
        f"and kept, for {statistics.median(spent):.0f} µs of processor time each; with {READERS} readers "
        f"{statistics.median(ours):,.0f}. The floor encodes and numbers nothing."
    )
    report.rows.append(Row(what, "events/s", ours, f"plain SQLite, {_BATCH} rows a commit, no reader", theirs))


def _memory(report: Report, *, quick: bool) -> None:
    few, many = 10_000, 100_000 if quick else 1_000_000
    with tempfile.TemporaryDirectory() as folder, child("bench.servers", "flower", folder) as flower:
        flower.ask("many", few)
        early = flower.ask("memory")[0]
        flower.ask("many", many - few)
        late = flower.ask("memory")[0]
    what = f"memory of the server after {many:,} events"
    report.rows.append(Row(what, "MiB", [late], f"the same server after {few:,}", [early], Goal("≤", 1.1)))
