"""The blocks of code on a page of the documents, fenced and indented ones, and what keeps some from being run.

A block that cannot be run has a comment above it, ``<!-- not run: why -->``, which readers do not see.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: The language of an indented block, which has none of its own.
INDENTED = "indented"

_FENCE = re.compile(r" *```(\w*)$")
_REASON = re.compile(r" *<!-- not run: (.+) -->$")
_CODE = re.compile(r" {4,}\S")


@dataclass(frozen=True)
class Block:
    """A block of code: ``line`` is where it begins, ``heading`` what it stands below, ``reason`` why it is not run."""

    page: str
    line: int
    heading: str
    language: str
    text: str
    reason: str


def blocks(page: str) -> list[Block]:
    """All blocks of a page, named by its path below the root, in order."""
    return list(_scan(page, (ROOT / page).read_text(encoding="utf-8").splitlines()))


def _scan(page: str, lines: list[str]) -> Iterator[Block]:
    heading = reason = ""
    number = 0
    while number < len(lines):
        line, begin = lines[number], number
        fence, said = _FENCE.match(line), _REASON.match(line)
        if fence or (_CODE.match(line) and not lines[number - 1].strip()):
            number += 1
            while number < len(lines) and not _ends(lines, number, fenced=bool(fence)):
                number += 1
            inside = lines[begin + 1 : number] if fence else lines[begin:number]
            language = fence[1] if fence else INDENTED
            yield Block(page, begin + 1, heading, language, _dedent(inside), reason)
            reason = ""
            number += bool(fence)
            continue
        if said:
            reason = said[1]
        elif line.strip():
            reason = ""
            heading = line.lstrip("# ") if line.startswith("#") else heading
        number += 1


def _ends(lines: list[str], number: int, *, fenced: bool) -> bool:
    if fenced:
        return bool(_FENCE.match(lines[number]))
    return bool(lines[number].strip()) and not _CODE.match(lines[number])


def _dedent(lines: list[str]) -> str:
    margin = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    return "\n".join(line[margin:] for line in lines).strip("\n") + "\n"
