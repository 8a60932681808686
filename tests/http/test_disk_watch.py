from __future__ import annotations

from pathlib import Path

from flower_http.disk_watch import DiskWatch
from flower_http.jobs import Job
from flower_http.journal import Journal
from flower_http.slots import Slots
from tests.http.event_tools import disk_refusing
from tests.support import eventually


def test_the_watch_outlives_a_run_that_cannot_be_looked_at(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.db")
    looks: list[str] = []

    class Watched(Slots[Job]):
        def hold(self, on: bool) -> None:
            if journal.failing_since is None:
                looks.append("failed")
                raise OSError("the disk said no once more")
            looks.append("held")
            super().hold(on)

    slots = Watched(lambda job: None, max_runs=1, queue=1)
    watch = DiskWatch(journal, slots, lambda run_id: True, sick_s=0.0)
    watch.start()
    eventually(lambda: looks)
    with disk_refusing(tmp_path / "journal.db"):
        journal.submit(lambda connection: None)
        eventually(lambda: "held" in looks, timeout=15)
    watch.stop()
    journal.close()
