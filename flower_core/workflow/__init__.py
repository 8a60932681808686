"""Chains of steps: what is asked, agreed, done and judged, in that order."""

from flower_core.workflow.clarify import BRIEF_KEY, MISSING_KEY, clarify_step
from flower_core.workflow.goal import GOAL_KEY, goal_step
from flower_core.workflow.judge import ROUND_KEY, VERDICT_KEY, with_goal
from flower_core.workflow.starter import starter_flow
from flower_core.workflow.step import Context, Runner, Step
from flower_core.workflow.wake import WakeState, wake_state
from flower_core.workflow.workflow import Workflow

__all__ = [
    "BRIEF_KEY",
    "GOAL_KEY",
    "MISSING_KEY",
    "ROUND_KEY",
    "VERDICT_KEY",
    "Context",
    "Runner",
    "Step",
    "WakeState",
    "Workflow",
    "clarify_step",
    "goal_step",
    "starter_flow",
    "wake_state",
    "with_goal",
]
