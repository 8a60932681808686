"""What a Prometheus server reads at ``/metrics``.

Where work is done thousands of times a second nothing is counted that is known anyway: runs, questions, waiting readers
and the journal are looked at when somebody asks. Labels take few values, whatever clients send: routes by their
template, methods and states from a fixed list.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterator
from importlib import metadata
from itertools import accumulate
from typing import Final, Protocol

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    GCCollector,
    Histogram,
    Info,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from flower_http.log_book import LogBook
from flower_http.projection import FINAL, STATES

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
#: The route of a request that leads nowhere.
UNMATCHED: Final = "unmatched"
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
#: Upper bounds in seconds: a page from memory takes well below a millisecond, a start waits up to 10 s for the disk.
_REQUEST_BOUNDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 10.0)
_COMMIT_BOUNDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)


class Watched(Protocol):
    """What a listening server knows about itself; :class:`flower_http.server.Server` does."""

    @property
    def connections(self) -> int:
        """How many there are now."""
        ...

    @property
    def unsent(self) -> int:
        """How many bytes of replies wait for clients to take them."""
        ...

    @property
    def refused(self) -> int:
        """How many requests no application has seen, because they were too slow or too many."""
        ...


class Metrics:
    """The metrics of one service, in a registry of their own. Every method may be called from any thread.

    With a ``book`` its runs, readers and journal are among them.
    """

    def __init__(self, book: LogBook | None = None) -> None:
        self._registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self._registry)
        about = Info("flower", "The version that serves.", registry=self._registry)
        about.info({"version": metadata.version("flower-http")})
        self._requests = _RequestCollector()
        self._registry.register(self._requests)
        if book is not None:
            commits = Histogram(
                "flower_journal_commit_duration_seconds",
                "Groups of events and other records committed, and the time that took.",
                buckets=_COMMIT_BOUNDS,
                registry=self._registry,
            )
            book.journal.on_commit.append(commits.observe)
            self._registry.register(_BookCollector(book))

    def watch(self, server: Watched) -> None:
        """Have what ``server`` knows about its connections among them."""
        self._registry.register(_ServerCollector(server))

    def observe(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count a reply. ``route`` is the template of its address, never the address itself."""
        self._requests.observe((route, method if method in _METHODS else "other", status), seconds)

    def render(self) -> bytes:
        """All of them in Prometheus' text format, of type :data:`CONTENT_TYPE`."""
        return generate_latest(self._registry)


class _RequestCollector(Collector):
    """A histogram of requests. The library's own takes 2 µs for each, where serving a page of events takes 7."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: By route, method and status: how many took up to each bound and no less, how many took longer, and the sum.
        self._rows: dict[tuple[str, str, int], list[float]] = {}

    def observe(self, key: tuple[str, str, int], seconds: float) -> None:
        """Count a request."""
        with self._lock:
            row = self._rows.get(key)
            if row is None:
                row = self._rows[key] = [0] * (len(_REQUEST_BOUNDS) + 1) + [0.0]
            row[bisect_left(_REQUEST_BOUNDS, seconds)] += 1
            row[-1] += seconds

    def collect(self) -> Iterator[Metric]:
        """Called by the registry."""
        found = HistogramMetricFamily(
            "flower_http_request_duration_seconds",
            "Requests answered, and the time that took; waiting for events is not part of it.",
            labels=("route", "method", "status"),
        )
        with self._lock:
            rows = {key: list(row) for key, row in self._rows.items()}
        for (route, method, status), (*counts, total) in sorted(rows.items()):
            upto = zip((*map(str, _REQUEST_BOUNDS), "+Inf"), accumulate(counts), strict=True)
            found.add_metric((route, method, str(status)), buckets=list(upto), sum_value=total)
        yield found


class _ServerCollector(Collector):
    """What a server knows about its connections."""

    def __init__(self, server: Watched) -> None:
        self._server = server

    def collect(self) -> Iterator[Metric]:
        """Called by the registry."""
        server = self._server
        yield GaugeMetricFamily("flower_http_connections", "Connections that are open.", server.connections)
        unsent = "Bytes of replies that wait for their clients to take them."
        yield GaugeMetricFamily("flower_http_unsent_bytes", unsent, server.unsent)
        refused = "Requests refused unread: too slow, or more than the server can do."
        yield CounterMetricFamily("flower_http_refused", refused, server.refused)


class _BookCollector(Collector):
    """What a log book and its journal know about themselves, read when it is asked for. Needs no disk."""

    def __init__(self, book: LogBook) -> None:
        self._book = book

    def collect(self) -> Iterator[Metric]:
        """Called by the registry."""
        live = self._book.live()
        views = [log.view for log in live]
        runs = GaugeMetricFamily("flower_runs", "Runs that have not ended, by state.", labels=("state",))
        for state in sorted(STATES - FINAL):
            runs.add_metric((state,), sum(view.state == state for view in views))
        yield runs
        waiting = sum(view.asks_waiting for view in views)
        yield GaugeMetricFamily("flower_asks_waiting", "Questions that wait for a person.", waiting)
        readers = sum(log.waiting for log in live)
        yield GaugeMetricFamily("flower_readers_waiting", "Readers held until there are events for them.", readers)

        totals = self._book.totals
        ended = CounterMetricFamily("flower_runs_ended", "Runs ended since the start.", labels=("state",))
        for state in sorted(FINAL):
            ended.add_metric((state,), totals.ended.get(state, 0))
        yield ended
        yield CounterMetricFamily("flower_events_appended", "Events kept since the start.", totals.events)
        yield CounterMetricFamily("flower_cost_usd", "US dollars that runs have cost since the start.", totals.cost_usd)

        journal = self._book.journal
        lag = "How long the oldest record that is not on the disk has been waiting."
        yield GaugeMetricFamily("flower_journal_lag_seconds", lag, journal.lag_s)
        well = "Whether the last attempt to write the journal succeeded."
        yield GaugeMetricFamily("flower_journal_healthy", well, int(journal.healthy))
