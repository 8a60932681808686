"""The manager over a real journal and engine: starting, queueing, ending, crashing, going on."""

from __future__ import annotations

import sqlite3
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from flower_http import records
from flower_http.projection import RunView
from flower_http.schemas import StartParams
from tests.http.event_tools import disk_refusing
from tests.http.gated_flow import SCENES, scene
from tests.http.run_world import RunWorld, refused
from tests.support import eventually

GOING_ON = ["run.interrupted", "run.resumed", "run.started"]


def test_a_run_goes_from_created_to_finished_and_says_so_in_order(world: RunWorld) -> None:
    view = world.start("nothing", "a")
    world.reaches(view.id, "succeeded")
    assert world.told(view.id) == ["run.created", "run.started", "run.finished"]
    assert world.events(view.id)[-1]["text"] == "run.finished"


@pytest.mark.parametrize(("task", "error"), [("fail", "RuntimeError: it broke"), ("exit", "SystemExit: 3")])
def test_a_flow_that_breaks_fails_its_run_and_nothing_else(world: RunWorld, task: str, error: str) -> None:
    view = world.start(task, "a")
    assert world.reaches(view.id, "failed").error == error
    world.reaches(world.start("nothing", "a").id, "succeeded")


def test_the_language_of_the_server_is_that_of_a_run_that_names_none(tmp_path: Path) -> None:
    world = RunWorld(tmp_path, lang="zh")
    try:
        world.begun("a")
        world.begun("b", lang="en")
        assert scene("a").channels[-1].lang == "zh"
        assert scene("b").channels[-1].lang == "en"
    finally:
        world.shut_down()


def test_runs_wait_for_their_turn_and_take_it_in_order(world: RunWorld) -> None:
    (_, one), (_, two) = world.begun("a"), world.begun("b")
    third, fourth = world.start("wait", "c"), world.start("wait", "d")
    assert [world.manager.get(view.id).state for view in (third, fourth)] == ["queued", "queued"]
    assert refused(lambda: world.start("wait", "e")).slug == "queue-full"
    two.go.set()
    world.reaches(third.id, "running")
    assert world.manager.get(fourth.id).state == "queued"
    one.go.set()
    world.reaches(fourth.id, "running")


def test_a_refused_run_leaves_nothing_behind(world: RunWorld, tmp_path: Path) -> None:
    world.begun("a")
    for body in ({"workspace": "a/below"}, {"workspace": "new", "flow": "nowhere"}, {"workspace": "x", "flow": "once"}):
        refused(lambda body=body: world.start("", **body))  # type: ignore[misc]
    assert sorted(path.name for path in (tmp_path / "work").iterdir()) == ["a"]
    assert not (tmp_path / "work/a/below").exists()
    assert len(world.book.list()[0]) == 1


def test_cancelling_ends_a_running_run_for_good(world: RunWorld) -> None:
    view, _ = world.begun("a")
    ended = world.manager.cancel(view.id)
    assert (ended.state, ended.error) == ("cancelled", "cancelled by a person")
    assert world.manager.cancel(view.id) == ended
    assert world.told(view.id)[-1] == "run.finished"


def test_a_cancelled_run_keeps_its_workspace_and_its_turn_until_its_agent_has_stopped(world: RunWorld) -> None:
    view, here = world.begun("a")
    world.begun("b")
    queued = world.start("wait", "c")
    here.may_stop.clear()
    cancelling = threading.Thread(target=world.manager.cancel, args=(view.id,))
    cancelling.start()
    eventually(lambda: not cancelling.is_alive() or not here.stopped.is_set())
    assert refused(lambda: world.start("wait", "a")).slug == "workspace-busy"
    assert world.manager.get(queued.id).state == "queued"
    here.may_stop.set()
    cancelling.join(10)
    assert world.manager.get(view.id).state == "cancelled"
    world.reaches(queued.id, "running")
    world.reaches(world.start("wait", "a").id, "queued", "running")


def test_cancelling_a_queued_run_ends_it_without_it_ever_having_run(world: RunWorld) -> None:
    world.begun("a")
    world.begun("b")
    queued = world.start("wait", "c")
    assert world.manager.cancel(queued.id).state == "cancelled"
    assert world.told(queued.id) == ["run.created", "run.finished"]
    world.start("wait", "c")


