"""What goes with a run when it is deleted, and what stays because others build on it."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import requests

from flower_core.lineage import Lineage
from flower_core.manifest import Manifest, StepResult
from flower_core.sessions import SqliteSessionStore
from flower_http.flow_registry import Flows
from flower_http.places import Places
from flower_http.projection import RunView
from flower_http.server import Server
from tests.http.run_world import FLOWS, RunWorld, refused
from tests.http.served_world import served
from tests.http.test_run_documents import NOTED
from tests.nested import nest
from tests.support import eventually

GETS = ("", "/events", "/asks", "/inbox", "/steps", "/documents", "/documents/brief", "/files", "/files/x")


@pytest.fixture
def flows() -> Flows:
    return Flows({**FLOWS, **NOTED})


@pytest.fixture
def server(world: RunWorld) -> Iterator[Server]:
    with served(world) as server:
        yield server


def left_of(world: RunWorld, run_id: str) -> list[Path]:
    """What in the data directory is named after the run or speaks of it."""
    files = [path for path in (world.home / "data").rglob("*") if path.is_file() and path.suffix != ".db"]
    return [path for path in files if run_id in path.name or run_id.encode() in path.read_bytes()]


def test_a_deleted_run_is_unknown_everywhere_and_its_workspace_stays(world: RunWorld, server: Server) -> None:
    run, here = world.begun("w", flow="noted")
    (world.home / "work/w/made.txt").write_text("by the agent")
    here.go.set()
    world.reaches(run.id, "succeeded")
    at = f"{server.url}/runs/{run.id}"
    assert left_of(world, run.id)
    reply = requests.delete(at, timeout=10)
    assert (reply.status_code, reply.content, reply.headers.get("Content-Type")) == (204, b"", None)
    for path in GETS:
        assert requests.get(at + path, timeout=10).json()["type"] == "unknown-run", path
    for verb in ("cancel", "resume", "interrupt"):
        assert requests.post(f"{at}/{verb}", timeout=10).json()["type"] == "unknown-run"
    assert requests.delete(at, timeout=10).json()["type"] == "unknown-run"
    assert requests.get(f"{server.url}/runs", timeout=10).json()["runs"] == []
    assert left_of(world, run.id) == []
    assert (world.home / "work/w/made.txt").read_text() == "by the agent"
    assert world.journal.read(lambda db: db.execute("SELECT count(*) FROM events").fetchone()) == (0,)


def test_only_a_run_that_has_ended_goes(world: RunWorld, server: Server) -> None:
    running, here = world.begun("a")
    world.begun("b")
    queued = world.start("wait", "c")
    for run in (running, queued):
        reply = requests.delete(f"{server.url}/runs/{run.id}", timeout=10)
        assert (reply.status_code, reply.json()["type"]) == (409, "not-ended")
        assert world.manager.get(run.id).state in ("running", "queued")
    here.go.set()


def test_an_interrupted_run_stays_until_it_is_cancelled(world: RunWorld) -> None:
    run, _ = world.begun("w")
    world.crash()
    world.boot(resume=False)
    assert refused(lambda: world.manager.delete(run.id)).slug == "not-ended"
    world.manager.cancel(run.id)
    world.manager.delete(run.id)
    assert refused(lambda: world.manager.get(run.id)).slug == "unknown-run"


def test_it_stays_deleted_after_a_restart(world: RunWorld) -> None:
    runs = [world.start("", name) for name in ("a", "b")]
    for run in runs:
        world.reaches(run.id, "succeeded")
    world.manager.delete(runs[0].id)
    world.crash()
    world.boot()
    assert [run.id for run in world.manager.list(state=None, labels={}, limit=9, cursor=None)[0]] == [runs[1].id]


def test_readers_that_wait_are_let_go(world: RunWorld, server: Server) -> None:
    run, _ = world.begun("w")
    seen: list[dict[str, Any]] = []
    at = f"{server.url}/runs/{run.id}"

    def read() -> None:
        after = 0
        while not seen or not seen[-1]["final"]:
            seen.append(requests.get(f"{at}/events?after={after}&wait=20", timeout=30).json())
            after = seen[-1]["next_after"]

    reader = threading.Thread(target=read)
    reader.start()
    log = world.book.get(run.id)
    assert log is not None
    eventually(lambda: log.waiting)
    requests.post(f"{at}/cancel", timeout=10)
    requests.delete(at, timeout=10)
    reader.join(5)
    assert not reader.is_alive()
    assert seen[-1]["events"][-1]["text"] == "run.finished"


def test_of_many_who_delete_it_at_once_nobody_fails(world: RunWorld, server: Server) -> None:
    run = world.start("", "w", flow="noted")
    world.reaches(run.id, "succeeded")
    asked = Places(world.home / "work", world.home / "data").oracle_dir(run.id)
    asked.mkdir(parents=True)
    for number in range(1500):
        (asked / f"o{number}.json").touch()
    statuses: list[int] = []
    threads = [
        threading.Thread(
            target=lambda: statuses.append(requests.delete(f"{server.url}/runs/{run.id}", timeout=10).status_code)
        )
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert set(statuses) <= {204, 404}
    assert 204 in statuses
    assert not asked.exists()


def test_no_key_of_a_deleted_run_acts_again(world: RunWorld, server: Server) -> None:
    key = {"Idempotency-Key": "k"}
    body = {"task": "", "flow": "gated", "workspace": "w", "labels": {"who": "somebody"}}
    run_id = requests.post(f"{server.url}/runs", json=body, headers=key, timeout=10).json()["id"]
    world.reaches(run_id, "succeeded")
    at = f"{server.url}/runs/{run_id}"
    assert requests.post(f"{at}/cancel", headers=key, timeout=10).status_code == 200
    requests.delete(at, timeout=10)
    for url, sent in ((f"{server.url}/runs", body), (f"{at}/cancel", None)):
        reply = requests.post(url, json=sent, headers=key, timeout=10)
        assert (reply.status_code, reply.json()["type"]) == (404, "unknown-run")
    assert b"somebody" not in (world.home / "data/idempotency.db").read_bytes()
    assert requests.get(f"{server.url}/runs", timeout=10).json()["runs"] == []


async def _speak(store: SqliteSessionStore, *sessions: str) -> None:
    for session in sessions:
        await store.append({"project_key": "p", "session_id": session}, [{"type": "user", "uuid": f"u-{session}"}])


def test_what_agents_said_goes_unless_a_later_run_may_go_on_from_it(world: RunWorld) -> None:
    run = world.start("", "w")
    world.reaches(run.id, "succeeded")
    places = Places(world.home / "work", world.home / "data")
    books = places.books(world.home / "work" / "w")
    rows = {"work": run.id, "judge": run.id, "shared": run.id, "theirs": "another", "once": run.id}
    for session, owner in rows.items():
        manifest = Manifest(books / "manifest.json", owner)
        manifest.record(StepResult(session, session, started_at=1.0, retired=["old"] if session == "judge" else []))
    Manifest(books / "manifest.json", "another").record(StepResult("again", "shared", started_at=2.0))
    Lineage(books / "lineage.json", world.home / "work" / "w").set("Work", "work")
    Lineage(places.session_file(world.home / "work" / "w", run.id), world.home / "work" / "w").set("once", "once")
    with closing(SqliteSessionStore(books / "sessions.db")) as store:
        asyncio.run(_speak(store, *rows, "old"))
        world.manager.delete(run.id)
        kept = {session for session in (*rows, "old") if store.has_session(session)}
    assert kept == {"work", "shared", "theirs"}
    left = json.loads((books / "manifest.json").read_text())
    assert [row["step"] for row in left] == ["theirs", "again"]
    assert not places.session_file(world.home / "work" / "w", run.id).exists()


def ruined_store(world: RunWorld, *owners: str, how: str) -> Path:
    """The store of the sessions of workspace ``w``, one for each of the runs ``owners``; ruined."""
    places = Places(world.home / "work", world.home / "data")
    books = places.books(world.home / "work" / "w")
    for owner in owners:
        Manifest(books / "manifest.json", owner).record(StepResult("work", f"s-{owner}", started_at=1.0))
    with closing(SqliteSessionStore(books / "sessions.db")) as store:
        asyncio.run(_speak(store, *(f"s-{owner}" for owner in owners)))
    path = books / "sessions.db"
    content = bytearray(path.read_bytes())
    content[0 if how == "no database" else 4096 :] = b"\xff" * (len(content) - 4096)
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("how", ["no database", "damaged"])
def test_a_store_of_sessions_that_is_ruined_goes_with_the_last_run_that_has_some_in_it(
    world: RunWorld, server: Server, how: str
) -> None:
    runs = []
    for _ in range(2):
        runs.append(world.start("", "w"))
        world.reaches(runs[-1].id, "succeeded")
    path = ruined_store(world, *(run.id for run in runs), how=how)
    Lineage(path.with_name("lineage.json"), world.home / "work" / "w").set("Work", "gone")
    for run, left in ((runs[0], True), (runs[1], False)):
        reply = requests.delete(f"{server.url}/runs/{run.id}", timeout=10)
        assert (reply.status_code, reply.content) == (204, b"")
        assert requests.get(f"{server.url}/runs/{run.id}", timeout=10).status_code == 404
        assert path.exists() == left
    left_behind = [each.name for each in path.parent.iterdir() if each.name.startswith(("sessions", "lineage"))]
    assert left_behind == []
    again = world.start("", "w")
    assert world.reaches(again.id, "succeeded", "failed").state == "succeeded"


def test_a_ruined_store_stays_while_a_run_is_under_way_where_it_is(world: RunWorld) -> None:
    run = world.start("", "w")
    world.reaches(run.id, "succeeded")
    path = ruined_store(world, run.id, how="damaged")
    _, here = world.begun("w")
    world.manager.delete(run.id)
    assert path.exists()
    here.go.set()


def test_what_cannot_be_removed_is_said_and_the_run_is_still_there(world: RunWorld) -> None:
    run = world.start("", "w")
    world.reaches(run.id, "succeeded")
    places = Places(world.home / "work", world.home / "data")
    places.session_file(world.home / "work" / "w", run.id).mkdir(parents=True)
    problem = refused(lambda: world.manager.delete(run.id))
    assert (problem.status, problem.slug) == (503, "journal-unavailable")
    assert world.manager.get(run.id).state == "succeeded"
    places.session_file(world.home / "work" / "w", run.id).rmdir()
    world.manager.delete(run.id)


def test_the_agents_own_directory_goes_when_its_run_ends_and_leftovers_when_a_server_starts(world: RunWorld) -> None:
    config = world.home / "data" / "config"
    ended, here = world.begun("a")
    cut_off, _ = world.begun("b")
    assert {path.name for path in config.iterdir()} == {ended.id, cut_off.id}
    here.go.set()
    world.reaches(ended.id, "succeeded")
    assert {path.name for path in config.iterdir()} == {cut_off.id}
    (config / "left-by-somebody").mkdir()
    world.crash()
    world.boot(resume=False)
    assert {path.name for path in config.iterdir()} == {cut_off.id}
    world.manager.cancel(cut_off.id)
    assert list(config.iterdir()) == []


def test_a_run_ends_and_a_server_starts_however_deep_its_agents_have_nested_directories(world: RunWorld) -> None:
    config = world.home / "data" / "config"
    ended, here = world.begun("a")
    nest(config / ended.id, 1200)
    here.go.set()
    world.reaches(ended.id, "succeeded")
    assert list(config.iterdir()) == []
    world.crash()
    (config / "left-by-somebody").mkdir()
    nest(config / "left-by-somebody", 1200)
    world.boot()
    assert list(config.iterdir()) == []


def test_looking_for_what_a_run_left_makes_nothing(tmp_path: Path) -> None:
    places = Places(tmp_path / "work", tmp_path / "data")
    places.drop(RunView("never", "e", workspace="w"))
    places.end("never")
    places.sweep([])
    assert not (tmp_path / "data").exists()
