"""Somebody's first hour with flower: a real terminal, the real server, the real agent program, a rehearsed model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.terminal import CTRL_C, terminal
from tests.e2e.serving import FlowerServer, of_kind, told_of

pytestmark = pytest.mark.e2e


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FlowerServer]:
    with FlowerServer.rehearsing(tmp_path, gated=True) as server:
        yield server


def test_start_answer_say_ask_interrupt_leave_come_back_and_see_the_verdict(
    server: FlowerServer, tmp_path: Path
) -> None:
    with terminal("start", "--watch", home=tmp_path, url=server.url, columns=80) as first:
        first.see(r"What is to be done\?: ")
        first.type("Greet the readers of a page\n")
        run_id = first.see(r"\d{8}t\w+-\w+\n").strip()
        run = server.get(f"/runs/{run_id}")

        first.see("type to say something")
        first.see(r"\? q1  Which greeting should the result open with\?\n   1\) Hello\n   2\) Good morning\n", 60)
        first.see("q1> ")
        first.type("2\n")
        first.see("q1  answered by .*: Good morning")

        first.see(r"── 3/3 Work ──", 60)
        server.wait_for_worker(run)
        first.type("Mention the weather\n")
        first.see("✉ queued: Mention the weather")
        first.type("？How far is it?\n")
        first.see(r"\?\? How far is it\?\n   .*The step at work is Work", 60)

        first.type(CTRL_C)
        first.see("i/l/c> ")
        (server.workspace(run) / "begun").unlink()
        first.type("i Keep it short\n")
        first.see(r"interrupted; [^:]*your\s+words: Keep it short")
        server.wait_for_worker(run)

        first.type(CTRL_C)
        first.see("i/l/c> ")
        first.type("l\n")
        first.see(f"left running; `flower-client watch {run_id}` comes back to it")
        assert first.exit_code() == 130
        assert "i/l/c" not in first.rest()

    server.let_go(run)
    with terminal("watch", run_id, "--from-start", home=tmp_path, url=server.url, columns=80) as second:
        second.see(r"\? q1  answered by .*: Good morning")  # what was missed, and what came before
        second.see(r"verdict   achieved", 60)
        second.see(r"run       succeeded")
        second.see(r"cost      \$\d")
        assert second.exit_code() == 0

    events = server.events(run_id)
    assert {"run.created", "run.finished"} <= set(told_of(events))
    assert [event["payload"]["answer"] for event in of_kind(events, "ask") if event["payload"].get("answer")] == [
        "Good morning"
    ]
    greeting = (server.workspace(run) / "greeting.txt").read_text()
    assert greeting.startswith("Good morning\nTask: Greet the readers of a page")
    said = of_kind(events, "text")[-1]["text"]
    assert "Mention the weather" in said
    assert "Keep it short" in said
