"""A server that keeps little: what a client is told of what is gone, and what goes with a run that ended long ago."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.e2e.serving import FlowerServer
from tests.support import eventually

pytestmark = pytest.mark.e2e

FLOW = """
from flower_core import Event
from flower_core.workflow import Workflow


class Talkative(Workflow):
    async def run(self, runtime, *, on_event=None, on_step=None):
        for number in range(200):
            on_event(Event("text", f"{number}"))
        (runtime.workspace / "made").touch()
        return {"_results": {}}


def make(context):
    return Talkative([], context={"task": context.task})
"""


def test_old_events_and_old_runs_go_and_clients_are_told(tmp_path: Path) -> None:
    flow = tmp_path / "talkative.py"
    flow.write_text(FLOW)
    data = tmp_path / "data"
    with FlowerServer(data, "--rehearse", f"--flow=talk={flow}:make", "--keep-events=10", "--keep-days=1") as server:
        run = server.start_run(flow="talk", workspace="here")
        last = server.wait_for(run["id"], "succeeded")["last_seq"]
        where = f"/runs/{run['id']}/events?after=4"
        status, told = server.call("GET", where)
        first = told["first_seq"]
        assert (status, told["type"], told["last_seq"]) == (410, "cursor-expired", last)
        assert first <= last - 9
        assert (told["lost"], told["resume_after"]) == ({"from": 5, "to": first - 1, "count": first - 5}, first - 1)
        skipped = server.get(f"{where}&on_gap=skip&limit=1000")
        assert skipped["gap"] == {"from": 5, "to": first - 1}
        assert [event["seq"] for event in skipped["events"]] == list(range(first, last + 1))
        assert (skipped["final"], skipped["events"][-1]["text"]) == (True, "run.finished")

        assert server.stop() == 0
        with closing(sqlite3.connect(data / "journal.db")) as journal, journal:
            journal.execute("UPDATE runs SET ended_at = '2020-01-01T00:00:00.000Z'")
        server.start_again()
        eventually(lambda: server.call("GET", f"/runs/{run['id']}")[0] == 404, 10)
        assert server.get("/runs")["runs"] == []
        assert (data / "workspaces/here/made").exists()
        assert [path for path in data.rglob("*") if run["id"] in path.name] == []
    assert f"run {run['id']} was deleted: it ended more than 1 day(s) ago" in server.log()
