"""A step that simply works: what it returns, what it writes down, how a session goes on."""

from __future__ import annotations

import time
from typing import Any

import pytest
from claude_agent_sdk import project_key_for_directory

from flower_core import StepResult, coordinator, worker
from flower_core.manifest import Manifest
from flower_core.sessions import SqliteSessionStore
from tests.e2e.conftest import MakeStage
from tests.e2e.stage import QUICK, Screen, Stage, agent, play

pytestmark = pytest.mark.e2e
TWO_TURNS = [{"text": "I look.", "tools": [["Bash", {"command": "echo six times seven"}]]}, {"text": "It says so."}]


def store_of(stage: Stage) -> Manifest:
    return Manifest(stage.home / "books" / "manifest.json", "")


def test_a_step_returns_its_words_cost_turns_and_session(staged: MakeStage) -> None:
    stage = staged({"agent": TWO_TURNS})
    runtime, screen, before = stage.runtime(), Screen(), time.time()
    result = play(runtime.run(agent("Bash"), "Look", step_name="looking", on_event=screen))
    assert (result.ok, result.error, result.errors, result.attempts) == (True, "", [], 1)
    assert (result.step, result.text, result.num_turns) == ("looking", "I look.\n\nIt says so.", 2)
    assert result.cost_usd > 0
    assert result.context > 0
    assert before <= result.started_at < result.ended_at
    assert runtime.has_session(result.session_id)
    assert runtime.results == [result]
    assert runtime.total_cost() == result.cost_usd
    assert runtime.context_of(result.session_id) == result.context
    assert runtime.ui_errors == []


def test_events_come_in_the_order_things_happen(staged: MakeStage) -> None:
    stage = staged({"agent": TWO_TURNS})
    screen = Screen()
    result = play(stage.runtime().run(agent("Bash"), "Look", on_event=screen))
    assert screen.kinds() == ["prompt", "system", "text", "tool_call", "tool_result", "text", "result"]
    prompt, begun, words, call, shown, _, end = screen.events
    assert (prompt.text, begun.text, words.text) == ("Look", "init", "I look.")
    assert (call.tool, call.text, call.payload["input"]) == (
        "Bash",
        "echo six times seven",
        {"command": "echo six times seven"},
    )
    assert (shown.text, shown.payload["tool_use_id"]) == ("six times seven", call.payload["id"])
    assert end.payload["session_id"] == result.session_id
    assert end.payload["cost_usd"] == pytest.approx(result.cost_usd, abs=1e-6)


def test_the_row_in_the_manifest_is_the_result(staged: MakeStage) -> None:
    stage = staged({"agent": TWO_TURNS})
    runtime = stage.runtime(run_id="run-1")
    result = play(runtime.run(agent("Bash"), "Look", step_name="looking"))
    (row,) = store_of(stage).rows("run-1")
    assert row["step"] == "looking"
    assert {key: row[key] for key in vars(result)} == vars(result)
    assert row["duration_s"] == result.duration_s > 0


def test_the_session_is_told_as_soon_as_it_is_known(staged: MakeStage) -> None:
    stage = staged({"agent": TWO_TURNS})
    runtime, heard = stage.runtime(), list[Any]()
    runtime.on_session = lambda step, session_id: heard.append((step, session_id, len(stage.requests)))
    result = play(runtime.run(agent("Bash"), "Look", step_name="looking"))
    assert heard == [("looking", result.session_id, 0)]


def test_a_listener_that_raises_does_not_end_the_step(staged: MakeStage) -> None:
    stage = staged({"agent": TWO_TURNS})
    runtime = stage.runtime()

    def broken(step: str, _session_id: str) -> None:
        raise OSError(f"no room for {step}")

    runtime.on_session = broken
    assert play(runtime.run(agent("Bash"), "Look", step_name="looking")).ok
    assert runtime.ui_errors == ["OSError: no room for looking"]


def test_a_sink_that_raises_goes_into_ui_errors_once(staged: MakeStage) -> None:
    stage = staged({"agent": TWO_TURNS})
    runtime = stage.runtime()

    def broken(_event: object) -> None:
        raise RuntimeError("the screen is gone")

    assert play(runtime.run(agent("Bash"), "Look", on_event=broken)).ok
    assert runtime.ui_errors == ["RuntimeError: the screen is gone"]


def test_words_of_a_subagent_are_shown_but_are_not_the_result(staged: MakeStage) -> None:
    stage = staged(
        {
            "coordinator": [
                {"text": "Off it goes.", "tools": [["Agent", _dispatch("Count to three.")]]},
                {"text": "The coder is back."},
            ],
            "worker/coder": [{"text": "One, two, three."}],
        }
    )
    spec = coordinator("Lead", "", {"coder": worker("Counts.", "", tools=("Bash",))}, lang="en", env=QUICK)
    screen = Screen()
    result = play(stage.runtime().run(spec, "Have it counted", on_event=screen))
    assert result.text == "Off it goes.\n\nThe coder is back."
    (call,) = screen.of("tool_call")
    (dispatched,) = [event for event in screen.of("prompt") if event.payload.get("subagent")]
    (spoken,) = [event for event in screen.of("text") if event.payload.get("subagent")]
    assert (dispatched.text, spoken.text) == ("Count to three.", "One, two, three.")
    assert spoken.payload["parent_tool_use_id"] == dispatched.payload["parent_tool_use_id"] == call.payload["id"]
    assert result.context == [event for event in screen.of("text") if "context" in event.payload][-1].payload["context"]


