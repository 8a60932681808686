"""What Prometheus sees of a real server while a run asks, is answered and ends."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.serving import FlowerServer
from tests.support import eventually

pytestmark = pytest.mark.e2e


def metric(server: FlowerServer, name: str, **labels: str) -> float:
    status, _, raw = server.fetch("GET", "/metrics")
    assert status == 200
    samples = (sample for family in text_string_to_metric_families(raw.decode()) for sample in family.samples)
    return next(sample.value for sample in samples if (sample.name, sample.labels) == (name, labels))


def test_a_run_shows_in_the_metrics_from_its_question_to_its_end(tmp_path: Path) -> None:
    with FlowerServer.rehearsing(tmp_path) as server:
        run = server.start_run(goal=False)
        server.wait_for_ask(run["id"])
        assert metric(server, "flower_asks_waiting") == 1
        assert metric(server, "flower_runs", state="waiting") == 1
        assert metric(server, "flower_http_connections") >= 1
        assert metric(server, "flower_http_refused_total") == 0
        server.post("/answer", ask_id="q1", text="Hello")
        done = server.wait_for(run["id"], "succeeded", "failed")
        assert metric(server, "flower_asks_waiting") == 0
        eventually(lambda: metric(server, "flower_runs_ended_total", state=done["state"]) == 1)
        assert metric(server, "flower_cost_usd_total") == pytest.approx(done["cost_usd"])
        assert done["cost_usd"] > 0
        assert metric(server, "flower_events_appended_total") == server.get(f"/runs/{run['id']}")["last_seq"]
        assert metric(server, "flower_journal_lag_seconds") < 1
