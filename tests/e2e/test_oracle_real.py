"""The oracle with the real agent program: it answers from what it sees, and leaves no trace in the run."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import flower_core
from flower_core import Event, OracleAnswer, Workbench, ask_oracle, roles
from tests.e2e.conftest import MakeStage
from tests.e2e.stage import LONG_COMMAND, Screen, Stage, agent
from tests.support import eventually

ANSWERS = {
    "oracle": [
        {
            "tools": [
                ["Grep", {"pattern": "oven", "path": "{workspace}/plan.txt", "output_mode": "content"}],
                ["Read", {"file_path": "{workspace}/plan.txt"}],
            ],
            "when": {"not": {"called": "Read"}},
        },
        {"text": "It works by the plan: {result}"},
    ]
}


def ask(stage: Stage, question: str = "How far is it?", **more: Any) -> OracleAnswer:
    given = {"workspace": stage.workspace, "run_dir": stage.home / "books", "lang": "en", "environ": stage.environ()}
    return asyncio.run(ask_oracle(question, **{**given, **more}))


def shown(stage: Stage) -> str:
    """What the oracle was asked with."""
    return json.dumps(stage.requests[0].body["messages"][0], ensure_ascii=False)


def files(folder: Path) -> dict[str, bytes]:
    """Every file below ``folder`` with what is in it."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_it_answers_from_files_and_writes_nothing_where_the_run_is(staged: MakeStage) -> None:
    stage = staged(ANSWERS)
    bench = Workbench(stage.workspace, lang="en").ensure()
    (stage.workspace / "plan.txt").write_text(
        "first the oven\n" * 1000
    )  # what is found of it is long enough for a worker's to be put away
    before = files(stage.workspace)
    answer = ask(stage, workbench=bench)
    assert (answer.ok, answer.error) == (True, "")
    assert "first the oven" in answer.text
    assert answer.cost_usd > 0
    assert files(stage.workspace) == before
    assert [path.name for path in (stage.home / "books").iterdir()] == ["aside"]
    assert not any((stage.home / "books" / "aside" / "config").iterdir())


def test_it_is_shown_the_workbench_and_the_last_sixty_events_without_noise_or_credentials(staged: MakeStage) -> None:
    stage = staged({"oracle": [{"text": "Well."}]})
    secret = "sk-ant-a-credential-of-this-process"
    events = [
        Event("text", "the very first word"),
        *(Event("text", f"word {number}") for number in range(57)),
        *(Event(kind, "noise") for kind in ("task", "unknown", "system") for _ in range(30)),
        Event("tool_call", "pytest -q", "Bash", {"subagent": True}),
        Event("tool_result", f"KEY={secret} " + "x" * 5000, payload={"is_error": True}),
        Event("ask", "Which flour?", payload={"state": "answered", "answer": "spelt"}),
    ]
    bench = Workbench(stage.workspace, lang="en").ensure()
    (bench.notes / "brief.md").write_text("bread")
    answer = ask(stage, "Why 它 {so}?", events=events, workbench=bench, environ=stage.environ(ANTHROPIC_API_KEY=secret))
    assert answer.text == "Well."
    prompt = shown(stage)
    assert "Why 它 {so}?" in prompt
    assert "- tool_call (subagent): [Bash] pytest -q" in prompt
    assert "- ask: Which flour? state: answered · answer: spelt" in prompt
    assert "word 0" in prompt
    assert "word 56" in prompt
    assert "first word" not in prompt  # the sixty-first from the end
    assert "noise" not in prompt
    assert secret not in prompt
    assert "KEY=[…]" in prompt
    assert "x" * 401 not in prompt
    assert ".flower/notes/brief.md" in json.dumps(stage.requests[0].body["system"])


def test_it_is_asked_while_the_run_works_and_the_run_never_hears_of_it(staged: MakeStage) -> None:
    stage = staged({"agent": [{"tools": [["Bash", {"command": LONG_COMMAND}]]}, {"text": "Done."}], **ANSWERS})
    runtime, screen = stage.runtime(workbench=True), Screen()

    async def scene() -> OracleAnswer:
        work = asyncio.create_task(runtime.run(agent("Bash"), "work", step_name="Work", on_event=screen))
        await screen.shows("tool_call", "Bash")
        seen = list(screen.events)
        answer = await ask_oracle(
            "What is it doing?",
            workspace=stage.workspace,
            run_dir=runtime.run_dir,
            workbench=runtime.workbench,
            events=seen,
            lang="en",
            environ=stage.environ(),
        )
        assert not work.done()
        assert runtime.total_cost() == 0
        runtime.interrupt("enough")
        assert (await work).ok
        return answer

    assert asyncio.run(scene()).ok
    steps = json.loads((runtime.run_dir / "manifest.json").read_text())
    assert "oracle" not in json.dumps(steps)
    assert len(runtime.results) == 1
    said = json.dumps([request.body["messages"] for request in stage.requests if request.speaker == "agent"])
    assert "What is it doing?" not in said
    assert "It works by the plan" not in "".join(event.text for event in screen.events)


def test_a_question_that_comes_to_nothing_says_why(staged: MakeStage) -> None:
    stage = staged({"oracle": [{"error": "credit"}]})
    answer = ask(stage)
    assert not answer.ok
    assert "Credit balance is too low" in answer.error


def test_it_stops_at_its_budget(staged: MakeStage) -> None:
    usage = {"input_tokens": 100_000, "output_tokens": 60_000}
    stage = staged({"oracle": [{"tools": [["Glob", {"pattern": "*"}]], "usage": usage}]})
    answer = ask(stage)
    assert not answer.ok
    assert answer.cost_usd >= 0.5
    assert len(stage.requests) <= 3


def test_the_role_and_the_question_can_both_be_had_by_name() -> None:
    # A module of the package that is called as one of its names would take that name's place.
    assert flower_core.ask_oracle is ask_oracle
    assert flower_core.oracle is roles.oracle


def test_an_empty_question_is_refused(staged: MakeStage) -> None:
    stage = staged(ANSWERS)
    with pytest.raises(ValueError, match="empty"):
        ask(stage, " \n")
    assert stage.requests == []


def test_who_gives_up_waiting_leaves_no_agent_program(staged: MakeStage) -> None:
    stage = staged({"oracle": [{"text": "Never.", "hang": "for ever"}]})

    async def scene() -> None:
        task = asyncio.create_task(
            ask_oracle(
                "Well?", workspace=stage.workspace, run_dir=stage.home / "books", lang="en", environ=stage.environ()
            )
        )
        await asyncio.to_thread(eventually, lambda: stage.requests, 20)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scene())
    eventually(lambda: not stage.agent_processes(), 10)
    stage.server.app.release("for ever")
    assert not any((stage.home / "books" / "aside" / "config").iterdir())
