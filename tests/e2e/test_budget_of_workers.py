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
    stage = staged({"agent": [{"text": "Priced.", "usage": USAGE}]})
    price = play(stage.runtime().run(agent(), "What does one cost?")).cost_usd
    asked, within = len(stage.requests), math.ceil(LIMIT_USD / price)
    assert within > 2 * workers, "the limit lies well beyond their first requests"
    lead = {"usage": USAGE, "tools": [["Agent", DISPATCH]] * workers}
    loop = {"usage": USAGE, "tools": [["Bash", {"command": "date >> spent.txt"}]]}
    stage.server.app.pace = 1
    # Beyond the limit no reply comes in time: that the step ends shows that none of them is waited for.
    before = {"when": {"request": list(range(within - 1))}, **loop}
    stage.replay({"coordinator": [lead], "worker/coder": [before, {**loop, "delay": 60}]})

    hands = {"coder": worker("Codes.", "", tools=("Bash",))}
    spec = replace(coordinator("Lead", "", hands, lang="en", env=QUICK), max_budget_usd=LIMIT_USD)
    result = play(stage.runtime().run(spec, "Do it"))
    assert result.error.startswith("max_budget_usd reached")
    assert stage.agent_processes() == []
    assert LIMIT_USD < result.cost_usd <= LIMIT_USD + workers * price
    # What was on its way when the limit was struck may be billed, though nobody was told what it cost.
    assert within <= len(stage.requests) - asked <= within + workers
