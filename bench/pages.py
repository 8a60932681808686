"""Reading events, against a bare waitress callable that sends the same bytes.

A page of 100 events out of memory, and an empty poll; token checked, journal open. Requests a second over 1, 16 and
128 kept-open connections, and the processor time that the server spends on one.
"""

from __future__ import annotations

import http.client
import pickle
import statistics
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench.measuring import Child, Goal, Report, Row, child, paired
from bench.scene import RUN, TOKEN_FILE, Replies

#: What is asked of a run of 1001 events: a page of 100, and what comes after the last one.
QUERIES = {"page of 100 events": "after=500&limit=100", "empty poll": "after=1001"}
CONNECTIONS = (1, 16, 128)
GOAL = Goal("≥", 0.8)
_FLOOR = "bare waitress, same bytes"
#: Headers that waitress puts in itself.
_ITS_OWN = ("content-length", "date", "server", "connection")


def fetch(port: int, token: str, query: str) -> tuple[list[tuple[str, str]], bytes]:
    """One reply: headers and body."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", f"/runs/{RUN}/events?{query}", headers={"Authorization": f"Bearer {token}"})
    reply = connection.getresponse()
    body = reply.read()
    connection.close()
    if reply.status != 200:
        raise SystemExit(f"{query}: {reply.status} {body[:200]!r}")
    headers = [header for header in reply.getheaders() if header[0].lower() not in _ITS_OWN]
    return [*headers, ("Content-Length", str(len(body)))], body


def measure(*, quick: bool) -> Report:
    """Both queries over all numbers of connections."""
    rounds, seconds = (3, 0.3) if quick else (25, 0.4)
    report, spent = Report("Reading events"), []
    with (
        tempfile.TemporaryDirectory() as folder,
        child("bench.servers", "flower", folder) as flower,
        child("bench.load") as load,
    ):
        flower.ask("fill")
        token = (Path(folder) / TOKEN_FILE).read_text()
        replies: Replies = {query: fetch(int(flower.ready), token, query) for query in QUERIES.values()}
        stored = Path(folder) / "replies.pickle"
        stored.write_bytes(pickle.dumps(replies))
        with child("bench.servers", "floor", stored) as floor:
            for what, query in QUERIES.items():
                for count in CONNECTIONS:
                    rate = partial(_rate, load, count, seconds, token, query)
                    mine, other = Side(flower, rate), Side(floor, rate)
                    ours, theirs = paired(rounds, mine, other)
                    name = f"{what}, {count} connection{'s' if count > 1 else ''}"
                    report.rows.append(Row(name, "requests/s", ours, _FLOOR, theirs, GOAL))
                    spent.append(f"{name} {mine.processor_time:.0f}/{other.processor_time:.0f}")
    report.notes += [
        f"Processor time of the server for one request in µs, ours/the floor's: {'; '.join(spent)}.",
        "What ours does and the floor does not, in the order of what it costs by a profile: write a log line (about a "
        "tenth of the whole), plan the reading, check the token, count the request in the metrics. It serves "
        "on the thread of the sockets; the floor hands every request to a worker, which costs most with one connection "
        "and is shared with many.",
        "Tried for it and kept: a socket loop that tells the kernel only what has changed, one environ for a request, "
        "header lines of a connection taken apart once, pages and queries remembered, replies straight to the kernel, "
        "log lines without looking up the thread and with the second formatted once. What is left with many "
        "connections is parsing, checking and logging in Python, a little of each.",
    ]
    return report


class Side:
    """One of the two servers under load; called, it gives requests a second, and notes the processor time of one."""

    def __init__(self, server: Child, load_of: Callable[[Child], tuple[float, float]]) -> None:
        self._server, self._load_of = server, load_of
        self._spent: list[float] = []

    @property
    def processor_time(self) -> float:
        """What the server spends on a request, in microseconds; without the warm-up."""
        return statistics.median(self._spent[1:])

    def __call__(self) -> float:
        """One round."""
        before = self._server.ask("cpu")[0]
        rate, count = self._load_of(self._server)
        self._spent.append((self._server.ask("cpu")[0] - before) / count * 1e6)
        return rate


def _rate(load: Child, connections: int, seconds: float, token: str, query: str, server: Child) -> tuple[float, float]:
    """Requests a second, and how many they were."""
    found = load.ask("run", server.ready, connections, seconds, token, f"/runs/{RUN}/events?{query}")
    return found[0], found[0] * seconds
