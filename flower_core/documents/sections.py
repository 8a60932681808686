"""One splitter for every document a model writes: free-hand headings in, named sections out.

A heading may be ``## X``, ``**X**``, ``X:``, ``3. X`` or underlined, with a full-width colon, with its body on the same
line, under any alias and in any language of ``texts/shared/documents.toml``, whatever language the run has.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from flower_core import texts

#: Section key to every name it may carry.
Catalogue = Mapping[str, Sequence[str]]

_FENCE = re.compile(r"^(?:\s|[-*+]\s|\d+[.)]\s)*(?P<ticks>`{3,}|~{3,})(?P<info>.*)$")
_HASHES = re.compile(r"^ {0,3}(?P<hashes>#{1,6})(?!#)(?P<space>\s*)(?P<rest>.*?)(?:\s+#+)?\s*$")
_NUMBER = re.compile(
    r"^(?:\d{1,2}\\?[.)．、）]|[(（]\d{1,2}[)）]|[一二三四五六七八九十]{1,3}[、.．]|[(（][一二三四五六七八九十]{1,3}[)）])\s*"
)
_STRONG = re.compile(r"^(?:(\*\*\*|\*\*|___|__)(?=\S)(?P<inner>.+?)\1|【(?P<boxed>[^】]+)】)(?P<after>.*)$")
_UNDERLINE = re.compile(r"^ {0,3}(?:(?P<one>={2,})|-{2,})\s*$")
_RULE = re.compile(r"^\s*(?:[-*_]\s*){3,}$")
_NOTE_BEHIND = re.compile(r"\s*[(（\[［][^()（）\[\]［］]*[)）\]］]\s*$")
# What may stand between a bold name and its body: "**Goal** (in one sentence): build it".
_LEADING_SEPARATOR = re.compile(r"^\s*(?:(?:[(（][^()（）]*[)）]\s*)?[:：]|[-–—]+(?=\s)|[–—]+)?\s*")
_COLON = re.compile(r"[:：]")
_DASH = re.compile(r"\s+[-–—]+\s+|\s*[–—]+\s*")
_CJK = re.compile(r"[\u3400-\u9fff]")
#: A name and its colon stand within this many characters of the start of the line.
_NAME_REACH = 80


@cache
def shared() -> dict[str, Any]:
    """The words of all languages, from ``texts/shared/documents.toml``."""
    path = Path(texts.__file__).parent / "shared" / "documents.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


def catalogue(kind: str) -> Catalogue:
    """The headings of one kind of document (``brief``, ``goal``, ``verdict`` or ``handoff``) with all their aliases."""
    headings: Catalogue = shared()["headings"][kind]
    return headings


def fold(text: str) -> str:
    """``text`` for comparison: compatibility forms unified, no accents, no case, straight apostrophes."""
    plain = unicodedata.normalize("NFKD", text).replace("’", "'").replace("‘", "'")
    return "".join(char for char in plain if not unicodedata.combining(char)).casefold()


def name_of(text: str) -> str:
    """``text`` as the bare name of a section: folded, without a note behind it, ornaments, or doubled spaces."""
    bare = fold(_NOTE_BEHIND.sub("", text))
    start, end = 0, len(bare)
    while start < end and not bare[start].isalnum():
        start += 1
    while end > start and not bare[end - 1].isalnum():
        end -= 1
    return " ".join(bare[start:end].split())


def is_placeholder(body: str) -> bool:
    """Whether ``body`` is empty or only says that nothing has been filled in."""
    return not body.strip() or name_of(body.strip().strip("()（）")) in _folded(tuple(shared()["placeholders"]))


def split(text: str, names: Catalogue) -> dict[str, str]:
    """The sections of ``text`` by key, in the order of ``names``; what is missing or empty is left out.

    Fenced code is dropped first, and an unclosed fence drops everything behind it. Of several sections with
    one name the first with a body wins. Text under a heading nobody knows belongs to no section, unless that
    heading is deeper than the section it stands in.
    """
    lines = strip_fences(text).split("\n")
    found: dict[str, str] = {}
    for key, body in _bodies(lines, names):
        if key not in found and not is_placeholder(body):
            found[key] = body
    return {key: found[key] for key in names if key in found}


def preamble(text: str, names: Catalogue) -> str:
    """What stands before the first section, without fenced code: all of ``text`` when there is no section."""
    lines = strip_fences(text).split("\n")
    first = min((index for index, head in _headings(lines, names).items() if head.key), default=len(lines))
    return _trim(lines[:first])


def strip_fences(text: str) -> str:
    """``text`` without its fenced code blocks; an unclosed fence takes the rest with it."""
    return "\n".join(line for line, fenced in fence_map(text) if not fenced)


def fence_map(text: str) -> Iterator[tuple[str, bool]]:
    """Every line of ``text`` with whether it belongs to a fenced code block, fences included.

    The closing fence repeats the opening character at least as often and carries nothing else
    (CommonMark 0.31, section 4.5). Unlike there, a fence may stand at any depth of indentation, as it does in lists.
    """
    closing: re.Pattern[str] | None = None
    for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        if closing is not None:
            if closing.match(line):
                closing = None
            yield line, True
            continue
        ticks = opening_fence(line)
        if ticks:
            closing = re.compile(rf"^\s*{re.escape(ticks[0])}{{{len(ticks)},}}\s*$")
        yield line, bool(ticks)


def opening_fence(line: str) -> str:
    """The fence characters ``line`` opens a code block with, or ""."""
    match = _FENCE.match(line)
    if match is None or (match["ticks"][0] == "`" and "`" in match["info"]):
        return ""
    return match["ticks"]


def shield(body: str, names: Catalogue) -> str:
    """``body`` such that it survives being written under a ``# heading`` and split again.

    Lines that would be read as a heading, end the section or open a fence are quoted (``> ``).
    """
    lines = body.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    heads = {
        index
        for index, heading in _headings(lines, names).items()
        if (heading.key and not heading.listed) or heading.level == 1
    }
    return "\n".join(f"> {line}" if index in heads or opening_fence(line) else line for index, line in enumerate(lines))


@dataclass(frozen=True)
class _Heading:
    key: str  # "" for a heading nobody knows
    level: int  # 1 to 6 for # and underlined headings, else 0
    body: str = ""
    listed: bool = False  # an item of a numbered list with its body behind a colon
    marked: bool = False  # #, underline or bold
    lines: int = 1


def _bodies(lines: list[str], names: Catalogue) -> Iterator[tuple[str, str]]:
    """Every section in order: its key ("" for an unknown one) and its trimmed body."""
    headings = _headings(lines, names)
    key, level = "", 0
    body: list[str] = []
    skip = 0
    for index, line in enumerate(lines):
        heading = headings.get(index)
        if heading is not None and (heading.key or not key or heading.level <= (level or 6)):
            yield key, _trim(body)
            key, level, body = heading.key, heading.level, [heading.body]
            skip = index + heading.lines
        elif index >= skip:
            body.append(line)
    yield key, _trim(body)


def _headings(lines: list[str], names: Catalogue) -> dict[int, _Heading]:
    known = {_fold_name(alias): key for key, aliases in names.items() for alias in aliases}
    found: dict[int, _Heading] = {}
    for index, line in enumerate(lines):
        heading = _underlined(lines, index, known) or _heading(line, known)
        if heading is not None:
            found[index] = heading
    # "3. Boundaries: empty input" is a section in a document without other marks, and an item of a list in one
    # that has a marked heading for the same section.
    marked = {heading.key for heading in found.values() if heading.marked}
    heads = {index: head for index, head in found.items() if not (head.listed and head.key in marked)}
    order = list(heads.values())
    return {
        index: replace(head, key="")
        if head.key and _is_title(head, (order[n] for n in range(place + 1, len(order))))
        else head
        for place, (index, head) in enumerate(heads.items())
    }


def _is_title(own: _Heading, following: Iterable[_Heading]) -> bool:
    """Whether the heading stands over a deeper one of the same section: "# Verdict", then "## Conclusion"."""
    for other in following if own.level else ():
        if other.level and other.level <= own.level:
            return False
        if other.level and other.key == own.key:
            return True
    return False


def _underlined(lines: list[str], index: int, known: Mapping[str, str]) -> _Heading | None:
    below = _UNDERLINE.match(lines[index + 1]) if index + 1 < len(lines) else None
    key = known.get(name_of(lines[index])) if below else None
    if below is None or key is None or not _plain(lines[index]):
        return None
    return _Heading(key, 1 if below["one"] else 2, marked=True, lines=2)


def _heading(line: str, known: Mapping[str, str]) -> _Heading | None:
    hashes = _HASHES.match(line)
    level = len(hashes["hashes"]) if hashes else 0
    rest = hashes["rest"] if hashes else line.rstrip()
    if not hashes and (len(rest) - len(rest.lstrip(" ")) > 3 or rest.startswith("\t")):
        return None
    bare = _NUMBER.sub("", rest.lstrip(), count=1)
    numbered = bare != rest.lstrip()
    strong = _STRONG.match(bare)
    if not level and not strong and not _plain(bare):
        return None
    for name, body in _readings(bare, strong, level=level, numbered=numbered):
        key = known.get(name_of(name))
        if key is not None:
            marked = bool(level or strong)
            return _Heading(key, level, body, listed=numbered and not marked and bool(body), marked=marked)
    return _Heading("", level, marked=True) if hashes and hashes["space"] and rest else None


def _readings(bare: str, strong: re.Match[str] | None, *, level: int, numbered: bool) -> Iterator[tuple[str, str]]:
    """The ways to read a line as name and body, the longest name first."""
    if strong:
        inner = _NUMBER.sub("", strong["inner"] or strong["boxed"], count=1)
        after = _LEADING_SEPARATOR.sub("", strong["after"], count=1)
        yield inner, after
        for colon in reversed(list(_COLON.finditer(inner))):
            yield inner[: colon.start()], f"{inner[colon.end() :].strip()} {after}".strip()
        return
    if level or numbered:
        yield bare, ""
    for colon in reversed(list(_COLON.finditer(bare[:_NAME_REACH]))):
        yield bare[: colon.start()], bare[colon.end() :].strip()
    if level:
        for dash in reversed(list(_DASH.finditer(bare[:_NAME_REACH]))):
            yield bare[: dash.start()], bare[dash.end() :].strip()
        name, _, body = bare.partition(" ")
        if _CJK.search(name):
            yield name, body.strip()
        yield from _bilingual(bare)


def _bilingual(bare: str) -> Iterator[tuple[str, str]]:
    """``目标 / Goal``: either half may be the name."""
    for part in re.split(r"[/／|·]", bare)[:2] if re.search(r"[/／|·]", bare) else ():
        yield part, ""


def _plain(line: str) -> bool:
    """Whether the line opens with a word, and not with a bullet, a quotation mark or other markup."""
    return line.lstrip()[:1].isalnum()


def _trim(lines: list[str]) -> str:
    """``lines`` as text, without blank lines and rules at either end."""
    start, end = 0, len(lines)
    while start < end and (not lines[start].strip() or _RULE.match(lines[start])):
        start += 1
    while end > start and (not lines[end - 1].strip() or _RULE.match(lines[end - 1])):
        end -= 1
    return "\n".join(line.rstrip() for line in lines[start:end]).strip()


@cache
def _folded(words: tuple[str, ...]) -> frozenset[str]:
    return frozenset(map(name_of, words))


@cache
def _fold_name(alias: str) -> str:
    return name_of(alias)
