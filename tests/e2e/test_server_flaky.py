"""The play about a bad network, through a real server: everything fails once, and nothing is lost."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.serving import FlowerServer, of_kind, steps_of

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def weathered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[FlowerServer, dict[str, Any]]]:
    """A server whose only run so far has been through all of it."""
    home = tmp_path_factory.mktemp("flaky")
    with FlowerServer(home / "data", "--rehearse=flaky-network,pace=0") as server:
        run = server.start_run("Report on the weather")
        yield server, server.wait_for(run["id"], "succeeded", "failed")


def test_a_run_gets_through_a_bad_network(weathered: tuple[FlowerServer, dict[str, Any]]) -> None:
    server, run = weathered
    assert (run["state"], run["verdict"]["state"]) == ("succeeded", "achieved")
    assert steps_of(server.events(run["id"])) == ["Clarify", "Set goal", "Work", "Work·verdict#1"]
    report = (server.workspace(run) / "report.txt").read_text()
    assert report == "Report: there was a task, and the network was bad.\n"  # once, so no work was done again


def test_it_tells_of_the_attempts_it_took(weathered: tuple[FlowerServer, dict[str, Any]]) -> None:
    server, run = weathered
    retries = of_kind(server.events(run["id"]), "retry")
    assert [(event["payload"]["step"], event["payload"]["attempt"]) for event in retries] == [("Clarify", 2)]
    assert "529" in retries[0]["text"]
    assert re.search(r"attempt 2 of 6 in [\d.]+ s", retries[0]["text"])


def test_what_passes_quickly_is_shown_and_costs_no_attempt(weathered: tuple[FlowerServer, dict[str, Any]]) -> None:
    server, run = weathered
    again = [
        event["payload"]["data"]
        for event in of_kind(server.events(run["id"]), "system")
        if event["text"] == "api_retry"
    ]
    seen = {data["error_status"] for data in again}
    assert {429, 500, 529, None} <= seen, "no status: the stream was cut"
    work = next(row for row in server.get(f"/runs/{run['id']}/steps")["steps"] if row["step"] == "Work")
    assert (work["ok"], work["attempts"], work["errors"]) == (True, 1, [])
    (limited,) = (data for data in again if data["error_status"] == 429)
    assert limited["retry_delay_ms"] >= 1000, "what Retry-After says is a floor"


def test_every_step_stays_in_the_session_it_began_in(weathered: tuple[FlowerServer, dict[str, Any]]) -> None:
    server, run = weathered
    rows = server.get(f"/runs/{run['id']}/steps")["steps"]
    told = of_kind(server.events(run["id"]), "system")
    begun = {event["payload"]["data"]["session_id"] for event in told if event["text"] == "init"}
    assert begun == {row["session_id"] for row in rows}
    assert [row["attempts"] for row in rows] == [2, 1, 1, 1]
    bills = [event["payload"]["cost_usd"] for event in of_kind(server.events(run["id"]), "result")]
    assert run["cost_usd"] == pytest.approx(sum(bills), abs=1e-5)
    assert run["cost_usd"] == pytest.approx(sum(row["cost_usd"] for row in rows), abs=1e-5)
