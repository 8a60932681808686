"""The library half of flower: runs agents, asks people, judges the work. Knows no HTTP.

Everything a user of the library needs is here: ``from flower_core import Runtime, starter_flow``. What a flow
needs to be tested without a model is in :mod:`flower_core.rehearsal`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flower_core.agent import AgentSpec, CompactPolicy, HandoffPolicy, Worker
    from flower_core.aside import OracleAnswer, ask_oracle
    from flower_core.claude.hooks import merge_hooks
    from flower_core.claude.messages import normalize
    from flower_core.claude.options import build_options
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
    from flower_core.resilience import Resilience, classify, endpoint, reachable
    from flower_core.roles import clarify, coordinator, integrator, judge, oracle, worker
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
else:
    # Taken from their modules when first asked for (PEP 562). Every import of a module below comes by here, and the
    # agent SDK, which most of these need, takes longer to load than many a command of a server takes altogether.
    _MODULES = {
        "agent": ("AgentSpec", "CompactPolicy", "HandoffPolicy", "Worker"),
        "aside": ("OracleAnswer", "ask_oracle"),
        "claude.hooks": ("merge_hooks",),
        "claude.messages": ("normalize",),
        "claude.options": ("build_options",),
        "documents": ("Brief", "Goal", "Handoff", "Verdict"),
        "errors": ("AgentProgramMissing", "CredentialsMissing", "FlowerError", "StepAbort", "UnknownLanguage"),
        "events": ("EVENT_KINDS", "Event", "EventKind", "EventSink"),
        "human": ("Ask", "HumanChannel", "Mail"),
        "manifest": ("StepResult",),
        "resilience": ("Resilience", "classify", "endpoint", "reachable"),
        "roles": ("clarify", "coordinator", "integrator", "judge", "oracle", "worker"),
        "runtime": ("Runtime",),
        "sessions": ("SqliteSessionStore",),
        "shell": ("is_ephemeral",),
        "texts": ("LANGUAGES",),
        "workbench": ("Workbench",),
        "workflow": (
            "BRIEF_KEY",
            "GOAL_KEY",
            "MISSING_KEY",
            "ROUND_KEY",
            "VERDICT_KEY",
            "Step",
            "Workflow",
            "clarify_step",
            "goal_step",
            "starter_flow",
            "wake_state",
            "with_goal",
        ),
    }
    _HOME = {name: f"{__name__}.{module}" for module, names in _MODULES.items() for name in names}

    def __getattr__(name: str) -> object:
        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_HOME[name]), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})


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
    "HandoffPolicy",
    "HumanChannel",
    "Mail",
    "OracleAnswer",
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
    "ask_oracle",
    "build_options",
    "clarify",
    "clarify_step",
    "classify",
    "coordinator",
    "endpoint",
    "goal_step",
    "integrator",
    "is_ephemeral",
    "judge",
    "merge_hooks",
    "normalize",
    "oracle",
    "reachable",
    "starter_flow",
    "wake_state",
    "with_goal",
    "worker",
]
