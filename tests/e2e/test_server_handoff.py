"""The play about a context that fills up, through a real server: what clients see of a handoff and get to choose."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flower_core.rehearsal.script import PLAYS_DIR
from tests.e2e.serving import PATIENCE_S, FlowerServer, clean_environ, of_kind, steps_of
from tests.support import eventually

pytestmark = pytest.mark.e2e
CLIENT = Path(sys.executable).parent / "flower-client"
#: An agent of flow ``once`` that looks at something, fills up, and hands over.
WRITER = """
[[writer]]
when.prompts = '\\A<task>\\n'
text = "Taken over."

[[writer]]
tools = [["Glob", { pattern = "*" }]]
usage = { cache_read_input_tokens = 160000 }

[["writer/handoff"]]
text = "Doing now: a look.\\nNext step: to say so.\\nScene: an empty directory."
"""
STORY = "First half: there was a task.\nSecond half: and so it was done.\n"


def handoff_play(folder: Path, **delays: str) -> Path:
    """The shipped play without its pauses and with a writer; ``delays`` are TOML lines for speakers by their turn."""
    text = (PLAYS_DIR / "handoff.toml").read_text(encoding="utf-8")
    text = re.sub(r"(?m)^(delay|gap) = 0.*$", r"\1 = 0", text)
    for speaker, line in delays.items():
        text = text.replace(f'[["coordinator/{speaker}"]]\n', f'[["coordinator/{speaker}"]]\n{line}\n')
    path = folder / "handoff.toml"
    path.write_text(text + WRITER, encoding="utf-8")
    return path


def client(server: FlowerServer, *words: str) -> str:
    """What ``flower-client`` prints."""
    command = [str(CLIENT), "--url", server.url, *words]
    environ = clean_environ(server.data_dir.parent)
    return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=PATIENCE_S, check=True).stdout


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[FlowerServer, dict[str, dict[str, Any]]]]:
    """A server whose runs have ended: one as it is, with a smaller window, without handoffs, and of flow ``once``."""
    home = tmp_path_factory.mktemp("handoff")
    with FlowerServer(home / "data", f"--rehearse={handoff_play(home)}", "--max-runs", "4") as server:
        begun = server.start_run("Tell a story")
        small, off = (
            client(server, "start", "Tell a story", *flags).split()[0]
            for flags in (("--window", "200000"), ("--no-handoff",))
        )
        once = server.start_run("Look", flow="once", instructions="flower-role: writer", window=200_000)
        ids = {"plain": begun["id"], "small": small, "off": off, "once": once["id"]}
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


def test_whoever_watches_is_told(runs: tuple[FlowerServer, dict[str, Any]]) -> None:
    server, run = runs[0], runs[1]["plain"]
    told = [line for line in client(server, "watch", run["id"]).splitlines() if line.startswith("⇢ ")]
    assert len(told) == 3
    assert told[2].endswith("the handoff is in .flower/notes/handoff-Work.md")


def test_an_agent_without_a_workbench_hands_over_and_no_place_of_the_servers_is_shown(
    runs: tuple[FlowerServer, dict[str, Any]],
) -> None:
    server, run = runs[0], runs[1]["once"]
    assert (run["state"], run["result"]) == ("succeeded", "Taken over.")
    events = server.events(run["id"])
    told = of_kind(events, "handoff")[-1]
    assert (told["payload"]["path"], told["payload"]["degraded"]) == ("handoff-once.md", False)
    assert not any("handoff-once.md" in event["text"] for event in of_kind(events, "prompt"))
    assert str(server.data_dir / "books") not in str(of_kind(events, "handoff"))


def test_a_smaller_window_hands_over_earlier(runs: tuple[FlowerServer, dict[str, Any]]) -> None:
    server, run = runs[0], runs[1]["small"]
    assert (run["state"], run["verdict"]["state"]) == ("succeeded", "achieved")
    handoffs = [event["payload"] for event in of_kind(server.events(run["id"]), "handoff")]
    assert [payload["phase"] for payload in handoffs] == ["near", "writing", "done"]
    near, *rest = (payload["context"] for payload in handoffs)
    assert near == 935_000
    assert set(rest) <= {935_000, 955_000}, "the next reply may come before the session has stopped"
    assert {payload["window"] for payload in handoffs} == {200_000}


def test_switched_off_one_session_does_it_all(runs: tuple[FlowerServer, dict[str, Any]]) -> None:
    server, run = runs[0], runs[1]["off"]
    assert (run["state"], run["verdict"]["state"]) == ("succeeded", "achieved")
    assert of_kind(server.events(run["id"]), "handoff") == []


def test_killed_while_the_handoff_is_written_the_run_hands_over_again(tmp_path: Path) -> None:
    play = handoff_play(tmp_path, handoff="delay = 60")
    with FlowerServer(tmp_path / "data", f"--rehearse={play}") as server:
        run = server.start_run("Tell a story")

        def writes() -> bool:
            return [e["payload"]["phase"] for e in of_kind(server.events(run["id"]), "handoff")][-1:] == ["writing"]

        eventually(writes, 60, 0.05)
        server.kill()
        eventually(lambda: not server.agents(), 20)
        play.write_text(play.read_text().replace("delay = 60\n", ""))
        server.start_again()
        ended = server.wait_for(run["id"], "succeeded", "failed")
        assert (ended["state"], ended["verdict"]["state"]) == ("succeeded", "achieved")
        assert (server.workspace(run) / "story.txt").read_text() == STORY
        phases = [event["payload"]["phase"] for event in of_kind(server.events(run["id"]), "handoff")]
        assert phases == ["near", "writing", "near", "writing", "done"]