def test_a_run_cancelled_the_moment_it_starts_ends_as_cancelled_every_time(world: RunWorld) -> None:
    for _ in range(30):
        view = world.start("wait", "a")
        assert world.manager.cancel(view.id).state == "cancelled"
        assert world.told(view.id)[-1] == "run.finished"


def test_shutting_down_waits_for_the_end_of_every_run_and_lets_it_go_on_later(world: RunWorld) -> None:
    view, _ = world.begun("a")
    world.shut_down()
    world.boot(resume=False)
    stopped = world.manager.get(view.id)
    assert (stopped.state, stopped.error) == ("interrupted", "the server was stopped")
    assert world.told(view.id)[-1] == "run.interrupted"
    world.manager.resume(view.id)
    eventually(lambda: world.manager.get(view.id).state == "running", 10)
    assert world.told(view.id)[-2:] == ["run.resumed", "run.started"]


def test_a_server_that_stops_takes_nothing_more(world: RunWorld) -> None:
    world.manager.shut_down(5.0)
    assert refused(lambda: world.start()).status == 503
    assert any("stopping" in reason for reason in world.manager.ready())


def test_after_a_crash_runs_go_on_by_themselves_and_queued_ones_still_wait(world: RunWorld) -> None:
    (one, _), (two, _) = world.begun("a"), world.begun("b")
    queued = world.start("wait", "c")
    seen = {view.id: world.events(view.id) for view in (one, two, queued)}
    world.crash()
    SCENES.clear()
    world.boot()
    for view in (one, two):
        world.reaches(view.id, "running")
        assert world.told(view.id)[-3:] == GOING_ON
    assert world.told(queued.id) == ["run.created"]
    for run_id, events in seen.items():
        assert world.events(run_id)[: len(events)] == events


def test_a_start_repeated_after_a_crash_means_the_run_it_started(world: RunWorld) -> None:
    params = StartParams(task="wait", workspace="a", flow="gated")
    first = world.manager.start(params, by="me", key="k1")
    world.crash()
    SCENES.clear()
    world.boot()
    assert world.manager.start(params, by="me", key="k1", again=True).id == first.id
    other = world.manager.start(replace(params, workspace="b"), by="me", key="k2", again=True)
    assert other.id != first.id
    assert {view.id for view in world.book.list()[0]} == {first.id, other.id}


def test_a_start_repeated_after_a_crash_means_the_run_it_started_however_many_were_started_since(
    world: RunWorld,
) -> None:
    params = StartParams(task="wait", workspace="a", flow="gated")
    first = world.manager.start(params, by="me", key="k1")

    def keep_many(connection: sqlite3.Connection) -> None:
        for number in range(500):
            records.insert_run(connection, RunView(id=f"later{number:03}", epoch="e", last_seq=1), b"{}")

    world.journal.execute(keep_many, 10.0)
    assert world.manager.start(params, by="me", key="k1", again=True).id == first.id


def test_without_resumption_a_crashed_run_waits_for_somebody_to_resume_it(world: RunWorld) -> None:
    view, _ = world.begun("a")
    world.crash()
    world.boot(resume=False)
    world.reaches(view.id, "interrupted")
    assert world.manager.resume(view.id).state in ("queued", "running")
    assert refused(lambda: world.manager.resume(view.id)).slug == "not-interrupted"
    world.reaches(view.id, "running")


def test_an_interrupted_run_can_be_cancelled_and_then_no_longer_resumed(world: RunWorld) -> None:
    view, _ = world.begun("a", "ask")
    world.asks(view.id)
    world.crash()
    world.boot(resume=False)
    assert world.manager.cancel(view.id).state == "cancelled"
    assert [ask.state for ask in world.manager.asks(view.id, "all")] == ["declined"]
    assert world.events(view.id)[-2]["payload"]["state"] == "declined", "with an event of its own"
    assert refused(lambda: world.manager.resume(view.id)).slug == "not-interrupted"


