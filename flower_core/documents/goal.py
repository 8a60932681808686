"""The goal: one statement, and the checks a judge will go through."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from typing import ClassVar, Self

from flower_core.documents.base import Document
from flower_core.documents.sections import catalogue, fold, is_placeholder, shared, split

_BULLET = re.compile(
    r"^\s*(?:[-*+](?=\s)|[•·‣▪●○–—]|\d{1,3}\\?[.)](?!\d)|\d{1,3}[．、）]|[(（]\d{1,3}[)）]|[①-⑳]|[一二三四五六七八九十]{1,3}、)\s*"
)
_CHECKBOX = re.compile(r"^\[[ xX✓✔]?\]\s+")
_NOT_A_CHECK = re.compile(r"^\s*(?:#{1,6}\s.*|(?:[-*_]\s*){3,})$")
_INDENTED = re.compile(r"^(?: {2,}|\t)")


@dataclass
class Goal(Document):
    """What counts as done: a statement, and checks that can each be verified on the spot."""

    statement: str = ""
    checks: list[str] = field(default_factory=list)
    lang: str = "zh"

    kind: ClassVar[str] = "goal"
    required: ClassVar[tuple[str, ...]] = ("statement", "checks")

    @classmethod
    def parse(cls, text: str, *, lang: str = "zh") -> Self:
        """Read a goal out of ``text``."""
        found = split(text, catalogue(cls.kind))
        return cls(found.get("statement", ""), items(found.get("checks", "")), lang)

    @property
    def unverifiable(self) -> list[str]:
        """The checks marked as not verifiable in this environment, in any language."""
        return [check for check in self.checks if _marked().search(fold(check))]

    def amend(self, extra: str) -> Self:
        """Append ``extra`` to the statement under a mark that says the goal was changed, and return the goal itself."""
        changed = self._say("goal.changed", extra=extra.strip())
        self.statement = f"{self.statement.rstrip()}\n\n{changed}".lstrip()
        return self

    def sections(self) -> dict[str, str]:
        """Statement and checks by key; the checks as a list, one a line."""
        return {"statement": self.statement, "checks": as_list(self.checks)}


def items(text: str) -> list[str]:
    """The entries of a list, one a line, without bullets, numbers and checkboxes.

    An indented line without a bullet goes on with the entry above it; sub-headings, rules and a line that only
    introduces the list are no entries.
    """
    lines = [line for line in text.split("\n") if line.strip() and not _NOT_A_CHECK.match(line)]
    bulleted = any(_BULLET.match(line) for line in lines)
    found: list[str] = []
    for line in lines:
        bare = _strip_bullets(line)
        is_bulleted = bare != line.strip()
        if bulleted and not is_bulleted and found and _INDENTED.match(line):
            found[-1] = f"{found[-1]} {bare}"
        elif _says_something(bare) and (is_bulleted or not bulleted or not bare.endswith((":", "："))):
            found.append(bare)
    return found


def as_list(entries: list[str]) -> str:
    """``entries`` as a Markdown list, each on one line."""
    return "\n".join(f"- {' '.join(entry.split())}" for entry in entries if entry.strip())


def _says_something(entry: str) -> bool:
    return any(map(str.isalnum, entry)) and not is_placeholder(entry)


def _strip_bullets(line: str) -> str:
    bare = _BULLET.sub("", line, count=1).strip()
    bare = _BULLET.sub("", bare, count=1).strip() if bare != line.strip() else bare
    return _CHECKBOX.sub("", bare, count=1) if bare != line.strip() or _CHECKBOX.match(bare) else bare


@cache
def _marked() -> re.Pattern[str]:
    words = "|".join(fold(word) for word in shared()["goal"]["unverifiable"])
    return re.compile(rf"[\[【(［]\s*(?:{words})\s*(?:[:：—-][^\]】)］]*)?[\]】)］]")
