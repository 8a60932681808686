"""What an agent is told about a question that has been settled."""

from __future__ import annotations

from flower_core.human_records import Ask
from flower_core.texts import Texts


class Replies:
    """The words for every outcome: a person's own, or what to do without an answer.

    ``over_budget``, ``timeout`` and ``declined`` replace the text for that outcome; None takes the one of ``texts``.
    """

    def __init__(self, texts: Texts, *, over_budget: str | None, timeout: str | None, declined: str | None) -> None:
        self._texts = texts
        self._fallbacks: dict[str, str] = {
            "over_budget": texts("human.over_budget") if over_budget is None else over_budget,
            "timeout": texts("human.timeout") if timeout is None else timeout,
            "declined": texts("human.declined") if declined is None else declined,
            "invalid": texts("human.invalid"),
        }

    def to(self, ask: Ask) -> str:
        """The answer word for word, or what to do without one."""
        if ask.state == "answered":
            return ask.answer if ask.answer.strip() else self._texts("human.empty_answer")
        text = self._fallbacks[ask.state]
        if ask.state == "declined" and ask.answer.strip():
            return self._texts("human.declined_reason", declined=text, reason=ask.answer)
        return text
