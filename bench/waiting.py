"""1000 readers who wait: on our four threads, and on 1000 blocking ones of a bare waitress.

How much memory they take, how long other requests take meanwhile, and how long it takes from an append until the last
of them has its reply.
"""

from __future__ import annotations

import pickle
import statistics
import tempfile
import time
from pathlib import Path

from bench.measuring import Child, Report, Row, child, paired
from bench.pages import fetch
from bench.scene import READERS, RUN, THREADS, TOKEN_FILE, Replies

_PAGE = "after=500&limit=100"
_PEER = f"bare waitress, {READERS + THREADS} threads"
_PATIENCE_S = 60.0


def measure(*, quick: bool) -> Report:
    """Memory, latency of others, and the time to the last reader."""
    rounds = 2 if quick else 15
    report = Report("1000 waiting readers")
    with (
        tempfile.TemporaryDirectory() as folder,
        child("bench.servers", "flower", folder) as flower,
        child("bench.load") as load,
        child("bench.load") as other,
    ):
        last = int(flower.ask("fill")[0])
        token = (Path(folder) / TOKEN_FILE).read_text()
        replies: Replies = {_PAGE: fetch(int(flower.ready), token, _PAGE)}
        news = fetch(int(flower.ready), token, f"after={last - 1}")
        replies |= {f"after={after}&wait=25": news for after in range(last, last + rounds + 2)}
        stored = Path(folder) / "replies.pickle"
        stored.write_bytes(pickle.dumps(replies))
        with child("bench.servers", "blocking", stored) as peer:
            crowd = Crowd(load, other, token, last)
            ours, theirs = paired(rounds, lambda: crowd.reply(flower), lambda: crowd.reply(peer))
            report.rows += crowd.rows(flower, peer, ours, theirs)
        kept = statistics.median(crowd.kept[flower][1:])
        report.notes.append(
            f"Of the {statistics.median(ours):.0f} ms from an append to the last reply, {kept:.0f} ms pass until the "
            "event is kept on disk, before which nobody may see it; the peer keeps nothing. The rest is the reply to "
            "each reader, one after the other."
        )
    return report


class Crowd:
    """Readers who wait together, again and again."""

    def __init__(self, load: Child, other: Child, token: str, last: int) -> None:
        self._load, self._other, self._token = load, other, token
        self._last: dict[Child, int] = {}
        self._first_seq = last
        self.memory: dict[Child, list[float]] = {}
        self.latency: dict[Child, list[float]] = {}
        self.kept: dict[Child, list[float]] = {}

    def reply(self, server: Child) -> float:
        """Let them wait, look at memory and at others, append; milliseconds until the last one has its reply."""
        after = self._last.setdefault(server, self._first_seq)
        self._load.ask("hold", server.ready, READERS, self._token, f"/runs/{RUN}/events?after={after}&wait=25")
        deadline = time.monotonic() + _PATIENCE_S
        while server.ask("parked")[0] < READERS:
            if time.monotonic() > deadline:
                raise SystemExit("not all readers came to wait")
            time.sleep(0.02)
        self.memory.setdefault(server, []).append(server.ask("memory")[0] - server.ask("before")[0])
        page = self._other.ask("run", server.ready, 1, 0.5, self._token, f"/runs/{RUN}/events?{_PAGE}")
        self.latency.setdefault(server, []).append(page[2])
        self._load.tell("collect")
        _, started, kept = server.ask("append")
        self._last[server] += 1
        self.kept.setdefault(server, []).append((kept - started) * 1000)
        return (self._load.hear()[1] - started) * 1000

    def rows(self, flower: Child, peer: Child, ours: list[float], theirs: list[float]) -> list[Row]:
        """What was found, without the warm-up; of memory the first round, as what is freed is not given back."""
        held, peers = self.memory[flower][0], self.memory[peer][0]
        return [
            Row("1000 waiting readers: memory they and their server take", "MiB", [held], _PEER, [peers]),
            Row(
                "1000 waiting readers: a page for somebody else, 99th percentile",
                "ms",
                self.latency[flower][1:],
                _PEER,
                self.latency[peer][1:],
            ),
            Row("1000 waiting readers: append to last reply", "ms", ours, _PEER, theirs),
        ]
