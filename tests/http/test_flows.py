from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from flower_core import HumanChannel
from flower_core.sessions import SqliteSessionStore
from flower_core.workflow import Workflow
from flower_http.built_in_flows import OnceFlow
from flower_http.errors import Problem, StartError
from flower_http.flow_registry import Flows
from flower_http.flows import FlowContext, Links
from flower_http.kit import Kit
from flower_http.places import Places
from flower_http.schemas import StartParams
from tests.http.gated_flow import SOLO, Gated
from tests.http.run_world import FLOWS, RunWorld, refused
from tests.repositories import repository
from tests.support import eventually


def context(tmp_path: Path, **asked: object) -> FlowContext:
    places = Places(tmp_path / "work", tmp_path / "data")
    kit = Kit(Flows(FLOWS), places, {})
    return kit.context(StartParams(**asked), places.root / "w", "en")  # type: ignore[arg-type]


def links(tmp_path: Path, opening: str = "") -> Links:
    return Links(tmp_path / "session.json", opening=opening)


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("tests.http.nowhere:make", "No module named"),
        ("tests.http.gated_flow:nothing", "no attribute"),
        ("tests.http.gated_flow:SCENES", "neither a Workflow nor callable"),
        ("/nowhere/flow.py:make", "FileNotFoundError"),
    ],
)
def test_a_flow_that_cannot_be_loaded_stops_the_start_and_says_why(target: str, why: str) -> None:
    with pytest.raises(StartError, match=why):
        Flows({"mine": target})


