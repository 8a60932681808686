"""The whole starter flow, played: real runtime, real agent program, the shipped play in place of a model."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest

from flower_core.events import Event
from flower_core.rehearsal import RehearsalServer
from flower_core.runtime import Runtime
from flower_core.texts import LANGUAGES, texts_for
from flower_core.workflow.starter import starter_flow

pytestmark = pytest.mark.e2e


def headings(document: str) -> list[str]:
    return [line[2:].partition(" · ")[0] for line in document.splitlines() if line.startswith("# ")]


@pytest.mark.parametrize("lang", LANGUAGES)
def test_one_question_two_rounds_and_what_was_said_in_between(tmp_path: Path, lang: str) -> None:
    texts = texts_for(lang)
    events: list[Event] = []
    answering: list[threading.Thread] = []

    def play(server: RehearsalServer) -> Runtime:
        flow = starter_flow("Build a weather\npage", workspace=tmp_path / "ws", run_dir=tmp_path / "run", lang=lang)
        channel = flow.channel
        assert channel is not None
        environ = {**os.environ, "ANTHROPIC_API_KEY": "rehearsal", "ANTHROPIC_BASE_URL": server.url}
        bench = flow.workbench or False
        ws, run_dir = tmp_path / "ws", tmp_path / "run"
        runtime = Runtime(workspace=ws, run_dir=run_dir, workbench=bench, lang=lang, environ=environ)

        def follow(event: Event) -> None:
            events.append(event)
            if event.kind == "ask" and event.payload.get("state") == "asked":
                thread = threading.Thread(target=channel.answer, args=(event.payload["id"], "Moin"))
                answering.append(thread)
                thread.start()
            if event.kind == "tool_call" and event.tool == "Write" and not channel.mail:
                channel.send("Mind the rain")

        asyncio.run(flow.run(runtime, on_event=follow))
        runtime.close()
        return runtime

    with RehearsalServer(pace=0) as server:
        runtime = play(server)
        assert [request.rejected for request in server.app.requests if request.rejected] == []
    for thread in answering:
        thread.join(5)
    work = texts("workflow.steps.work")
    assert [(result.step, result.ok) for result in runtime.results] == [
        (texts("workflow.steps.clarify"), True),
        (texts("workflow.steps.goal"), True),
        (work, True),
        (texts("workflow.steps.verdict", step=work) + "#1", True),
        (f"{work}#round2", True),
        (texts("workflow.steps.verdict", step=work) + "#2", True),
    ]
    assert runtime.ui_errors == []
    greeting = (tmp_path / "ws" / "greeting.txt").read_text(encoding="utf-8").splitlines()
    assert greeting == ["Moin", "Task: Build a weather page", "Words in the task: 4"]
    notes = tmp_path / "ws" / ".flower" / "notes"
    brief, goal, questions = (
        (notes / texts(f"workflow.files.{name}")).read_text(encoding="utf-8") for name in ("brief", "goal", "questions")
    )
    assert "The greeting is: Moin" in brief
    assert "Mind the rain" in brief
    sections = [*(f"brief.{key}" for key in ("goal", "accept", "bounds", "unknowns")), "brief.amendment"]
    assert headings(brief) == [texts(f"documents.{key}") for key in sections]
    assert headings(goal) == [texts("documents.goal.statement"), texts("documents.goal.checks")]
    assert texts("human.state.answered") in questions
    said = [event.text for event in events if event.kind == "text" and "Mind the rain" in event.text]
    assert any("greeting.txt is in the workspace" in text for text in said)
    assert any("achieved" in text for text in said)
