"""What the API says of a question that is answered on the side."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from flower_client.errors import BadReply
from flower_client.models import Json, as_object


@dataclass(frozen=True)
class OracleAnswer:
    """A question about a run and what came of it.

    ``state`` is thinking, answered, or failed, and then ``error`` says why. ``cost_usd`` is no part of the run's cost.
    """

    id: str
    question: str = ""
    state: str = "thinking"
    answer: str = ""
    cost_usd: float = 0.0
    error: str = ""
    raw: Json = field(default_factory=dict, repr=False, compare=False)

    @property
    def thinking(self) -> bool:
        """Whether the answer is still to come."""
        return self.state == "thinking"

    @classmethod
    def from_json(cls, data: Any) -> OracleAnswer:
        """Raises BadReply when it has no id, or no state: nobody would know when to stop asking."""
        data = as_object(data, "an answer")
        texts = {name: data.get(name) for name in ("id", "question", "state", "answer", "error")}
        known = {name: value for name, value in texts.items() if isinstance(value, str)}
        if not known.get("id") or not known.get("state"):
            raise BadReply("an answer without an id or a state")
        cost = data.get("cost_usd")
        return cls(**known, cost_usd=float(cost) if isinstance(cost, (int, float)) else 0.0, raw=data)
