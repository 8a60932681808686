"""What a look is given besides its flags, and which of it would make a program wait, run on for ever, or tell secrets.

Paths are judged by their text alone, so in doubt a path is refused. What no text shows stays unseen: a named pipe,
a symbolic link that is already there, and what a wildcard deep in a path may meet.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import dropwhile

# Reading in these can block or never end (/dev/zero, trace_pipe), and /proc/<pid>/environ holds every credential.
_KERNEL_DIRS = ("dev", "proc", "sys")
_WILDCARDS = frozenset("*?[")
_GREP_RECURSIVE = frozenset({"-r", "-R", "--recursive", "--dereference-recursive"})
_PATTERN_FLAGS = frozenset({"-e", "--regexp"})
_BRANCH_LISTING = frozenset({"--list", "--merged", "--no-merged", "--contains", "--no-contains", "--points-at"})


@dataclass(frozen=True)
class Word:
    """One word of a command as the program will get it, quotes removed.

    ``wild`` is the index of the first wildcard the shell will expand, -1 when there is none.
    """

    text: str
    wild: int = -1


@dataclass(frozen=True)
class Operands:
    """What is left of a command when its flags are taken: the other words, and the flags that were there.

    ``piped`` says that standard input comes from a pipe.
    """

    words: tuple[Word, ...]
    flags: frozenset[str]
    piped: bool


def anything(_: Operands) -> bool:
    """Whatever it is."""
    return True


def nothing(found: Operands) -> bool:
    """No operand at all."""
    return not found.words


def no_stdin(found: Operands) -> bool:
    """No operand that stands for standard input."""
    return not any(word.text == "-" for word in found.words)


def files(found: Operands) -> bool:
    """Files whose reading ends, at least one of them unless something is piped in."""
    return (found.piped or bool(found.words)) and _readable(found.words, found.piped)


def ordinary(found: Operands) -> bool:
    """Any number of operands, each of which can be read to its end if it is a file."""
    return _readable(found.words, piped=False)


def tail(found: Operands) -> bool:
    """As :func:`files`; but ``tail +5f file`` is the old spelling of ``tail -f -n +5 file``, which never ends."""
    return files(found) and not any(word.text.startswith("+") for word in found.words)


def grep(found: Operands) -> bool:
    """A pattern, then files whose reading ends; none are needed when it searches directories or a pipe."""
    paths = _behind_pattern(found)
    recursive = bool(found.flags & _GREP_RECURSIVE)
    enough = found.piped or recursive or bool(paths)
    return enough and _readable(paths, found.piped) and not (recursive and any(map(_may_hold_kernel_dirs, paths)))


def rg(found: Operands) -> bool:
    """As :func:`grep`; it always searches directories, and with ``--files`` no word is a pattern."""
    paths = found.words if "--files" in found.flags else _behind_pattern(found)
    return _readable(paths, found.piped) and not any(map(_may_hold_kernel_dirs, paths))


def date(found: Operands) -> bool:
    """A format; any other operand sets the clock."""
    return len(found.words) <= 1 and all(word.text.startswith("+") for word in found.words)


def ps(found: Operands) -> bool:
    """The old spelling without a dash; the letter e is left out, it prints every process's environment."""
    return all(re.fullmatch(r"[aAcfhjlmrTuvwx]+|[0-9]+(,[0-9]+)*", word.text) for word in found.words)


def branch(found: Operands) -> bool:
    """An operand without a listing flag makes a branch; with one of them it is a commit or a pattern."""
    return not found.words or bool(found.flags & _BRANCH_LISTING)


def _behind_pattern(found: Operands) -> tuple[Word, ...]:
    return found.words if found.flags & _PATTERN_FLAGS else found.words[1:]


def _readable(words: Sequence[Word], piped: bool) -> bool:
    """Whether reading these as files ends and tells no secret of a process; ``-`` needs something piped in."""
    return all(piped if word.text == "-" else not _is_in_kernel_dir(word) for word in words)


def _is_in_kernel_dir(word: Word) -> bool:
    """Whether the path may lead into /dev, /proc or /sys; /dev/null apart.

    Behind a ``..`` any part of it might be at the root: the working directory is not known, and a symbolic link on
    the way may lead upwards.
    """
    if word.text == "/dev/null":
        return False
    parts = _parts(word)
    if any(_may_climb(part, word) for part in parts):
        suspects = parts
    else:
        suspects = parts[:1] if word.text.startswith("/") else []
    return any(_may_be(part, name, word) for part in suspects for name in _KERNEL_DIRS)


def _may_hold_kernel_dirs(word: Word) -> bool:
    """Whether searching this directory may lead into /dev, /proc or /sys: it may be the root."""
    parts = _parts(word)
    below = list(dropwhile(lambda part: _may_climb(part, word), parts))
    is_top = not below and (bool(parts) or word.text.startswith("/"))
    return is_top or any(_may_climb(part, word) for part in below)


def _parts(word: Word) -> list[str]:
    return [part for part in word.text.split("/") if part not in ("", ".")]


def _may_climb(part: str, word: Word) -> bool:
    # Some shells let ".*" match "." and "..".
    return part == ".." or (
        part.startswith(".") and _is_wild(part, word) and any(_may_be(part, up, word) for up in (".", ".."))
    )


def _may_be(part: str, name: str, word: Word) -> bool:
    """Whether the shell may expand ``part`` to ``name``. Bracket expressions differ too much to be compared."""
    if not _is_wild(part, word):
        return part == name
    return "[" in part or fnmatchcase(name, part)


def _is_wild(part: str, word: Word) -> bool:
    return word.wild >= 0 and not _WILDCARDS.isdisjoint(part)
