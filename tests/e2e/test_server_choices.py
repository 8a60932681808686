"""What the fields of POST /runs change, each seen in what the run then does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flower_core.texts import LANGUAGES, texts_for
from tests.e2e.serving import FlowerServer, of_kind, quick_play, steps_of

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlowerServer]:
    home = tmp_path_factory.mktemp("choices")
    with FlowerServer(home / "data", f"--rehearse={_play(home)}", "--max-runs", "2") as running:
        yield running


def _play(folder: Path) -> Path:
    """The shipped play, with one more speaker: an agent of flow ``once`` that writes what it is told to."""
    play = quick_play(folder)
    with play.open("a", encoding="utf-8") as out:
        out.write(
            """
[[writer]]
when.called = "Write"
text = "Tried to write; this came back: {result}"

[[writer]]
tools = [["Write", { file_path = "{workspace}/note.txt", content = "{task!line}" }]]
"""
        )
    return play


def ended(server: FlowerServer, task: str = "Greet", **body: object) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A run at its end, and its events."""
    run = server.start_run(task, **body)
    done = server.wait_for(run["id"], "succeeded", "failed")
    return done, server.events(run["id"])


def test_with_nobody_there_no_question_waits_and_one_round_is_not_enough(server: FlowerServer) -> None:
    run, events = ended(server, timeout_s=0, rounds=1)
    assert [event["payload"]["state"] for event in of_kind(events, "ask")] == ["timeout"]
    assert (run["state"], run["failed_at"]) == ("failed", "Work")
    assert run["verdict"]["state"] == "not_yet"
    assert run["verdict"]["failed"], "it says what is missing"
    assert steps_of(events)[-1] == "Work·verdict#1"


def test_without_a_quota_left_every_question_is_over_budget_and_without_a_goal_nobody_judges(
    server: FlowerServer,
) -> None:
    run, events = ended(server, max_asks=0, goal=False)
    assert [(e["payload"]["state"], e["payload"]["remaining"]) for e in of_kind(events, "ask")] == [("over_budget", 0)]
    assert steps_of(events) == ["Clarify", "Work"]
    assert (run["state"], run["verdict"]) == ("succeeded", None)
    assert (server.workspace(run) / "greeting.txt").read_text().splitlines()[0] == "Hello"


@pytest.mark.parametrize("lang", [lang for lang in LANGUAGES if lang != "en"])
def test_clarifying_only_ends_with_a_brief_in_the_language_of_the_run(server: FlowerServer, lang: str) -> None:
    texts = texts_for(lang)
    run, events = ended(server, clarify_only=True, timeout_s=0, lang=lang)
    assert (run["state"], run["lang"], steps_of(events)) == ("succeeded", lang, [texts("workflow.steps.clarify")])
    notes = server.workspace(run) / ".flower/notes"
    brief = (notes / texts("workflow.files.brief")).read_text(encoding="utf-8")
    headings = [line[2:] for line in brief.splitlines() if line.startswith("# ")]
    assert headings == [texts(f"documents.brief.{key}") for key in ("goal", "accept", "bounds", "unknowns")]
    assert texts("human.state.timeout") in (notes / texts("workflow.files.questions")).read_text(encoding="utf-8")
    status, _, body = server.fetch("GET", f"/runs/{run['id']}/documents/brief")
    assert (status, body.decode()) == (200, brief)
    assert not (server.workspace(run) / "greeting.txt").exists()


def test_a_single_agent_has_the_tools_it_was_given_and_no_others(server: FlowerServer) -> None:
    body = {"flow": "once", "instructions": "flower-role: writer", "permission_mode": "acceptEdits"}
    run, events = ended(server, "Buy milk", tools=["Write"], **body)
    assert (run["state"], steps_of(events)) == ("succeeded", ["once"])
    assert (server.workspace(run) / "note.txt").read_text() == "Buy milk"
    run, events = ended(server, "Buy bread", **body)
    assert "No such tool available: Write" in str(run["result"])
    assert not (server.workspace(run) / "note.txt").exists()


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"task": "x", "colour": "red"}, "colour"),
        ({"task": "x", "timeout_s": None}, "timeout_s"),
        ({"task": "x", "workspace": "../out"}, "workspace"),
        ({"task": ""}, "task"),
        ({"task": " ", "flow": "once"}, "task"),
    ],
)
def test_what_cannot_be_is_refused_by_name_and_starts_nothing(
    server: FlowerServer, body: dict[str, object], field: str
) -> None:
    before = len(server.get("/runs")["runs"])
    status, slug, problem = server.refused("/runs", **body)
    assert (status, slug, list(problem["errors"])) == (422, "invalid-body", [field])
    assert len(server.get("/runs")["runs"]) == before
