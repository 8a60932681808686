"""Long lines, broken between words for a terminal of a given width."""

from __future__ import annotations

import re
import unicodedata

#: A terminal narrower than this breaks lines better by itself.
MIN_COLUMNS = 10
_JOINER = "\u200d"  # makes one emoji of several
_STYLE = re.compile(r"\x1b\[[0-9;]*m")
#: What the further lines of a broken one stand under: the space, mark, number or label it begins with.
_MARGIN = re.compile(r"\s*(?:\d{1,3}[.)] |[-*•~?│] |\w+ {3,})?")
_PIECES = re.compile(r"\x1b\[[0-9;]*m| +|(?:(?!\x1b\[)[^ ])+")


def width(text: str) -> int:
    """The columns ``text`` takes in a terminal: two for wide characters, none for those that combine and for colours.

    Joined emoji count as all of them: there terminals differ, and a line had better be broken too early than too late.
    """
    if text.isascii() and text.isprintable():
        return len(text)
    return sum(map(_columns, _STYLE.sub("", text)))


def wrap(line: str, columns: int) -> list[str]:
    """``line`` (no line breaks in it; colours may be) as lines of at most ``columns``.

    A word that is longer stays whole, so that an address can be copied: the terminal breaks it. Further lines are
    indented like the first one's text.
    """
    line = line.expandtabs()
    if columns < MIN_COLUMNS or width(line) <= columns:
        return [line]
    margin = _MARGIN.match(_STYLE.sub("", line))
    indent = width(margin[0]) if margin else 0
    indent = indent if indent <= columns // 2 else 0
    lines, current, column = [], "", 0
    for piece in _pieces(line):
        wide = width(piece)
        blank = piece.isspace()
        if column + wide > columns and column > indent and (blank or wide <= columns - indent):
            lines.append(current.rstrip(" "))
            current, column = " " * indent, indent
            if blank:
                continue
        if blank and lines and column == indent:
            continue  # the space at which the line was broken
        current += piece
        column = (column + wide - 1) % columns + 1 if column + wide > columns else column + wide
    return [*lines, current]


def _pieces(line: str) -> list[str]:
    """``line`` cut wherever it may be broken: at spaces, and around wide characters, which need none."""
    pieces: list[str] = []
    for run in _PIECES.findall(line):
        if run.isascii():
            pieces.append(run)
            continue
        part = ""
        for char in run:
            breaks = _columns(char) == 2 or (part and _columns(part[0]) == 2)
            if part and breaks and not _clings(char) and part[-1] != _JOINER:
                pieces.append(part)
                part = ""
            part += char
        pieces.append(part)
    return pieces


def _columns(char: str) -> int:
    if char.isascii():
        return 1
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _clings(char: str) -> bool:
    """Whether no line begins with ``char``: marks that combine, and what closes or ends a phrase."""
    return unicodedata.category(char) in ("Mn", "Me", "Mc", "Cf", "Pe", "Pf", "Po")
