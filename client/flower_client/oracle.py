"""What the API says of a question that is answered on the side."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from flower_client.errors import BadReply
from flower_client.fields import Json, as_object, number_of, text_of


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
        if not text_of(data, "id") or not text_of(data, "state"):
            raise BadReply("an answer without an id or a state")
        texts = {name: text_of(data, name) for name in ("id", "question", "state", "answer", "error")}
        return cls(**texts, cost_usd=number_of(data, "cost_usd"), raw=data)