def test_of_many_who_resume_at_once_exactly_one_does(world: RunWorld) -> None:
    view, _ = world.begun("a")
    world.crash()
    world.boot(resume=False)
    world.reaches(view.id, "interrupted")
    done: list[str] = []

    def resume() -> None:
        try:
            done.append(world.manager.resume(view.id).state)
        except Exception as error:
            done.append(str(error))

    threads = [threading.Thread(target=resume) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert sum(state in ("queued", "running") for state in done) == 1, done
    world.reaches(view.id, "running")
    assert world.told(view.id).count("run.resumed") == 1


def test_a_run_that_was_queued_again_after_a_crash_still_goes_on_instead_of_starting_over(world: RunWorld) -> None:
    view, _ = world.begun("a", "ask")
    world.asks(view.id)
    world.crash()
    world.boot(resume=False)
    world.manager.answer(view.id, "q1", text="that", by="me")
    world.begun("x")
    world.begun("y")
    assert world.manager.resume(view.id).state == "queued"
    world.crash()
    SCENES.clear()
    world.boot()
    assert world.manager.cancel(next(run.id for run in world.book.list()[0] if run.workspace == "x"))
    world.reaches(view.id, "succeeded", "running", "waiting")
    eventually(lambda: scene("a").openings, 10)
    assert "Which one? → that" in scene("a").openings[-1]


def test_a_run_that_cannot_go_on_keeps_neither_the_others_nor_the_server_from_it(
    world: RunWorld, tmp_path: Path
) -> None:
    (one, _), (two, _) = world.begun("a"), world.begun("b")
    world.crash()
    (tmp_path / "work/a").rmdir()
    (tmp_path / "work/a").write_text("a file now")
    world.boot()
    world.reaches(two.id, "running")
    assert world.manager.get(one.id).state == "interrupted"


def test_a_verb_at_the_root_means_the_unfinished_run_or_the_one_that_ended_last(world: RunWorld) -> None:
    assert refused(lambda: world.manager.resolve(None)).slug == "unknown-run"
    (one, first), (two, second) = world.begun("a"), world.begun("b")
    problem = refused(lambda: world.manager.resolve(None))
    assert (problem.slug, sorted(problem.extra["runs"])) == ("which-run", sorted([one.id, two.id]))
    second.go.set()
    world.reaches(two.id, "succeeded")
    assert world.manager.resolve(None) == one.id
    first.go.set()
    world.reaches(one.id, "succeeded")
    assert world.manager.resolve(None) == one.id, "it began first and ended last"
    assert world.manager.resolve(two.id) == two.id
    assert refused(lambda: world.manager.resolve("nobody")).slug == "unknown-run"


def test_a_journal_that_refuses_starts_no_run_and_keeps_no_place(tmp_path: Path) -> None:
    world = RunWorld(tmp_path, create_s=0.5)
    try:
        with disk_refusing(tmp_path / "journal.db"):
            problem = refused(lambda: world.start("wait", "a"))
            assert (problem.status, problem.slug) == (503, "journal-unavailable")
            eventually(lambda: any("journal" in reason for reason in world.manager.ready()))
        eventually(lambda: world.manager.ready() == [], 15)
        world.begun("a")
    finally:
        world.shut_down()


def test_while_one_start_waits_for_the_disk_everything_else_goes_on(world: RunWorld, tmp_path: Path) -> None:
    view, here = world.begun("a")
    with disk_refusing(tmp_path / "journal.db"):
        starting = threading.Thread(target=world.start, args=("wait", "b"))
        starting.start()
        eventually(lambda: world.journal.failing_since)
        assert starting.is_alive()
        assert world.manager.get(view.id).state == "running"
        here.go.set()
        assert here.stopped.wait(2), "the loop is not held up"
    starting.join(15)
    world.reaches(view.id, "succeeded")


def test_a_disk_that_stays_sick_stops_the_runs_and_they_go_on_when_it_is_well(tmp_path: Path) -> None:
    SCENES.clear()
    world = RunWorld(tmp_path, sick_s=0.3, max_runs=1)
    try:
        view, here = world.begun("a")
        queued = world.start("wait", "b")
        here.begun.clear()
        with disk_refusing(tmp_path / "journal.db"):
            world.say(view.id, "something that must be kept")
            assert here.stopped.wait(15)
            assert not scene("b").begun.is_set(), "nobody begins on a sick disk"
        assert here.begun.wait(20)
        world.reaches(view.id, "running")
        assert world.told(view.id)[-3:] == GOING_ON
        assert world.manager.get(queued.id).state == "queued"
    finally:
        world.shut_down()