def test_a_flow_file_that_ends_the_program_is_refused_like_any_other(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import sys\nsys.exit(0)\n")
    with pytest.raises(StartError, match=r"script\.py:make: SystemExit"):
        Flows({"mine": f"{tmp_path / 'script.py'}:make"})


def test_a_flow_can_be_a_file_and_takes_its_context_or_nothing(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from flower_core.workflow import Workflow\n"
        "def told(context):\n    return Workflow([], name=context.task)\n"
        "def silent():\n    return Workflow([], name='nothing')\n"
    )
    flows = Flows({name: f"{tmp_path / 'mine.py'}:{name}" for name in ("told", "silent")})
    for name, expected in (("told", "the task"), ("silent", "nothing")):
        made = flows.make(context(tmp_path, flow=name, task="the task"), links(tmp_path))
        assert isinstance(made, Workflow)
        assert made.name == expected


def test_a_flow_is_told_its_parameters_and_the_rest_of_the_request(tmp_path: Path) -> None:
    about = context(tmp_path, task="t", flow="mine", params={"topic": "cats"}, max_asks=2, timeout_s=5.0)
    assert about.params == {"topic": "cats"}
    assert (about.task, about.lang, about.request.max_asks) == ("t", "en", 2)
    channel = about.channel(timeout_s=7.0)
    assert (channel.max_asks, channel.timeout_s) == (2, 7.0), "what is said here beats what was asked for"


def test_what_makes_no_workflow_fails_the_run_in_words(world: RunWorld) -> None:
    view = world.start("x", "a", flow="bad")
    assert world.reaches(view.id, "failed").error == "TypeError: flow 'bad' made a str, not a Workflow"


def test_an_unknown_flow_is_refused_with_the_names_of_those_there_are(world: RunWorld) -> None:
    problem = refused(lambda: world.start("x", "a", flow="nowhere"))
    assert (problem.status, problem.slug) == (422, "unknown-flow")
    assert "starter, once, gated" in problem.detail


@pytest.mark.parametrize("flow", ["starter", "once"])
def test_an_empty_task_is_refused_where_there_is_nothing_to_wake(world: RunWorld, flow: str) -> None:
    problem = refused(lambda: world.start(" ", "a", flow=flow))
    assert (problem.status, list(problem.extra["errors"])) == (422, ["task"])


@pytest.mark.parametrize("flow", ["starter", "gated"])
def test_isolation_needs_a_workspace_it_is_possible_in(world: RunWorld, flow: str) -> None:
    work = world.home / "work"
    repository(work / "empty", commit=False)
    for workspace, why in ((None, "is not in one"), ("new", "is not in one"), ("empty", "needs a commit")):
        problem = refused(lambda at=workspace: world.start("x", at, flow, isolate=True))  # type: ignore[misc]
        assert (problem.status, problem.slug, list(problem.extra["errors"])) == (422, "invalid-body", ["isolate"])
        assert why in problem.extra["errors"]["isolate"][0]
    assert [path.name for path in work.iterdir()] == ["empty"]


def test_an_isolated_run_has_its_workbench_beside_the_workspace_and_later_ones_too(tmp_path: Path) -> None:
    made = context(tmp_path, task="x", isolate=True)
    assert made.workbench.root == tmp_path / "work" / ".flower-w"
    assert context(tmp_path, task="x").workbench.root == tmp_path / "work" / "w" / ".flower"
    made.workbench.ensure()
    assert context(tmp_path, task="x").workbench.root == tmp_path / "work" / ".flower-w"


def test_a_workbench_that_is_a_link_out_of_the_root_is_refused(world: RunWorld, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (world.home / "work" / "w").mkdir()
    for link in ("w/.flower", ".flower-w"):
        (world.home / "work" / link).symlink_to(tmp_path / "outside")
        problem = refused(lambda: world.start("x", "w"))
        assert "is a link out" in problem.extra["errors"]["workspace"][0]
        (world.home / "work" / link).unlink()
    assert world.start("x", "w").workspace == "w"


def test_a_session_the_workspace_does_not_hold_cannot_be_resumed(world: RunWorld) -> None:
    problem = refused(lambda: world.start("go on", "w", "once", resume="0b0e-1"))
    assert (problem.status, list(problem.extra["errors"])) == (422, ["resume"])


def test_a_session_the_workspace_holds_can_be_resumed(tmp_path: Path) -> None:
    about = context(tmp_path, task="go on", flow="once", resume="0b0e-1")
    store = SqliteSessionStore(about.run_dir / "sessions.db")
    key = {"project_key": "p", "session_id": "0b0e-1"}
    asyncio.run(store.append(key, [{"type": "user", "uuid": "u-1"}]))
    store.close()
    Flows({}).check(about)
    with pytest.raises(Problem):
        Flows({}).check(replace(about, request=replace(about.request, resume="0b0e-2")))


@pytest.mark.parametrize("ruin", ["no database", "directory"])
def test_sessions_that_cannot_be_read_are_said_to_be_so(tmp_path: Path, ruin: str) -> None:
    about = context(tmp_path, task="go on", flow="once", resume="0b0e-1")
    store = about.run_dir / "sessions.db"
    store.parent.mkdir(parents=True)
    if ruin == "directory":
        store.mkdir()
    else:
        store.write_bytes(b"x" * 4096)
    problem = refused(lambda: Flows({}).check(about))
    assert (problem.status, list(problem.extra["errors"])) == (422, ["resume"])


def test_a_resumed_flow_is_told_what_people_said_and_a_shared_object_is_not_changed(tmp_path: Path) -> None:
    flows = Flows(FLOWS)
    made = flows.make(context(tmp_path, flow="solo"), links(tmp_path, "it was said"))
    assert isinstance(made, Gated)
    assert made.opening == "it was said"
    assert SOLO.opening == ""
    assert flows.alone("solo") == "solo"
    assert flows.alone("gated") == flows.alone("starter") == ""


def test_one_object_serves_one_run_at_a_time_and_each_run_keeps_its_own_answers(world: RunWorld) -> None:
    first, _ = world.begun("a", flow="solo")
    assert refused(lambda: world.start("x", "b", flow="solo")).slug == "flow-busy"
    world.asks(first.id)
    world.manager.answer(first.id, "q1", text="one", by="me")
    world.reaches(first.id, "succeeded")
    assert SOLO.channel is not None
    eventually(lambda: SOLO.channel is not None and SOLO.channel.on_settle is None)
    second, _ = world.begun("b", flow="solo")
    world.asks(second.id)
    ask = world.manager.asks(second.id, "waiting")[0]
    world.manager.answer(second.id, ask.id, text="two", by="me")
    world.reaches(second.id, "succeeded")
    kept = [world.book.get(view.id) for view in (first, second)]
    assert [list(log.conversation.answers().values())[-1]["answer"] for log in kept if log is not None] == [
        "one",
        "two",
    ]
    assert "two" not in str(world.events(first.id))


def test_a_flow_with_sinks_of_its_own_is_heard_by_both_and_keeps_answers_first(world: RunWorld) -> None:
    seen: list[str] = []
    settled: list[str] = []
    own = HumanChannel(
        timeout_s=60, on_event=lambda event: seen.append(str(event)), on_settle=lambda ask: settled.append(ask.answer)
    )
    before, SOLO.channel = SOLO.channel, own
    try:
        view, _ = world.begun("a", flow="solo")
        world.asks(view.id)
        world.manager.answer(view.id, "q1", text="this", by="me")
        world.reaches(view.id, "succeeded")
    finally:
        SOLO.channel = before
    log = world.book.get(view.id)
    assert log is not None
    assert log.conversation.answers()["q1"]["answer"] == "this"
    assert settled == ["this"]
    assert seen[0] == "Which one?"


@pytest.mark.parametrize(("spent", "left"), [(0.0, 2.0), (0.5, 1.5), (2.0, 1e-6), (9.0, 1e-6)])
def test_a_budget_holds_for_the_whole_run_however_often_its_server_restarts(
    tmp_path: Path, spent: float, left: float
) -> None:
    ties = replace(links(tmp_path, ""), spent_usd=spent)
    once = Flows({}).make(context(tmp_path, task="x", flow="once", budget_usd=2.0), ties)
    assert isinstance(once, OnceFlow)
    assert once.spec.max_budget_usd == pytest.approx(left)
    flow = Flows({}).make(context(tmp_path, task="x", budget_usd=2.0), ties)
    assert isinstance(flow, Workflow)
    assert flow.budget_usd == pytest.approx(left)
    assert ties.left_of(None) is None
