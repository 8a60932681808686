"""A run that gets nowhere, maybe because it is what kills the server, is not resumed by itself for ever."""

from __future__ import annotations

import pytest

from tests.http.gated_flow import SCENES, scene
from tests.http.run_world import RunWorld
from tests.support import eventually

STUCK = "interrupted 3 times in a row without a sign of its agent; resume it to try again"


def restarted(world: RunWorld, run_id: str, state: str, *, starts: int = 0) -> None:
    """The server is killed and started again, and the run comes to ``state``, having been started ``starts`` times."""
    world.crash()
    SCENES.clear()
    world.boot()
    world.reaches(run_id, state)
    eventually(lambda: not starts or world.told(run_id).count("run.started") == starts, 10)


def test_after_three_starts_without_a_sign_of_the_agent_only_a_person_lets_it_go_on(world: RunWorld) -> None:
    view, _ = world.begun("a")
    restarted(world, view.id, "running", starts=2)
    restarted(world, view.id, "running", starts=3)
    restarted(world, view.id, "interrupted")
    assert world.manager.get(view.id).error == STUCK
    events = world.events(view.id)
    restarted(world, view.id, "interrupted")
    assert world.events(view.id) == events, "it is said once"

    world.manager.resume(view.id)
    assert world.reaches(view.id, "running").error == ""
    scene("a").go.set()
    world.reaches(view.id, "succeeded")


@pytest.mark.parametrize("kind", ["text", "thinking", "tool_call", "tool_result", "result"])
def test_any_sign_of_the_agent_makes_the_count_begin_anew(world: RunWorld, kind: str) -> None:
    view, _ = world.begun("a")
    restarted(world, view.id, "running", starts=2)
    restarted(world, view.id, "running", starts=3)
    log = world.book.get(view.id)
    assert log is not None
    log.append(kind, "on it")
    log.wait_flushed(5)
    for starts in (4, 5):
        restarted(world, view.id, "running", starts=starts)
    restarted(world, view.id, "running", starts=6)
    restarted(world, view.id, "interrupted")
    assert world.manager.get(view.id).error == STUCK


def test_what_is_said_of_it_without_its_agent_is_no_sign_of_life(world: RunWorld) -> None:
    view, _ = world.begun("a")
    for starts in (2, 3):
        restarted(world, view.id, "running", starts=starts)
    log = world.book.get(view.id)
    assert log is not None
    for kind in ("prompt", "step", "retry", "error", "system"):
        log.append(kind, "again")
    log.wait_flushed(5)
    restarted(world, view.id, "interrupted")


def test_a_server_stopped_in_order_counts_too_and_runs_that_wait_for_their_turn_do_not(world: RunWorld) -> None:
    view, _ = world.begun("a")
    world.begun("b")
    queued = world.start("wait", "c")
    for starts in (2, 3, 0):
        world.shut_down()
        SCENES.clear()
        world.boot()
        eventually(lambda starts=starts: not starts or world.told(view.id).count("run.started") == starts, 10)  # type: ignore[misc]
    assert world.reaches(view.id, "interrupted").error == STUCK
    world.reaches(queued.id, "running")


def test_clients_are_not_shown_the_count(world: RunWorld) -> None:
    view, _ = world.begun("a")
    assert "fruitless" not in world.manager.get(view.id).to_json()
