"""The play about a context that fills up, through a real server: what clients see of a handoff and get to choose."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flower_core.rehearsal.script import PLAYS_DIR
from tests.e2e.serving import FlowerServer, of_kind, steps_of
from tests.support import eventually

pytestmark = pytest.mark.e2e
STORY = "First half: there was a task.\nSecond half: and so it was done.\n"


def handoff_play(folder: Path, **delays: str) -> Path:
    """The shipped play without its pauses, but with the delays (TOML lines) of ``delays`` for whole speakers."""
    text = (PLAYS_DIR / "handoff.toml").read_text(encoding="utf-8")
    text = re.sub(r"(?m)^(delay|gap) = 0.*$", r"\1 = 0", text)
    for speaker, line in delays.items():
        text = text.replace(f'[["coordinator/{speaker}"]]\n', f'[["coordinator/{speaker}"]]\n{line}\n')
    path = folder / "handoff.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[FlowerServer, dict[str, dict[str, Any]]]]:
    """A server at whose end three runs have come to theirs: as it is, with a smaller window, without handoffs."""
    home = tmp_path_factory.mktemp("handoff")
    with FlowerServer(home / "data", f"--rehearse={handoff_play(home)}", "--max-runs", "3") as server:
        chosen: dict[str, dict[str, Any]] = {"plain": {}, "small": {"window": 200_000}, "off": {"handoff": False}}
        ids = {name: server.start_run("Tell a story", **body)["id"] for name, body in chosen.items()}
        yield server, {name: server.wait_for(run_id, "succeeded", "failed") for name, run_id in ids.items()}


def test_a_run_that_hands_over_ends_as_if_nothing_had_been(runs: tuple[FlowerServer, dict[str, Any]]) -> None:
    server, run = runs[0], runs[1]["plain"]
    assert (run["state"], run["verdict"]["state"]) == ("succeeded", "achieved")
    assert (server.workspace(run) / "story.txt").read_text() == STORY
    events = server.events(run["id"])
    assert steps_of(events) == ["Clarify", "Set goal", "Work", "Work·verdict#1"]
    handoffs = [event["payload"] for event in of_kind(events, "handoff")]
    assert [(payload["phase"], payload["context"]) for payload in handoffs] == [
        ("near", 935_000),
        ("writing", 955_000),
        ("done", 955_000),
    ]
    assert {payload["step"] for payload in handoffs} == {"Work"}
    assert {payload["window"] for payload in handoffs} == {1_000_000}
    assert (handoffs[2]["path"], handoffs[2]["degraded"]) == (".flower/notes/handoff-Work.md", False)


def test_its_figures_hold_what_the_handoff_cost(runs: tuple[FlowerServer, dict[str, Any]]) -> None:
    server, run = runs[0], runs[1]["plain"]
    bills = [event["payload"] for event in server.events(run["id"]) if "cost_usd" in event["payload"]]
    assert run["cost_usd"] == pytest.approx(sum(bill["cost_usd"] for bill in bills), abs=1e-4)
    assert run["num_turns"] == sum(bill["num_turns"] for bill in bills)
    rows = server.get(f"/runs/{run['id']}/steps")["steps"]
    assert run["cost_usd"] == pytest.approx(sum(row["cost_usd"] for row in rows), abs=1e-4)
    (work,) = (row for row in rows if row["step"] == "Work")
    assert len(work["retired"]) == 1
    assert work["session_id"] not in work["retired"]
    assert run["context"] < 10_000, "the level is that of the fresh session"


def test_the_handoff_is_among_the_documents(runs: tuple[FlowerServer, dict[str, Any]]) -> None:
    server, run = runs[0], runs[1]["plain"]
    status, headers, body = server.fetch("GET", f"/runs/{run['id']}/documents/handoff-1")
    assert (status, headers["Content-Type"].partition(";")[0]) == (200, "text/markdown")
    assert b"The first half has just been written." in body


def test_a_smaller_window_hands_over_earlier(runs: tuple[FlowerServer, dict[str, Any]]) -> None:
    server, run = runs[0], runs[1]["small"]
    assert (run["state"], run["verdict"]["state"]) == ("succeeded", "achieved")
    handoffs = [event["payload"] for event in of_kind(server.events(run["id"]), "handoff")]
    assert [(payload["phase"], payload["context"]) for payload in handoffs] == [
        ("near", 935_000),
        ("writing", 935_000),
        ("done", 935_000),
    ]
    assert {payload["window"] for payload in handoffs} == {200_000}


def test_switched_off_one_session_does_it_all(runs: tuple[FlowerServer, dict[str, Any]]) -> None:
    server, run = runs[0], runs[1]["off"]
    assert (run["state"], run["verdict"]["state"]) == ("succeeded", "achieved")
    assert of_kind(server.events(run["id"]), "handoff") == []


def test_killed_while_the_handoff_is_written_the_run_hands_over_again(tmp_path: Path) -> None:
    play = handoff_play(tmp_path, handoff="delay = 4")
    with FlowerServer(tmp_path / "data", f"--rehearse={play}") as server:
        run = server.start_run("Tell a story")

        def writes() -> bool:
            return [e["payload"]["phase"] for e in of_kind(server.events(run["id"]), "handoff")][-1:] == ["writing"]

        eventually(writes, 60, 0.05)
        server.kill()
        eventually(lambda: not server.agents(), 20)
        play.write_text(play.read_text().replace("delay = 4\n", ""))
        server.start_again()
        ended = server.wait_for(run["id"], "succeeded", "failed")
        assert (ended["state"], ended["verdict"]["state"]) == ("succeeded", "achieved")
        assert (server.workspace(run) / "story.txt").read_text() == STORY
        phases = [event["payload"]["phase"] for event in of_kind(server.events(run["id"]), "handoff")]
        assert phases == ["near", "writing", "near", "writing", "done"]
