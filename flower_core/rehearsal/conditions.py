"""The ``when`` of a reply: conditions over what has happened in the conversation."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from flower_core.rehearsal import checks
from flower_core.rehearsal.conversation import Conversation

_KEYS = ("turn", "request", "prompt", "prompts", "called", "after", "result", "values", "not")


@dataclass(frozen=True)
class When:
    """Conditions, all of which must hold; script.py lists what each means. Without any it always holds."""

    turn: frozenset[int] | None = None
    request: frozenset[int] | None = None
    prompt: re.Pattern[str] | None = None
    prompts: re.Pattern[str] | None = None
    called: Mapping[str, int] = field(default_factory=dict)
    after: frozenset[str] | None = None
    result: Mapping[str, re.Pattern[str]] = field(default_factory=dict)
    values: Mapping[str, re.Pattern[str]] = field(default_factory=dict)
    never: When | None = None

    @classmethod
    def parse(cls, data: Any, where: str, names: Collection[str]) -> When:
        """Read a ``when`` table; ``names`` are all placeholders. Raises PlayError, naming the key below ``where``."""
        table = checks.table(data, where, _KEYS)
        checks.table(table.get("values", {}), f"{where}.values", names)
        return cls(
            turn=_numbers(table.get("turn"), f"{where}.turn"),
            request=_numbers(table.get("request"), f"{where}.request"),
            prompt=_maybe_regex(table.get("prompt"), f"{where}.prompt"),
            prompts=_maybe_regex(table.get("prompts"), f"{where}.prompts"),
            called=_least(table.get("called", []), f"{where}.called"),
            after=frozenset(checks.names(table["after"], f"{where}.after")) if "after" in table else None,
            result=_regexes(table.get("result", {}), f"{where}.result"),
            values=_regexes(table.get("values", {}), f"{where}.values"),
            never=cls.parse(table["not"], f"{where}.not", names) if "not" in table else None,
        )

    def holds(self, talk: Conversation, request: int, values: Mapping[str, str]) -> bool:
        """True when every condition does; ``request`` counts this speaker's requests so far, from 0."""
        if not all(self._outcomes(talk, request, values)):
            return False
        return self.never is None or not any(self.never._outcomes(talk, request, values))

    def _outcomes(self, talk: Conversation, request: int, values: Mapping[str, str]) -> list[bool]:
        outcomes = [len(talk.recent(name)) >= least for name, least in self.called.items()]
        if self.turn is not None:
            outcomes.append(talk.turn in self.turn)
        if self.request is not None:
            outcomes.append(request in self.request)
        if self.prompt is not None:
            outcomes.append(bool(self.prompt.search(talk.prompt)))
        if self.prompts is not None:
            outcomes.append(any(self.prompts.search(text) for text in talk.prompts))
        if self.after is not None:
            outcomes.append(bool(recent := talk.recent()) and recent[-1].name in self.after)
        for name, pattern in self.result.items():
            calls = talk.recent(name)
            outcomes.append(bool(calls) and bool(pattern.search(calls[-1].result or "")))
        outcomes += [bool(pattern.search(values.get(name, ""))) for name, pattern in self.values.items()]
        return outcomes


def _numbers(value: Any, where: str) -> frozenset[int] | None:
    if value is None:
        return None
    if not isinstance(value, list):
        return frozenset({checks.whole(value, where)})
    return frozenset(checks.whole(item, f"{where}[{index}]") for index, item in enumerate(value))


def _least(value: Any, where: str) -> dict[str, int]:
    if isinstance(value, Mapping):
        return {name: checks.whole(least, f"{where}.{name}", 1) for name, least in checks.table(value, where).items()}
    return dict.fromkeys(checks.names(value, where), 1)


def _maybe_regex(value: Any, where: str) -> re.Pattern[str] | None:
    return None if value is None else checks.regex(value, where)


def _regexes(value: Any, where: str) -> dict[str, re.Pattern[str]]:
    return {name: checks.regex(item, f"{where}.{name}") for name, item in checks.table(value, where).items()}
