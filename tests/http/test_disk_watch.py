from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from flower_http.disk_watch import DiskWatch
from flower_http.errors import Problem
from flower_http.jobs import Job
from flower_http.journal import Journal
from flower_http.slots import Slots
from tests.http.event_tools import disk_refusing
from tests.http.gated_flow import SCENES
from tests.http.run_world import RunWorld
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


def test_a_person_who_resumes_a_stopped_run_before_the_watch_does_holds_nobody_up(tmp_path: Path) -> None:
    SCENES.clear()
    world = RunWorld(tmp_path, sick_s=0.3, max_runs=1)
    try:
        view, here = world.begun("a")
        here.begun.clear()
        with disk_refusing(tmp_path / "journal.db"):
            world.say(view.id, "something that must be kept")
            assert here.stopped.wait(15)
        eventually(lambda: world.told(view.id)[-1] != "run.started", 10)
        with suppress(Problem):  # the watch may have been quicker after all
            world.manager.resume(view.id)
        assert here.begun.wait(10)
        world.reaches(view.id, "running")
    finally:
        world.shut_down()


def test_a_run_whose_events_find_no_room_stops_at_once_and_goes_on_when_the_disk_is_well(tmp_path: Path) -> None:
    SCENES.clear()
    world = RunWorld(tmp_path, buffer_bytes=20_000)
    try:
        view, here = world.begun("a")
        here.begun.clear()
        with disk_refusing(tmp_path / "journal.db"):
            for number in range(3):
                here.channels[-1].send(f"{number}: {'x' * 9_000}")
            assert here.stopped.wait(10), "nothing may happen that nobody can ever see"
        assert here.begun.wait(20)
        world.reaches(view.id, "running")
        assert [*world.told(view.id)][:3] == ["run.created", "run.started", "run.interrupted"]
        interrupted = next(event for event in world.events(view.id) if event["text"] == "run.interrupted")
        assert interrupted["payload"]["error"] == "the journal could not be written"
    finally:
        world.shut_down()
