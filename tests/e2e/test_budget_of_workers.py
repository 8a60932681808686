"""A budget bounds what workers spend: they are cut within one request of the limit, each."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from flower_core import coordinator, worker
from tests.e2e.conftest import MakeStage
from tests.e2e.stage import QUICK, agent, play

pytestmark = pytest.mark.e2e
DISPATCH = {"subagent_type": "coder", "description": "Work", "prompt": "Loop."}
#: Every reply of the model costs the same.
USAGE = {"input_tokens": 1000, "output_tokens": 1000}
LIMIT_USD = 0.3


@pytest.mark.parametrize("workers", [1, 3])
def test_workers_that_never_stop_are_cut_within_one_request_each(staged: MakeStage, workers: int) -> None:
    lead = {"usage": USAGE, "tools": [["Agent", DISPATCH]] * workers}
    # A reply takes longer than a stop does, as a model's always does.
    loop = {"usage": USAGE, "delay": 0.4, "tools": [["Bash", {"command": "date >> spent.txt"}]]}
    stage = staged({"coordinator": [lead], "worker/coder": [loop], "agent": [{"text": "Priced.", "usage": USAGE}]})
    price = play(stage.runtime().run(agent(), "What does one cost?")).cost_usd
    asked = len(stage.requests)

    hands = {"coder": worker("Codes.", "", tools=("Bash",))}
    spec = replace(coordinator("Lead", "", hands, lang="en", env=QUICK), max_budget_usd=LIMIT_USD)
    result = play(stage.runtime().run(spec, "Do it"))
    assert result.error.startswith("max_budget_usd reached")
    assert stage.agent_processes() == []
    assert LIMIT_USD < result.cost_usd <= LIMIT_USD + workers * price
    within = math.ceil(LIMIT_USD / price)
    assert within > 2 * workers, "the limit lies well beyond their first requests"
    # What was on its way when the limit was struck may be billed, though nobody was told what it cost.
    assert within <= len(stage.requests) - asked <= within + workers
