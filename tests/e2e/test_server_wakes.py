"""A workspace that was used before, on a real server: a clarification goes on in the middle, and ``new`` forgets it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.serving import FlowerServer, of_kind, steps_of

#: Asks two questions, one after the other, as far as the session does not hold the answers.
PLAY = r"""
[facts.flour]
in = "mcp__human__ask"
pattern = '\Arye\Z'

[facts.time]
in = "mcp__human__ask"
pattern = '\Aan hour\Z'

[[clarify]]
when.values = { flour = '.', time = '.' }
text = "## Goal\nBread of {flour}\n## Acceptance criteria\nbaked for {time}\n## Boundaries\nNo egg\n## Unknowns\nNone"

[[clarify]]
when.values.flour = '.'
tools = [["mcp__human__ask", { question = "How long?" }]]

[[clarify]]
tools = [["mcp__human__ask", { question = "Which flour?" }]]
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FlowerServer]:
    play = tmp_path / "two-questions.toml"
    play.write_text(PLAY, encoding="utf-8")
    with FlowerServer(tmp_path / "data", f"--rehearse={play}") as server:
        yield server


def test_a_clarification_goes_on_without_asking_again_what_was_answered_until_it_is_to_be_new(
    server: FlowerServer,
) -> None:
    def start(task: str, **more: object) -> str:
        run = server.start_run(task, workspace="kitchen", clarify_only=True, **more)
        return str(run["id"])

    def answer(run_id: str, question: str, text: str) -> None:
        ask = server.wait_for_ask(run_id)
        assert ask["question"] == question
        server.post(f"/runs/{run_id}/answer", ask_id=ask["id"], text=text)

    first = start("Bake bread")
    answer(first, "Which flour?", "rye")
    assert server.wait_for_ask(first)["question"] == "How long?"
    server.post(f"/runs/{first}/cancel")

    second = start("")  # without a task it wakes what is there
    answer(second, "How long?", "an hour")
    woken = server.wait_for(second, "succeeded", "failed")
    assert (woken["state"], woken["woke"]) == ("succeeded", True)
    assert len(server.get(f"/runs/{second}/asks?state=all")["asks"]) == 1
    [step] = of_kind(server.events(second), "step")
    assert (step["payload"]["resumed"], step["payload"]["woke"]) == (True, True)
    sessions = [server.get(f"/runs/{run_id}/steps")["steps"][-1]["session_id"] for run_id in (first, second)]
    assert sessions[0] == sessions[1]
    brief = server.fetch("GET", f"/runs/{second}/documents/brief")[2].decode()
    assert "Bread of rye" in brief
    assert "baked for an hour" in brief

    third = start("")  # nothing is open: nobody is asked, and saying nothing adds nothing
    assert server.wait_for(third, "succeeded", "failed")["state"] == "succeeded"
    assert server.get(f"/runs/{third}/asks?state=all")["asks"] == []
    assert steps_of(server.events(third)) == []
    assert server.fetch("GET", f"/runs/{third}/documents/brief")[2].decode() == brief

    fourth = start("Bake a cake", new=True)
    assert server.wait_for_ask(fourth)["question"] == "Which flour?"
    assert server.get(f"/runs/{fourth}")["woke"] is False
    archived = list((server.data_dir / "workspaces/kitchen/.flower/notes/archive").rglob("brief.md"))
    assert [path.read_text() for path in archived] == [brief]
    assert server.call("POST", "/runs", {"workspace": "elsewhere"})[0] == 422  # there is nothing to wake
