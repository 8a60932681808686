"""The brief: what is wanted, agreed on with a person before any work, plus what was said later."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import ClassVar, Self

from flower_core.documents.base import Document
from flower_core.documents.sections import catalogue, fence_map, fold, shared, split
from flower_core.files import append_text, atomic_write, locked, read_text
from flower_core.texts import texts_for


@dataclass
class Brief(Document):
    """Exactly four sections, and behind them, word for word, whatever was said during a run or at a wake.

    ``amendments`` is everything from the first dated heading (as :func:`append_amendment` writes them) to the end.
    """

    goal: str = ""
    accept: str = ""
    bounds: str = ""
    unknowns: str = ""
    amendments: str = ""
    lang: str = "zh"

    kind: ClassVar[str] = "brief"
    required: ClassVar[tuple[str, ...]] = ("goal", "accept", "bounds", "unknowns")

    @classmethod
    def parse(cls, text: str, *, lang: str = "zh") -> Self:
        """Read a brief out of ``text``; what belongs to none of the four sections is left behind."""
        head, amendments = _cut(text)
        return cls(**split(head, catalogue(cls.kind)), amendments=amendments, lang=lang)

    @classmethod
    def load(cls, path: Path | str, *, lang: str = "zh") -> Self:
        """Read the brief at ``path``. Raises FileNotFoundError when there is none, else OSError."""
        head, amendments = _cut(read_text(path), everywhere=True)
        return replace(cls.parse(head, lang=lang), amendments=amendments)

    def sections(self) -> dict[str, str]:
        """The four sections by key, in order."""
        return {key: getattr(self, key) for key in self.required}

    def to_markdown(self) -> str:
        """The four sections, then the amendments as they are."""
        said = self.amendments.strip("\n")
        return super().to_markdown() + (f"\n{said}\n" if said else "")

    def prompt_block(self) -> str:
        """The filled sections and the amendments, for use inside a prompt."""
        said = self.amendments.strip()
        blocks = [super().prompt_block(), f"## {self._say('brief.amendments_title')}\n{said}" if said else ""]
        return "\n\n".join(filter(None, blocks))

    def write(self, path: Path | str) -> None:
        """Freeze the brief at ``path``; amendments already in that file stay, before new ones. Raises OSError."""
        target = Path(path)
        with locked(_lock_of(target)):
            kept = _cut(read_text(target), everywhere=True)[1] if target.exists() else ""
            atomic_write(target, replace(self, amendments=_merge(kept, self.amendments)).to_markdown())

    @classmethod
    def append_amendment(cls, path: Path | str, text: str, *, label: str = "", lang: str = "zh") -> None:
        """Add ``text`` to the brief at ``path`` under a dated heading; see :func:`append_amendment`."""
        append_amendment(path, text, label=label, lang=lang)


def append_amendment(path: Path | str, text: str, *, label: str = "", lang: str = "zh") -> None:
    """Append ``text`` to the brief at ``path`` under a heading with today's date, local time, and ``label``.

    Nothing in the file is overwritten; a missing file is made. Safe from any thread and any process. Raises OSError.
    """
    target = Path(path)
    stamp = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M:%S")
    word = texts_for(lang)("documents.brief.amendment")
    heading = " · ".join(filter(None, ["# " + word, stamp, " ".join(label.split())]))
    with locked(_lock_of(target)):
        append_text(target, f"\n{heading}\n\n{text.strip()}\n")


def _cut(text: str, *, everywhere: bool = False) -> tuple[str, str]:
    """``text`` before and from its first dated heading.

    ``everywhere`` also looks inside fenced code: in a file of ours a stray fence above must not hide what a
    person said, while in a model's reply a fenced amendment is a quotation.
    """
    lines = list(fence_map(text))
    for index, (line, fenced) in enumerate(lines):
        if (everywhere or not fenced) and _dated_heading().match(fold(line)):
            head, tail = lines[:index], lines[index:]
            return "\n".join(row for row, _ in head), "\n".join(row for row, _ in tail).strip("\n")
    return text, ""


def _merge(kept: str, own: str) -> str:
    """Both amendments without saying anything twice: usually ``own`` was loaded from ``kept``."""
    kept, own = kept.strip("\n"), own.strip("\n")
    if own in kept:
        return kept
    return own if kept in own else f"{kept}\n\n{own}"


def _lock_of(path: Path) -> Path:
    # A file of its own: the brief itself is replaced on every write, and a lock would stay with the old one.
    return path.with_name(f".{path.name}.lock")


@cache
def _dated_heading() -> re.Pattern[str]:
    words = "|".join(re.escape(fold(word)) for word in shared()["amendment"])
    return re.compile(rf"^ {{0,3}}#{{1,6}}\s*(?:{words})\s*[·:：|—-]?\s*\d{{4}}-\d\d-\d\d\b")
