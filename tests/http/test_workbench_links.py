"""What agents may have put in the place of a workbench, or of a workspace, by the time somebody works there again."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flower_core.claude.agent_user import AgentUser
from flower_http.flow_registry import Flows
from flower_http.kit import Kit
from flower_http.places import Places
from flower_http.schemas import StartParams
from tests.http.gated_flow import SCENES, scene
from tests.http.run_world import RunWorld, refused
from tests.support import eventually


@pytest.fixture
def kit(tmp_path: Path) -> Kit:
    """One of a server whose agents have a user of their own, with the workspaces ``one`` and ``two``."""
    for name in ("one", "two"):
        (tmp_path / "work" / name).mkdir(parents=True)
    places = Places(tmp_path / "work", tmp_path / "data")
    user = AgentUser("nobody", 65534, 65534, tmp_path / "data", places.root)
    return Kit(Flows({}), places, {}, agent_user=user)


def check(kit: Kit, task: str = "Do it") -> None:
    kit.check(StartParams(task=task, workspace="one"), kit.places.root / "one", "en")


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("/etc", "a link out of the server's workspace root"),
        ("../two", "a link into another workspace"),
        ("../two/.flower", "a link into another workspace"),
        ("../.flower-two", "a link into another workspace"),
        ("..", "a link into another workspace"),
    ],
)
def test_a_link_to_what_is_not_of_the_workspace_is_refused(kit: Kit, target: str, said: str) -> None:
    (kit.places.root / "one" / ".flower").symlink_to(target)
    assert said in str(refused(lambda: check(kit)).extra)


@pytest.mark.parametrize("target", ["build", "."])
def test_a_link_within_the_workspace_is_taken(kit: Kit, target: str) -> None:
    (kit.places.root / "one" / ".flower").symlink_to(target)
    check(kit)


def test_a_link_in_a_circle_is_refused(kit: Kit) -> None:
    (kit.places.root / "one" / ".flower").symlink_to(".flower")
    assert "workspace" in refused(lambda: check(kit, task="")).extra["errors"]


@pytest.mark.parametrize("kind", ["pipe", "directory", "link in a circle", "no directory above"])
def test_what_is_no_document_is_refused_by_name_where_a_run_would_go_on_from_it(kit: Kit, kind: str) -> None:
    brief = kit.places.root / "one" / ".flower" / "notes" / "brief.md"
    brief.parent.parent.mkdir()
    if kind == "no directory above":
        brief.parent.write_text("a file")
    else:
        brief.parent.mkdir()
        make: dict[str, Callable[[Path], None]] = {
            "pipe": os.mkfifo,
            "directory": Path.mkdir,
            "link in a circle": lambda path: path.symlink_to(path),
        }
        make[kind](brief)
    check(kit)
    assert "brief.md" in str(refused(lambda: check(kit, task="")).extra["errors"]["workspace"])


@pytest.fixture
def world(tmp_path: Path) -> Iterator[RunWorld]:
    SCENES.clear()
    made = RunWorld(tmp_path)
    yield made
    made.shut_down()


def become_a_link(world: RunWorld, workspace: str, target: str) -> None:
    path = world.home / "work" / workspace
    (path.parent / target).mkdir()
    path.rename(path.with_name("moved"))
    path.symlink_to(target)


def test_a_run_goes_on_nowhere_else_when_its_workspace_has_become_a_link(world: RunWorld) -> None:
    run = world.start("wait", "a/sub")
    assert scene("sub").begun.wait(10)
    eventually(lambda: world.manager.get(run.id).started_at, 10)
    world.crash()
    become_a_link(world, "a/sub", "../two")
    world.boot()
    assert world.manager.get(run.id).state == "interrupted"
    assert "symbolic link" in str(refused(lambda: world.manager.resume(run.id)).extra["errors"])
    assert list((world.home / "work" / "two").iterdir()) == []
    world.manager.cancel(run.id)


def test_an_oracle_looks_nowhere_else_either(world: RunWorld) -> None:
    run = world.start("", "a/sub")
    world.reaches(run.id, "succeeded")
    become_a_link(world, "a/sub", "../two")
    asked = world.manager.ask_oracle(run.id, "What is there?")
    eventually(lambda: world.manager.oracle_answer(run.id, asked.id).state != "thinking", 10)
    answer = world.manager.oracle_answer(run.id, asked.id)
    assert (answer.state, answer.answer) == ("failed", "")
    assert world.oracle.asked == []
