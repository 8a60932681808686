from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest
from flask.testing import FlaskClient
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from flower_http.app import create_app
from flower_http.idempotency import SqliteKeys
from flower_http.log_book import LogBook
from flower_http.metrics import Metrics
from flower_http.settings import Settings
from tests.http.event_tools import Wire, disk_refusing, finish, new_run, open_book, say, serving
from tests.http.memory_manager import MemoryManager
from tests.support import eventually

Values = Mapping[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture
def book(settings: Settings) -> Iterator[LogBook]:
    with open_book(settings.data_dir / "journal.db") as opened:
        yield opened


@pytest.fixture
def served(settings: Settings, manager: MemoryManager, keys: SqliteKeys, book: LogBook) -> FlaskClient:
    """A client of an app that serves events, too."""
    return create_app(settings, manager=manager, keys=keys, book=book).test_client()


def parsed(text: bytes) -> Iterable[Metric]:
    families: Iterable[Metric] = text_string_to_metric_families(text.decode())
    return families


def scraped(client: FlaskClient) -> Values:
    reply = client.get("/metrics")
    assert reply.status_code == 200
    assert reply.mimetype == "text/plain"
    samples = (sample for family in parsed(reply.data) for sample in family.samples)
    return {(sample.name, frozenset(sample.labels.items())): sample.value for sample in samples}


def value(client: FlaskClient, name: str, **labels: str) -> float:
    return scraped(client)[name, frozenset(labels.items())]


def requests(client: FlaskClient, route: str, method: str = "GET", status: int = 200) -> float:
    labels = {"route": route, "method": method, "status": str(status)}
    return scraped(client).get(("flower_http_request_duration_seconds_count", frozenset(labels.items())), 0)


def test_requests_are_counted_by_template_method_and_status(client: FlaskClient, manager: MemoryManager) -> None:
    client.post("/runs", json={"task": "a"})
    for run_id in (*manager.runs, "nobody", "nobody-else"):
        client.get(f"/runs/{run_id}")
    client.post("/runs", json={"task": 1})
    assert requests(client, "/runs", "POST", 201) == 1
    assert requests(client, "/runs", "POST", 422) == 1
    assert requests(client, "/runs/<run_id>") == 1
    assert requests(client, "/runs/<run_id>", status=404) == 2


def test_the_times_of_requests_add_up() -> None:
    metrics = Metrics()
    for seconds in (0.0004, 0.0005, 0.003, 30.0):
        metrics.observe("/runs", "GET", 200, seconds)
    samples = [sample for family in parsed(metrics.render()) for sample in family.samples]
    name = "flower_http_request_duration_seconds"
    buckets = {sample.labels["le"]: sample.value for sample in samples if sample.name == f"{name}_bucket"}
    assert (buckets["0.0005"], buckets["0.0025"], buckets["0.005"], buckets["10.0"], buckets["+Inf"]) == (2, 2, 3, 3, 4)
    rest = {sample.name: sample.value for sample in samples if sample.name in (f"{name}_sum", f"{name}_count")}
    assert rest == {f"{name}_sum": pytest.approx(30.0039), f"{name}_count": 4}


def test_what_clients_make_up_adds_no_series(client: FlaskClient) -> None:
    def series() -> set[tuple[str, frozenset[tuple[str, str]]]]:
        return set(scraped(client))

    client.get("/nowhere")
    client.open("/runs", method="BREW")
    scraped(client)
    before = series()
    for number in range(20):
        client.get(f"/nowhere/{number}")
        client.open("/runs", method=f"BREW{number}")
    assert series() == before
    assert requests(client, "unmatched", status=404) == 21
    assert requests(client, "unmatched", "other", 405) == 21


def test_events_are_counted_like_everything_else(served: FlaskClient, book: LogBook) -> None:
    log = new_run(book)
    for query in ("", "?after=0", "?after=7", "?nonsense=1"):
        served.get(f"/runs/{log.run_id}/events{query}")
    served.head(f"/runs/{log.run_id}/events")
    route = "/runs/<run_id>/events"
    counted = [requests(served, route, status=status) for status in (200, 409, 400)]
    assert counted == [2, 1, 1]
    assert requests(served, route, "HEAD") == 1
    served.get("/events")
    assert requests(served, "/events", status=404) == 1


def test_runs_questions_events_and_money_are_those_of_the_log(served: FlaskClient, book: LogBook) -> None:
    first, second = new_run(book, "r1"), new_run(book, "r2")
    for log in (first, second):
        log.append("system", "run.started").result(10)
    first.append("ask", "Which?", payload={"id": "q1", "state": "asked", "question": "Which?"}).result(10)
    assert value(served, "flower_runs", state="waiting") == 1
    assert value(served, "flower_runs", state="running") == 1
    assert value(served, "flower_asks_waiting") == 1
    finish(first, cost_usd=0.5)
    finish(second, "failed", cost_usd=0.25)
    eventually(lambda: value(served, "flower_runs_ended_total", state="failed") == 1)
    assert value(served, "flower_runs_ended_total", state="succeeded") == 1
    assert value(served, "flower_runs_ended_total", state="cancelled") == 0
    assert value(served, "flower_runs", state="running") == 0
    assert value(served, "flower_asks_waiting") == 0
    assert value(served, "flower_cost_usd_total") == pytest.approx(0.75)
    assert value(served, "flower_events_appended_total") == first.last_seq + second.last_seq == 7


def test_what_happened_before_the_start_is_not_counted_again(
    settings: Settings, manager: MemoryManager, keys: SqliteKeys
) -> None:
    path = settings.data_dir / "journal.db"
    with open_book(path) as earlier:
        say(new_run(earlier), "a", "b")
    with open_book(path) as book:
        client = create_app(settings, manager=manager, keys=keys, book=book).test_client()
        log = book.get("r1")
        assert log is not None
        say(log, "c")
        eventually(lambda: value(client, "flower_events_appended_total") == 1)


def test_held_readers_are_seen(served: FlaskClient, book: LogBook) -> None:
    log = new_run(book)
    reading = threading.Thread(target=served.get, args=(f"/runs/{log.run_id}/events?after=1&wait=20",))
    reading.start()
    eventually(lambda: value(served, "flower_readers_waiting") == 1)
    say(log, "news")
    reading.join(10)
    assert value(served, "flower_readers_waiting") == 0


def test_the_journal_tells_how_far_it_is_behind(served: FlaskClient, book: LogBook, settings: Settings) -> None:
    log = new_run(book)
    commits = value(served, "flower_journal_commit_duration_seconds_count")
    assert commits >= 1
    assert value(served, "flower_journal_lag_seconds") == 0
    with disk_refusing(settings.data_dir / "journal.db"):
        told = log.append("text", "kept later")
        eventually(lambda: value(served, "flower_journal_lag_seconds") > 0.2, 10)
        assert not told.done()
    told.result(10)
    eventually(lambda: value(served, "flower_journal_lag_seconds") == 0)
    assert value(served, "flower_journal_healthy") == 1
    assert value(served, "flower_journal_commit_duration_seconds_count") > commits


def test_a_server_in_front_tells_of_its_connections(book: LogBook) -> None:
    new_run(book)
    with serving(book) as live, Wire(live.server) as wire:
        metrics = Metrics(book)
        metrics.watch(live.server)
        assert wire.get("/runs/r1/events").status == 200
        shown = {sample.name: sample.value for family in parsed(metrics.render()) for sample in family.samples}
    assert shown["flower_http_connections"] == 1
    assert shown["flower_http_unsent_bytes"] == shown["flower_http_refused_total"] == 0


def test_each_service_counts_for_itself(
    tmp_path: Path, settings: Settings, manager: MemoryManager, keys: SqliteKeys
) -> None:
    one, other = (create_app(settings, manager=manager, keys=keys).test_client() for _ in range(2))
    one.get("/runs")
    assert requests(one, "/runs") == 1
    assert requests(other, "/runs") == 0


def test_the_process_is_described(client: FlaskClient) -> None:
    assert value(client, "process_resident_memory_bytes") > 1e6
    assert any(name == "flower_info" for name, _ in scraped(client))
