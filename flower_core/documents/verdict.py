"""The verdict: whether the goal is achieved, as an independent judge put it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Self

from flower_core.documents.base import Document
from flower_core.documents.conclusion import State, read_conclusion
from flower_core.documents.goal import as_list, items
from flower_core.documents.sections import catalogue, name_of, preamble, shared, split


@dataclass
class Verdict(Document):
    """A conclusion, its reason, and the checks that did not pass.

    ``state`` is "" when no clear conclusion was found; that is never ``ok``, and the reason then says so.
    """

    state: State = ""
    reason: str = ""
    failed: list[str] = field(default_factory=list)
    lang: str = "zh"

    kind: ClassVar[str] = "verdict"
    required: ClassVar[tuple[str, ...]] = ("state",)

    @classmethod
    def parse(cls, text: str, *, lang: str = "zh") -> Self:
        """Read a verdict out of ``text``. What is ambiguous or contradicts itself is never ``achieved``."""
        names = catalogue(cls.kind)
        found = split(text, names)
        # Without a conclusion section only what stands before the others is one: a reason may name any state.
        reading = read_conclusion(found.get("state") or preamble(text, names))
        verdict = cls(reading.state, found.get("reason", ""), _failed(found.get("failed", "")), lang)
        doubt = reading.doubt
        if verdict.state == "achieved" and verdict.failed:
            verdict.state, doubt = "", "contradictory"
        if doubt:
            verdict.reason = f"{verdict._say(f'verdict.{doubt}')}\n{verdict.reason}".strip()
        return verdict

    @property
    def ok(self) -> bool:
        """Whether the goal is achieved, beyond doubt."""
        return self.state == "achieved"

    def sections(self) -> dict[str, str]:
        """State, reason and failed checks by key, in words of the document's language."""
        state = self._say(f"verdict.{self.state}") if self.state else ""
        return {"state": state, "reason": self.reason, "failed": as_list(self.failed) or self._say("verdict.nothing")}

    def feedback(self) -> str:
        """What the worker is told after a rejection: what is missing, never how to mend it."""
        blocks = [self._say("verdict.feedback", state=self._say(f"verdict.{self.state or 'not_yet'}"))]
        if self.failed:
            blocks.append(f"{self._say('verdict.feedback_failed')}\n{as_list(self.failed)}")
        reason = self.reason.strip() or ("" if self.state else self._say("verdict.unclear"))
        if reason:
            blocks.append(f"{self._say('verdict.feedback_reason')}\n{reason}")
        return "\n\n".join(blocks)


def _failed(text: str) -> list[str]:
    """The failed checks, without lines that only say that there are none."""
    return [item for item in items(text) if not _says_nothing(item)]


def _says_nothing(item: str) -> bool:
    nothing = {name_of(word) for word in shared()["nothing"]}
    item = item.strip().strip("()（）[]【】")
    first = name_of(item)
    for separator in ("—", "–", " - ", ",", "，", ";", "；", ":", "：", ".", "。", "(", "（"):
        first = min(first, name_of(item.split(separator, 1)[0]), key=len)
    return name_of(item) in nothing or first in nothing
