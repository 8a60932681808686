"""The handoff: what one session leaves to the next when its context is full."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from flower_core.documents.base import Document
from flower_core.documents.sections import catalogue, split

# A comment, so that the mark reads the same in every language and shows in none.
_DEGRADED = "<!-- flower: degraded handoff -->"


@dataclass
class Handoff(Document):
    """What is being done, what is settled, what does not work, what comes next, and the state of things.

    ``doing`` and ``next`` are required. ``degraded`` says that nobody wrote it: it was assembled from what is known.
    """

    doing: str = ""
    decided: str = ""
    deadends: str = ""
    next: str = ""
    scene: str = ""
    degraded: bool = False
    lang: str = "zh"

    kind: ClassVar[str] = "handoff"
    required: ClassVar[tuple[str, ...]] = ("doing", "next")

    @classmethod
    def parse(cls, text: str, *, lang: str = "zh") -> Self:
        """Read a handoff out of ``text``."""
        degraded = text.lstrip().startswith(_DEGRADED)
        return cls(**split(text, catalogue(cls.kind)), degraded=degraded, lang=lang)

    def sections(self) -> dict[str, str]:
        """The five sections by key, in order."""
        return {key: getattr(self, key) for key in ("doing", "decided", "deadends", "next", "scene")}

    def to_markdown(self) -> str:
        """The five sections, behind a mark and a warning when degraded."""
        warning = f"{_DEGRADED}\n\n> {self._say('handoff.degraded')}\n\n" if self.degraded else ""
        return warning + super().to_markdown()

    def prompt_block(self) -> str:
        """The filled sections, behind a warning when degraded."""
        warning = f"{self._say('handoff.degraded')}\n\n" if self.degraded else ""
        return warning + super().prompt_block()