def test_resuming_goes_on_in_the_same_session_and_costs_only_what_is_new(staged: MakeStage) -> None:
    stage = staged({"agent": [{"text": "First."}, {"text": "Second."}]})
    first = play(stage.runtime().run(agent(), "Begin"))
    second = play(stage.runtime().run(agent(), "Go on", resume=first.session_id))
    assert (second.session_id, second.text, second.resumed) == (first.session_id, "Second.", True)
    assert stage.requests[-1].talk.prompts == ["Begin", "Go on"]
    assert 0 < second.cost_usd < 2 * first.cost_usd
    assert [row["resumed"] for row in store_of(stage).rows()] == [False, True]


@pytest.mark.parametrize("fork", [False, True])
def test_what_a_session_had_cost_before_is_not_charged_again(staged: MakeStage, fork: bool) -> None:
    stage = staged({"agent": [{"text": "First."}, {"text": "Second."}]})
    runtime = stage.runtime()
    first = play(runtime.run(agent(), "Begin"))
    play(say_it_cost(stage, first, 5.0))
    screen = Screen()
    second = play(stage.runtime().run(agent(), "Go on", resume=first.session_id, fork=fork, on_event=screen))
    assert second.ok
    assert screen.events[-1].raw.total_cost_usd > 5.0
    assert second.cost_usd < 0.1


async def say_it_cost(stage: Stage, result: StepResult, dollars: float) -> None:
    """Write into the transcript what the agent program writes there as it ends, when it is in time."""
    store = SqliteSessionStore(stage.home / "books" / "sessions.db")
    (key,) = [found for found in await _keys(store, stage) if found["session_id"] == result.session_id]
    usage = {"inputTokens": 1, "outputTokens": 1, "costUSD": dollars, "cacheReadInputTokens": 0}
    entry = {
        "type": "cost-state",
        "sessionId": result.session_id,
        "totalCostUSD": dollars,
        "totalAPIDuration": 1,
        "totalAPIDurationWithoutRetries": 1,
        "totalToolDuration": 1,
        "totalLinesAdded": 0,
        "totalLinesRemoved": 0,
        "totalDuration": 1,
        "startTime": 1,
        "modelUsage": {"claude-opus-5-5": {**usage, "cacheCreationInputTokens": 0, "webSearchRequests": 0}},
        "hasUnknownModelCost": False,
    }
    await store.append(key, [entry])
    store.close()


async def _keys(store: SqliteSessionStore, stage: Stage) -> list[dict[str, str]]:
    project = project_key_for_directory(stage.workspace)
    return [{"project_key": project, **found} for found in await store.list_sessions(project)]


def test_a_fork_has_an_id_of_its_own_and_leaves_the_first_session_as_it_was(staged: MakeStage) -> None:
    stage = staged({"agent": [{"text": "First."}, {"text": "Second."}]})
    runtime = stage.runtime()
    first = play(runtime.run(agent(), "Begin"))
    fork = play(runtime.run(agent(), "Elsewhere", resume=first.session_id, fork=True))
    again = play(runtime.run(agent(), "Here", resume=first.session_id))
    assert fork.session_id != first.session_id == again.session_id
    assert [request.talk.prompts for request in stage.requests[1:]] == [["Begin", "Elsewhere"], ["Begin", "Here"]]
    assert runtime.has_session(fork.session_id)


@pytest.mark.parametrize("more", [{"fork": True}, {"resume_at": "6e0a2f4c-0000-4000-8000-000000000000"}])
def test_fork_and_resume_at_without_resume_are_refused_before_anything_happens(
    staged: MakeStage, more: dict[str, Any]
) -> None:
    stage = staged({"agent": TWO_TURNS})
    runtime, screen = stage.runtime(), Screen()
    with pytest.raises(ValueError, match="name it with resume"):
        play(runtime.run(agent(), "Look", on_event=screen, **more))
    assert (runtime.results, screen.events, stage.requests, store_of(stage).rows()) == ([], [], [], [])


def test_a_session_that_is_not_there_fails_at_once_and_says_so(staged: MakeStage) -> None:
    stage = staged({"agent": TWO_TURNS})
    missing = "6e0a2f4c-0000-4000-8000-000000000000"
    result = play(stage.runtime().run(agent(), "Look", resume=missing))
    assert (result.ok, result.attempts) == (False, 1)
    assert "No conversation found" in result.error
    assert stage.requests == []


def _dispatch(prompt: str) -> dict[str, str]:
    return {"subagent_type": "coder", "description": "A small job", "prompt": prompt}
