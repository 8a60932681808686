"""A long run whose server is killed with -9 at twenty random moments: in the end everything is as it should be."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.serving import PATIENCE_S, FlowerServer, told_of
from tests.faults.long_run import Kills, Person, Watcher, canonical, moments
from tests.support import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

SEED, KILLS, MOST_EVENTS = 20, 20, 24
MOMENTS = moments(SEED, KILLS, MOST_EVENTS)
AT_STARTS = sum(moment.kind == "start" for moment in MOMENTS)
TASKS, EVERY = 8, 4
TASK = "How to get on"


def test_killed_at_twenty_random_moments(tmp_path: Path) -> None:
    with FlowerServer(tmp_path / "data", f"--rehearse=long,tasks={TASKS},every={EVERY},pace=0") as server:
        run = server.start_run(TASK)
        watcher, person = Watcher(server, run), Person(server, run)
        kills = Kills(server, watcher, person)
        watcher.start()
        person.start()
        for moment in MOMENTS:
            kills.at(moment)
        done = server.wait_for(run["id"], "succeeded", "failed", timeout=2 * PATIENCE_S)
        watcher.finish(wait=True)
        person.finish()
        assert (done["state"], done["verdict"]["state"]) == ("succeeded", "achieved"), done
        assert set(kills.reached) == {"start", "events", "asked", "answering"}, "the run was hit where it hurts"
        work_is_done(server.workspace(run))
        answers_arrived(server, run, person)
        events_are_whole(server, run, watcher)
        books_agree(server, run, watcher.events)
        kills.nothing_is_left()
        eventually(lambda: not server.agents(), PATIENCE_S)


def work_is_done(workspace: Path) -> None:
    """Every card was worked on at least once, and none is left."""
    numbers = [f"{n:03d}" + ("-ask" if n % EVERY == 0 else "") for n in range(1, TASKS + 1)]
    cards = [f"{kind}-{number}" for kind in ("chapter", "exercise") for number in numbers] + ["index-001"]
    log = Counter((workspace / "board" / "log").read_text().split())
    assert set(log) == set(cards)
    assert sorted(path.name for path in (workspace / "board" / "done").iterdir()) == sorted(cards)
    for kind in ("chapter", "exercise", "index"):
        assert list((workspace / "board" / kind).iterdir()) == []
    # The agent program writes beside a file and renames; killed in between, it leaves what it wrote so far.
    assert sorted(path.stem for path in (workspace / "parts").glob("*.txt")) == sorted(cards)


def answers_arrived(server: FlowerServer, run: dict[str, Any], person: Person) -> None:
    """Every question was settled once, with what the person said, and that is what the agents went by."""
    asks = server.get(f"/runs/{run['id']}/asks?state=all")["asks"]
    put = [ask for ask in asks if ask["state"] != "answered" or ask["answer"] != person.said.get(ask["question"])]
    assert put == []
    parts = server.workspace(run) / "parts"
    for question, answer in person.said.items():
        if question.startswith("What is to stand at the head of "):
            piece = question.removeprefix("What is to stand at the head of ").removesuffix("?")
            assert (parts / f"{piece}-ask.txt").read_text().splitlines()[2] == answer
    assert len(person.said) == 1 + 2 * (TASKS // EVERY)
    assert f"Its motto: {person.said['What is the motto of the handbook?']}" in brief_of(server, run)


def brief_of(server: FlowerServer, run: dict[str, Any]) -> str:
    """The brief as it stands in the workbench."""
    return (server.workspace(run) / ".flower" / "notes" / "brief.md").read_text(encoding="utf-8")


def events_are_whole(server: FlowerServer, run: dict[str, Any], watcher: Watcher) -> None:
    """What the watcher was shown bit by bit is what the server has now."""
    events = server.events(run["id"])
    assert hashlib.sha256(b"".join(map(canonical, events))).digest() == watcher.digest.digest()
    assert watcher.breaks >= KILLS
    assert watcher.compared > 0
    told = Counter(told_of(events))
    assert (told["run.created"], told["run.finished"]) == (1, 1)
    # A run that is hit as the server starts may still wait for its turn, and then was not interrupted once more.
    assert KILLS - AT_STARTS <= told["run.interrupted"] <= KILLS


def books_agree(server: FlowerServer, run: dict[str, Any], events: list[dict[str, Any]]) -> None:
    """Run, events and manifest say the same of what was spent.

    A step that was cut off has a row without an end; what it had spent by then was never told, and stands nowhere. Each
    stretch of a step that came to its result has a row with just that cost, unless the kill came between the two.
    """
    stretches = list(stretches_of(events))
    cost = server.get(f"/runs/{run['id']}")["cost_usd"]
    assert cost == pytest.approx(sum(stretch.cost for stretch in stretches), abs=1e-5)
    rows = server.get(f"/runs/{run['id']}/steps")["steps"]
    ended = Counter((row["step"], round(row["cost_usd"], 5)) for row in rows if row["ended_at"])
    told = Counter((stretch.step, round(stretch.cost, 5)) for stretch in stretches if stretch.ended)
    cut = Counter((stretch.step, round(stretch.cost, 5)) for stretch in stretches if stretch.ended and stretch.cut)
    assert ended - told == Counter()
    assert told - ended - cut == Counter()
    assert all(row["ok"] or not row["ended_at"] for row in rows)
    assert {row["session_id"] for row in rows if row["step"].startswith("Work#")} == {
        row["session_id"] for row in rows if row["step"] == "Work" and row["session_id"]
    }, "every round went on in the session of the first"


@dataclass
class Stretch:
    """A step in one process: whether it came to a result, and whether the process was killed before the next step."""

    step: str
    cost: float = 0.0
    ended: bool = False
    cut: bool = False


def stretches_of(events: list[dict[str, Any]]) -> Iterator[Stretch]:
    """The stretches of all steps, in order."""
    stretch: Stretch | None = None
    for event in events:
        if event["kind"] == "step":
            if stretch is not None:
                yield stretch
            stretch = Stretch(event["text"])
        elif stretch is not None and event["kind"] == "result":
            stretch.cost += event["payload"]["cost_usd"]
            stretch.ended = True
        elif stretch is not None and event["text"] == "run.interrupted":
            stretch.cut = True
    if stretch is not None:
        yield stretch
