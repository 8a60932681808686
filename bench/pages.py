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
    report = Report("Reading events")
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
                    _compare(report, what, count, [flower, floor], load, [seconds, token, query], rounds)
    return report


def _compare(
    report: Report, what: str, count: int, servers: list[Child], load: Child, asked: list[object], rounds: int
) -> None:
    spent: dict[Child, list[float]] = {server: [] for server in servers}
    seconds, token, query = asked

    def rate(server: Child) -> Callable[[], float]:
        def once() -> float:
            before = server.ask("cpu")[0]
            found = load.ask("run", server.ready, count, seconds, token, f"/runs/{RUN}/events?{query}")[0]
            spent[server].append((server.ask("cpu")[0] - before) / (found * float(str(seconds))) * 1e6)
            return found

        return once

    ours, theirs = paired(rounds, rate(servers[0]), rate(servers[1]))
    many = "connection" if count == 1 else "connections"
    report.rows.append(Row(f"{what}, {count} {many}", "requests/s", ours, _FLOOR, theirs, GOAL))
    mine, other = (statistics.median(spent[server][1:]) for server in servers)
    report.notes.append(
        f"{what}, {count} {many}: {mine:.0f} µs of our server's processor time for a request, {other:.0f} of the floor's."
    )
