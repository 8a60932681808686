"""The handoff: what one session leaves to the next when its context is full.

The newest of a step is ``notes/handoff-<step>.md``. When the step hands over again, the one before moves to
``notes/archive/handoff-<step>-<n>.md``, n counting from 1.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

from flower_core.documents.base import Document
from flower_core.documents.sections import catalogue, split
from flower_core.rights import acting_for

# A comment, so that the mark reads the same in every language and shows in none.
_DEGRADED = "<!-- flower: degraded handoff -->"
_ARCHIVE = "archive"
# What a file name takes of a step's name. Characters, of up to four bytes each; file systems stop at 255 bytes.
_NOT_IN_NAMES = re.compile(r"[^\w#·.-]+")
_NAME_CHARS = 50


@dataclass
class Handoff(Document):
    """What is being done, what is settled, what does not work, what comes next, and the state of things.

    ``doing``, ``next`` and ``scene`` are required. ``degraded`` says that nobody wrote it: it was assembled from what
    is known.
    """

    doing: str = ""
    decided: str = ""
    deadends: str = ""
    next: str = ""
    scene: str = ""
    degraded: bool = False
    lang: str = "zh"

    kind: ClassVar[str] = "handoff"
    required: ClassVar[tuple[str, ...]] = ("doing", "next", "scene")

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

    def freeze(self, notes: Path, step: str) -> Path:
        """Write it as the newest handoff of ``step`` in the directory ``notes``, and return where. Raises OSError."""
        name = "handoff-" + (_NOT_IN_NAMES.sub("-", step)[:_NAME_CHARS].strip("-.") or "step")
        path = notes / f"{name}.md"
        with acting_for(path):
            if path.exists():
                archive = notes / _ARCHIVE
                archive.mkdir(parents=True, exist_ok=True)
                taken = [_number(old.stem, name) for old in archive.glob("handoff-*.md")]
                os.replace(path, archive / f"{name}-{max(taken, default=0) + 1}.md")
        self.write(path)
        return path


def frozen_handoffs(notes: Path) -> list[Path]:
    """Every handoff kept in the directory ``notes``, oldest first, whichever step it was of; symlinks left out."""
    with acting_for(notes):
        found = [*notes.glob("handoff-*.md"), *(notes / _ARCHIVE).glob("handoff-*.md")]
        files = [path for path in found if not path.is_symlink() and path.is_file()]
        return [path for *_, path in sorted((path.stat().st_mtime_ns, path.name, path) for path in files)]


def _number(stem: str, name: str) -> int:
    """The number behind ``name`` in ``stem``, 0 where there is none."""
    number = stem.removeprefix(f"{name}-")
    return int(number) if number.isascii() and number.isdecimal() else 0
