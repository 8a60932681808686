"""The documents of a run: where they come from, what may be in their place, and that an ended run keeps its own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import requests

from flower_http.documents import MOST_BYTES, Document
from flower_http.flow_registry import Flows
from tests.http.run_world import FLOWS, RunWorld
from tests.http.served_world import served

NOTED = {"noted": "tests.http.noted_flow:make", "elsewhere": "tests.http.noted_flow:make_elsewhere"}


@pytest.fixture
def flows() -> Flows:
    return Flows({**FLOWS, **NOTED})


def notes_of(world: RunWorld, workspace: str) -> Path:
    return world.home / "work" / workspace / ".flower" / "notes"


def found(world: RunWorld, run_id: str) -> dict[str, str]:
    return {document.name: document.text for document in world.manager.documents(run_id)}


def test_they_are_read_where_they_lie_while_the_run_goes_on(world: RunWorld) -> None:
    run, here = world.begun("w", flow="noted")
    assert world.manager.documents(run.id) == []
    notes = notes_of(world, "w")
    (notes / "goal.md").write_text("# goal")
    (notes / "brief.md").write_text("# brief")
    (notes / "other.md").write_text("# nobody asked for it")
    os.utime(notes / "brief.md", (1000, 1000))
    assert world.manager.documents(run.id)[0] == Document("brief", "brief", 1000.0, "# brief")
    assert list(found(world, run.id)) == ["brief", "goal"]
    here.go.set()


@pytest.mark.parametrize(
    ("lang", "titles"),
    [
        ("zh", ["需求", "目标", "问答记录"]),
        ("es", ["encargo", "objetivo", "preguntas"]),
        ("fr", ["cahier-des-charges", "objectif", "questions"]),
    ],
)
def test_their_files_have_the_names_of_the_runs_language(world: RunWorld, lang: str, titles: list[str]) -> None:
    run, here = world.begun("w", flow="noted", lang=lang)
    for name in (*titles, "brief"):
        (notes_of(world, "w") / f"{name}.md").write_text(name)
    documents = [(document.name, document.title) for document in world.manager.documents(run.id)]
    assert documents == list(zip(("brief", "goal", "questions"), titles, strict=True))
    here.go.set()


@pytest.mark.parametrize("damage", [b"\xff", b"{", b"[" * 100_000, b"[]", b'{"notes": 1}'])
def test_a_run_whose_documents_are_not_known_any_more_ends_and_is_deleted(world: RunWorld, damage: bytes) -> None:
    run, here = world.begun("w", flow="noted")
    known = world.home / "data" / "documents" / f"{run.id}.json"
    known.write_bytes(damage)
    here.go.set()
    world.reaches(run.id, "succeeded")
    world.manager.delete(run.id)
    assert not known.exists()


@pytest.mark.parametrize("kind", ["pipe", "directory", "no directory above"])
def test_a_book_that_cannot_be_read_is_said_to_be_so_and_not_waited_for(world: RunWorld, kind: str) -> None:
    run, here = world.begun("w", flow="noted")
    known = world.home / "data" / "documents" / f"{run.id}.json"
    known.unlink()
    if kind == "pipe":
        os.mkfifo(known)
    elif kind == "directory":
        known.mkdir()
    else:
        known.parent.rmdir()
        known.parent.touch()
    with served(world) as server:
        for path in ("documents", "documents/brief"):
            reply = requests.get(f"{server.url}/runs/{run.id}/{path}", timeout=10)
            assert (reply.status_code, reply.json()["type"]) == (503, "journal-unavailable")
            assert "documents of the run cannot be read" in reply.json()["detail"]
    here.go.set()
    world.reaches(run.id, "succeeded")


def test_what_makes_no_sense_is_no_document(world: RunWorld) -> None:
    run, here = world.begun("w", flow="noted")
    (world.home / "data" / "documents" / f"{run.id}.json").write_bytes(b"\xff")
    assert world.manager.documents(run.id) == []
    here.go.set()


def test_an_ended_run_keeps_what_it_was_about_whatever_later_runs_write(world: RunWorld) -> None:
    first, here = world.begun("w", flow="noted")
    (notes_of(world, "w") / "brief.md").write_text("of the first")
    here.go.set()
    world.reaches(first.id, "succeeded")
    second = world.start("", "w", flow="noted")
    world.reaches(second.id, "succeeded")
    (notes_of(world, "w") / "brief.md").write_text("of a third")
    assert found(world, first.id) == found(world, second.id) == {"brief": "of the first"}


@pytest.mark.parametrize("task", ["fail", "exit"])
def test_a_run_that_fails_keeps_them_too(world: RunWorld, task: str) -> None:
    notes_of(world, "w").mkdir(parents=True)
    (notes_of(world, "w") / "brief.md").write_text("what failed")
    run = world.start(task, "w", flow="noted")
    world.reaches(run.id, "failed")
    (notes_of(world, "w") / "brief.md").unlink()
    assert found(world, run.id) == {"brief": "what failed"}


def test_a_cancelled_run_has_them_the_moment_it_is_seen_to_be_cancelled(world: RunWorld) -> None:
    run, _ = world.begun("w", flow="noted")
    (notes_of(world, "w") / "brief.md").write_text("cancelled")
    assert world.manager.cancel(run.id).state == "cancelled"
    (notes_of(world, "w") / "brief.md").write_text("later")
    assert found(world, run.id) == {"brief": "cancelled"}


def test_a_run_that_was_cut_off_shows_them_as_they_are_and_goes_on_with_them(world: RunWorld) -> None:
    run, here = world.begun("w", flow="noted")
    world.crash()
    world.boot(resume=False)
    (notes_of(world, "w") / "brief.md").write_text("meanwhile")
    assert found(world, run.id) == {"brief": "meanwhile"}
    here.go.set()
    world.manager.resume(run.id)
    world.reaches(run.id, "succeeded")
    (notes_of(world, "w") / "brief.md").unlink()
    assert found(world, run.id) == {"brief": "meanwhile"}


def test_an_interrupted_run_that_is_cancelled_keeps_them(world: RunWorld) -> None:
    run, _ = world.begun("w", flow="noted")
    (notes_of(world, "w") / "brief.md").write_text("as it was")
    world.crash()
    world.boot(resume=False)
    assert world.manager.cancel(run.id).state == "cancelled"
    (notes_of(world, "w") / "brief.md").unlink()
    assert found(world, run.id) == {"brief": "as it was"}


def test_handoffs_are_numbered_from_the_oldest_on_the_archived_ones_included(world: RunWorld) -> None:
    run, here = world.begun("w", flow="noted")
    notes = notes_of(world, "w")
    (notes / "archive" / "20260131-100000").mkdir(parents=True)
    places = [
        "archive/20260131-100000/handoff-Work.md",
        "archive/handoff-Work-1.md",
        "handoff-Work.md",
        "handoff-a.txt",
    ]
    for at, name in enumerate(places):
        (notes / name).write_text(name)
        os.utime(notes / name, (1000 + at, 1000 + at))
    assert found(world, run.id) == {f"handoff-{number}": name for number, name in enumerate(places[:3], 1)}
    here.go.set()


def test_of_more_handoffs_than_a_server_can_hold_the_newest_are_shown_under_their_numbers(world: RunWorld) -> None:
    run, here = world.begun("w", flow="noted")
    for number in range(1, 19):
        file = notes_of(world, "w") / f"handoff-{number}.md"
        file.write_bytes(b"x" * MOST_BYTES)
        os.utime(file, (1000 + number, 1000 + number))
    assert list(found(world, run.id)) == [f"handoff-{number}" for number in range(3, 19)]
    here.go.set()


def test_a_workbench_outside_the_workspace_is_looked_at_where_it_is(world: RunWorld) -> None:
    run, here = world.begun("w", flow="elsewhere", lang="zh")
    (world.home / "work" / ".bench-w" / "notes" / "brief.md").write_text("out there")
    assert found(world, run.id) == {"brief": "out there"}
    here.go.set()
    world.reaches(run.id, "succeeded")
    assert found(world, run.id) == {"brief": "out there"}


def test_a_run_that_has_no_workbench_or_has_not_begun_has_none(world: RunWorld) -> None:
    notes_of(world, "w").mkdir(parents=True)
    (notes_of(world, "w") / "brief.md").write_text("of somebody else")
    without, here = world.begun("w")
    assert found(world, without.id) == {}
    here.go.set()
    world.reaches(without.id, "succeeded")
    gates = [world.begun(name)[1] for name in ("one", "two")]
    queued = world.start("", "w", flow="noted")
    assert (queued.state, found(world, queued.id)) == ("queued", {})
    for gate in gates:
        gate.go.set()


def test_what_an_agent_puts_in_their_place_leads_nowhere(world: RunWorld) -> None:
    run, here = world.begun("w", flow="noted")
    notes, secret = notes_of(world, "w"), world.home / "work" / "secret.md"
    secret.write_text("the secret")
    (notes / "brief.md").symlink_to(secret)
    os.mkfifo(notes / "goal.md")
    (notes / "questions.md").mkdir()
    (notes / "handoff-link.md").symlink_to(secret)
    (notes / "archive").symlink_to(world.home / "work")
    assert found(world, run.id) == {}
    here.go.set()
    world.reaches(run.id, "succeeded")
    assert found(world, run.id) == {}


def test_notes_that_have_become_a_link_are_not_followed(world: RunWorld) -> None:
    run, here = world.begun("w", flow="noted")
    elsewhere = world.home / "work" / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "brief.md").write_text("the secret")
    notes_of(world, "w").rename(notes_of(world, "w").with_name("moved"))
    notes_of(world, "w").symlink_to(elsewhere)
    assert found(world, run.id) == {}
    here.go.set()


def test_of_an_endless_document_the_beginning_is_shown_and_bytes_that_are_no_text_do_no_harm(world: RunWorld) -> None:
    run, here = world.begun("w", flow="noted")
    (notes_of(world, "w") / "brief.md").write_bytes(b"\xff" + b"x" * MOST_BYTES * 2)
    assert found(world, run.id)["brief"] == "\ufffd" + "x" * (MOST_BYTES - 1)
    here.go.set()
