"""What a typed line means as the answer to a question, and which questions wait."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from flower_client.models import Ask, Event


@dataclass(frozen=True)
class Choice:
    """An answer: exactly one of ``option`` (counted from 1) and ``text``, or neither, which declines."""

    option: int | None = None
    text: str | None = None

    @property
    def declines(self) -> bool:
        """Whether the question is to be skipped."""
        return self.option is None and self.text is None


DECLINE = Choice()


def interpret(ask: Ask, line: str) -> Choice | str:
    """What ``line`` answers to ``ask``: a number picks an option, text answers, an empty line skips.

    A number that is no option's is a slip rather than an answer, so what comes back is a string that says so; unless
    these are an option's very words. Digits count in any width, as input methods give them.
    """
    words = line.strip()
    if not words:
        return DECLINE
    digits = unicodedata.normalize("NFKC", words)
    if ask.options and re.fullmatch(r"[0-9]{1,6}", digits):
        number = int(digits)
        if 1 <= number <= len(ask.options):
            return Choice(option=number)
        if words in ask.options:
            return Choice(text=words)
        return f"there is no option {number}; give 1 to {len(ask.options)}, or an answer in words"
    return Choice(text=words)


def first_option(ask: Ask) -> Choice:
    """The first option; a question without options is declined, so that the agent decides itself."""
    return Choice(option=1) if ask.options else DECLINE


class Questions:
    """The questions that wait, oldest first, as far as events and replies have told."""

    def __init__(self) -> None:
        self._waiting: dict[str, Ask] = {}
        self._settled: dict[str, Ask | None] = {}

    def see(self, event: Event) -> None:
        """Take in an event; only those about questions matter."""
        ask = Ask.from_event(event)
        if ask is None:
            return
        if not ask.waiting:
            self.settle(ask.id, ask)
        elif ask.id not in self._settled:
            self._waiting.setdefault(ask.id, ask)

    def settle(self, ask_id: str, settled: Ask | None = None) -> None:
        """The question waits no longer, and never will again: ids do not repeat. ``settled`` is how it ended."""
        self._settled[ask_id] = settled or self._settled.get(ask_id)
        self._waiting.pop(ask_id, None)

    def settled(self, ask_id: str) -> Ask | None:
        """The question as it was settled; None when it waits, or nobody has said how it ended."""
        return self._settled.get(ask_id)

    def set_waiting(self, asks: Iterable[Ask]) -> None:
        """What the server says waits right now."""
        self._waiting = {ask.id: ask for ask in asks if ask.waiting and ask.id not in self._settled}

    def get(self, ask_id: str) -> Ask | None:
        """The question when it waits."""
        return self._waiting.get(ask_id)

    def waiting(self) -> list[Ask]:
        """Those that wait, oldest first."""
        return list(self._waiting.values())
