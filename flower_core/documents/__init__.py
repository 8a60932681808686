"""The documents a run lives on: brief, goal, verdict and handoff."""

from flower_core.documents.brief import Brief, append_amendment
from flower_core.documents.goal import Goal
from flower_core.documents.handoff import Handoff, frozen_handoffs
from flower_core.documents.verdict import Verdict

__all__ = ["Brief", "Goal", "Handoff", "Verdict", "append_amendment", "frozen_handoffs"]
