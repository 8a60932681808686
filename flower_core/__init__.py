"""The library half of flower: runs agents, asks people, judges the work. Knows no HTTP.

Everything a user of the library needs is here: ``from flower_core import Runtime, starter_flow``. What a flow
needs to be tested without a model is in :mod:`flower_core.rehearsal`.
"""

from flower_core.agent import AgentSpec, CompactPolicy, Worker
from flower_core.claude.hooks import merge_hooks
from flower_core.claude.messages import normalize
from flower_core.documents import Brief, Goal, Handoff, Verdict
from flower_core.errors import (
    AgentProgramMissing,
    CredentialsMissing,
    FlowerError,
    StepAbort,
    UnknownLanguage,
)
from flower_core.events import EVENT_KINDS, Event, EventKind, EventSink
from flower_core.human import Ask, HumanChannel, Mail
from flower_core.manifest import StepResult
from flower_core.resilience import Resilience
from flower_core.roles import clarify, coordinator, judge, oracle, worker
from flower_core.runtime import Runtime
from flower_core.sessions import SqliteSessionStore
from flower_core.shell import is_ephemeral
from flower_core.texts import LANGUAGES
from flower_core.workbench import Workbench
from flower_core.workflow import (
    BRIEF_KEY,
    GOAL_KEY,
    MISSING_KEY,
    ROUND_KEY,
    VERDICT_KEY,
    Step,
    Workflow,
    clarify_step,
    goal_step,
    starter_flow,
    wake_state,
    with_goal,
)

__version__ = "0.1.0"
__all__ = [
    "BRIEF_KEY",
    "EVENT_KINDS",
    "GOAL_KEY",
    "LANGUAGES",
    "MISSING_KEY",
    "ROUND_KEY",
    "VERDICT_KEY",
    "AgentProgramMissing",
    "AgentSpec",
    "Ask",
    "Brief",
    "CompactPolicy",
    "CredentialsMissing",
    "Event",
    "EventKind",
    "EventSink",
    "FlowerError",
    "Goal",
    "Handoff",
    "HumanChannel",
    "Mail",
    "Resilience",
    "Runtime",
    "SqliteSessionStore",
    "Step",
    "StepAbort",
    "StepResult",
    "UnknownLanguage",
    "Verdict",
    "Workbench",
    "Worker",
    "Workflow",
    "clarify",
    "clarify_step",
    "coordinator",
    "goal_step",
    "is_ephemeral",
    "judge",
    "merge_hooks",
    "normalize",
    "oracle",
    "starter_flow",
    "wake_state",
    "with_goal",
    "worker",
]
