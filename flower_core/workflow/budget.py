"""A spending limit over everything one workflow run does, judges and repeated attempts included.

The agent program's own limit holds for one process only, so three rounds under it may cost three times as much.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from flower_core.agent import AgentSpec
from flower_core.workflow.step import Context, Runner

BUDGET_KEY = "_budget"


@dataclass(frozen=True)
class Budget:
    """``limit`` US dollars for ``runner`` from here on; ``already`` is what it had spent before."""

    limit: float
    runner: Runner
    already: float

    @property
    def left(self) -> float:
        """US dollars still to be spent; 0 or less when used up."""
        return self.limit - (self.runner.total_cost() - self.already)


def open_budget(limit: float | None, runner: Runner) -> Budget | None:
    """A budget of ``limit`` US dollars that starts now; None means no limit."""
    return None if limit is None else Budget(limit, runner, runner.total_cost())


def capped(spec: AgentSpec, ctx: Context) -> AgentSpec | None:
    """``spec`` allowed to spend no more than the run has left; None when nothing is left."""
    budget: Budget | None = ctx.get(BUDGET_KEY)
    if budget is None:
        return spec
    if budget.left <= 0:
        return None
    own = spec.max_budget_usd
    return replace(spec, max_budget_usd=budget.left if own is None else min(own, budget.left))
