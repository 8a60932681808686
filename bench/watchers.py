"""Watchers who follow a run while its server is killed with -9, twice: each must end with every event, in order.

The same harness as in tests/faults, at full size. Whoever is shown anything but the next event ends the benchmark.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from bench.measuring import Report, Row
from tests.faults.watching import follow_through_kills

_KILLS = 2
_PATIENCE_S = 400.0
_FLOOR = "the run by itself, at its rate"


@dataclass(frozen=True)
class Crowd:
    """How many watch how many events, published at ``rate`` a second."""

    watchers: int
    events: int
    rate: int


_FULL = (Crowd(1000, 5_000, 500), Crowd(100, 100_000, 2000))
_QUICK = (Crowd(200, 1_000, 500), Crowd(20, 10_000, 2000))


def measure(*, quick: bool) -> Report:
    """Each crowd once: it is long, and what counts is that nothing is lost."""
    report = Report("Watchers of a server that is killed")
    for crowd in _QUICK if quick else _FULL:
        with tempfile.TemporaryDirectory() as home:
            seen = follow_through_kills(
                Path(home),
                watchers=crowd.watchers,
                events=crowd.events,
                rate=crowd.rate,
                kills=_KILLS,
                patience_s=_PATIENCE_S,
            )
        if seen.endings != 1:
            raise SystemExit(f"{crowd}: watchers were shown {seen.endings} different runs")
        name = f"{crowd.watchers:,} watchers have {crowd.events:,} events, {_KILLS} kills"
        report.rows.append(Row(name, "s", [seen.seconds], _FLOOR, [crowd.events / crowd.rate]))
        report.notes.append(
            f"{name}: connections broke {seen.breaks:,} times, {seen.repeats:,} events were read again and were the "
            f"same, {crowd.watchers * crowd.events:,} were counted and none was missing. The last watcher was done "
            f"{seen.behind:.1f} s after the first. On top of the run itself come two starts of the server, and the one "
            "thread that decodes and compares for all watchers on the server's own machine."
        )
    return report
