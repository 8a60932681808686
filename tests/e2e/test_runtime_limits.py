"""Limits of a step: how it fails when one is reached, and that nothing works on afterwards."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from flower_core import coordinator, worker
from tests.e2e.conftest import MakeStage
from tests.e2e.stage import LONG_COMMAND, QUICK, Screen, agent, play

pytestmark = pytest.mark.e2e
FOR_EVER = {"agent": [{"text": "Once more.", "tools": [["Bash", {"command": "pwd"}]]}]}
#: Far above what a stop takes, far below the minutes the agent program would keep the stream open.
SECONDS = 12.0


def test_max_turns_ends_the_step_and_says_what_to_do(staged: MakeStage) -> None:
    stage = staged(FOR_EVER)
    screen = Screen()
    result = play(stage.runtime().run(agent("Bash", max_turns=2), "Do it", on_event=screen))
    assert (result.ok, result.attempts, len(stage.requests)) == (False, 1, 2)
    assert result.error.startswith("max_turns reached")
    assert "Raise max_turns" in result.error
    assert screen.of("retry") == []


def test_a_session_that_reached_its_turns_can_be_resumed(staged: MakeStage) -> None:
    stage = staged(FOR_EVER)
    runtime = stage.runtime()
    first = play(runtime.run(agent("Bash", max_turns=1), "Do it"))
    second = play(runtime.run(agent("Bash", max_turns=1), "Again", resume=first.session_id))
    assert second.session_id == first.session_id
    assert [request.rejected for request in stage.requests if request.rejected] == []


def test_max_budget_usd_ends_the_step_in_seconds(staged: MakeStage) -> None:
    stage = staged(FOR_EVER)
    begun = time.monotonic()
    result = play(stage.runtime().run(agent("Bash", max_budget_usd=0.0001), "Do it"))
    assert (result.ok, result.attempts, len(stage.requests)) == (False, 1, 1)
    assert result.error.startswith("max_budget_usd reached")
    assert "Raise max_budget_usd" in result.error
    assert result.cost_usd > 0.0001
    assert time.monotonic() - begun < SECONDS
    assert stage.agent_processes() == []


def test_the_budget_also_stops_a_subagent_at_work(staged: MakeStage) -> None:
    """Two workers at once: one breaks the budget while the other is in the middle of a long command."""
    dispatch = {"subagent_type": "coder", "description": "Work"}
    stage = staged(
        {
            "coordinator": [
                {
                    "tools": [
                        ["Agent", {**dispatch, "prompt": "Run the long one."}],
                        ["Agent", {**dispatch, "prompt": "Be expensive."}],
                    ]
                }
            ],
            "worker/coder": [
                {"when": {"prompt": "long one"}, "tools": [["Bash", {"command": LONG_COMMAND}]]},
                {
                    "delay": 0,
                    "usage": {"input_tokens": 500_000},
                    "tools": [["Bash", {"command": "until test -e started.txt; do :; done; date >> spent.txt"}]],
                },
            ],
        }
    )
    hands = {"coder": worker("Codes.", "", tools=("Bash",))}
    spec = replace(coordinator("Lead", "", hands, lang="en", env=QUICK), max_budget_usd=1.0)
    begun = time.monotonic()
    result = play(stage.runtime().run(spec, "Do it"))
    assert result.error.startswith("max_budget_usd reached")
    assert time.monotonic() - begun < SECONDS
    assert stage.agent_processes() == []


def test_a_step_may_spend_its_budget_over_all_attempts_only_once(staged: MakeStage) -> None:
    """What the first attempt spent is missing in the second, though the agent program counts anew."""
    dear = {"usage": {"input_tokens": 60_000}}
    stage = staged(
        {
            "agent": [
                {"when": {"request": 0}, "tools": [["Bash", {"command": "pwd"}]], **dear},
                {"when": {"request": 1}, "error": "overloaded"},
                {"tools": [["Bash", {"command": "pwd"}]], **dear},
            ]
        }
    )
    screen = Screen()
    result = play(stage.runtime().run(agent("Bash", max_budget_usd=0.5), "Do it", on_event=screen))
    (failed, spent) = (event.payload["cost_usd"] for event in screen.of("result"))
    assert 0 < failed < 0.5
    assert result.error.startswith("max_budget_usd reached")
    assert failed + spent == pytest.approx(result.cost_usd, abs=1e-5)
    assert result.cost_usd < 0.5 + failed  # one reply over the limit at most, not a second budget


def test_the_budget_of_a_resumed_session_is_the_steps_own(staged: MakeStage) -> None:
    stage = staged({"agent": [{"text": "First.", "usage": {"input_tokens": 100_000}}, {"text": "Second."}]})
    runtime = stage.runtime()
    first = play(runtime.run(agent(), "Begin"))
    second = play(runtime.run(agent(max_budget_usd=first.cost_usd / 2), "Go on", resume=first.session_id))
    assert (second.ok, second.text) == (True, "Second.")
