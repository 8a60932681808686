"""Deciding whether a shell command is a mere look: :func:`is_ephemeral`.

The command is parsed with a real grammar (tree-sitter-bash) and the tree is walked with a list of the node
types that are known and harmless. A type that is not listed, a syntax error, or text the tree does not cover
is a refusal; there is no list of bad things. What the words of each command may be is in :mod:`flower_core.looks`.

Deliberately refused although some of it would be harmless: expansion of any kind that is not a plain wildcard
or ``~`` (``$HOME`` too: what it becomes is not in the command; ``{`` unquoted), ``$'…'`` and ``$"…"``,
comments, ``!``, ``[[``, subshells and braces, assignments before a command, background, here-documents and
here-strings, any line break inside the command, control characters, blanks other than space and tab.
Redirection passes to and from ``/dev/null`` and between the three standard descriptors (``2>&1``).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from flower_core.looks import is_look
from flower_core.operands import Word

_BASH = Language(tree_sitter_bash.language())
#: Longer commands are no quick looks, and a bound keeps the parser's work small.
MAX_LENGTH = 4000
_BLANKS = b" \t"
_WORDS = frozenset({"word", "number", "string", "raw_string", "concatenation"})
_WILDCARDS = "*?["
_STANDARD = ("0", "1", "2")
# Characters that mean something to some shell when they are neither quoted nor escaped. The grammar turns most of
# them into nodes of their own; should it ever leave one inside a word, this list still refuses it.
_LIVE = frozenset("`$(){}<>|&;\"'")


class _NotALook(ValueError):
    """The command holds something that is not on the list."""


@dataclass(frozen=True)
class Simple:
    """A simple command: its words, where each begins and ends in the source (bytes), and whether it is piped into."""

    words: tuple[Word, ...]
    spans: tuple[tuple[int, int], ...]
    piped: bool


@dataclass(frozen=True)
class Parsed:
    """A command without the blanks around it, as bytes, and its simple commands, at least one, in no special order."""

    source: bytes
    commands: tuple[Simple, ...]


def is_ephemeral(command: str) -> bool:
    """Whether ``command`` is a read-only look whose result soon goes stale, such as ``git status | head -5``.

    The same answer decides what may run without dispatching it and what expires from the conversation.
    Never raises; anything not understood is False.
    """
    try:
        return all(is_look(simple.words, piped=simple.piped) for simple in parse(command).commands)
    except _NotALook:
        return False


def parse(command: str) -> Parsed:
    """``command`` as the shell will read it. Raises ValueError when it is not plain enough to be a look."""
    text = command.strip(" \t\n")
    if not text or len(text) > MAX_LENGTH or any(_is_hidden(char) for char in text):
        raise _NotALook("empty, long or with hidden characters")
    source = text.encode()
    root = Parser(_BASH).parse(source).root_node
    if root.has_error:
        raise _NotALook("syntax")
    found = tuple(_commands(root, source))
    if not found:
        raise _NotALook("no command")
    return Parsed(source, found)


def _is_hidden(char: str) -> bool:
    """Whether a character is a blank, control or format character other than space and tab.

    Shells, grammars and terminals disagree about them. Lone surrogates are among them.
    """
    return char not in " \t" and unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zs", "Zl", "Zp"}


def _commands(root: Node, source: bytes) -> Iterator[Simple]:
    waiting = [(root, False)]
    while waiting:
        node, piped = waiting.pop()
        _no_gaps(node, source)
        match node.type:
            case "program":
                waiting += [(child, False) for child in _parts(node, {";"})]
            case "list":
                waiting += [(child, piped) for child in _parts(node, {"&&", "||"})]
            case "pipeline":
                parts = _parts(node, {"|", "|&"})
                waiting += [(child, piped or at > 0) for at, child in enumerate(parts)]
            case "redirected_statement":
                body, *redirects = node.children
                for redirect in redirects:
                    _check_redirect(redirect, source)
                waiting.append((body, piped))
            case "command":
                yield _simple(node, source, piped)
            case _:
                raise _NotALook(node.type)


def _parts(node: Node, separators: set[str]) -> list[Node]:
    """The children of ``node`` without the separators; any other bare token is a refusal."""
    parts = []
    for child in node.children:
        if child.is_named:
            parts.append(child)
        elif child.type not in separators:
            raise _NotALook(child.type)
    return parts


def _no_gaps(node: Node, source: bytes) -> None:
    """Refuse text between the children of ``node`` that is not blank: the grammar skipped it, a shell will not."""
    at = node.start_byte
    for child in node.children:
        if source[at : child.start_byte].strip(_BLANKS):
            raise _NotALook("skipped text")
        at = child.end_byte
    if source[at : node.end_byte].strip(_BLANKS) and node.children:
        raise _NotALook("skipped text")


def _check_redirect(node: Node, source: bytes) -> None:
    """Let through ``>/dev/null``, ``2>>/dev/null``, ``&>/dev/null``, ``</dev/null``, ``2>&1`` and their like."""
    if node.type != "file_redirect":
        raise _NotALook(node.type)
    _no_gaps(node, source)
    parts = [child for child in node.children if child.type != "file_descriptor"]
    if len(parts) != 2:
        raise _NotALook("redirection with more than one target")
    operator, target = parts
    to_nowhere = operator.type in {">", ">>", "<", "&>", "&>>"} and _raw(target, source) == "/dev/null"
    between = (
        operator.type in {">&", "<&"}
        and target.type == "number"
        and _raw(target, source) in _STANDARD  # what else is open belongs to whoever started the shell
    )
    if not (to_nowhere or between):
        raise _NotALook("redirection")


def _simple(node: Node, source: bytes, piped: bool) -> Simple:
    """A simple command. Its first word must be spelled out plainly."""
    name, *args = node.children
    if name.type != "command_name" or [child.type for child in name.children] != ["word"]:
        raise _NotALook("command name")
    words = [Word(_raw(name, source))]
    spans = [(name.start_byte, name.end_byte)]
    for arg in args:
        if arg.start_byte == spans[-1][1] or arg.type not in _WORDS:
            raise _NotALook(arg.type)
        words.append(_word(arg, source))
        spans.append((arg.start_byte, arg.end_byte))
    return Simple(tuple(words), tuple(spans), piped)


def _word(node: Node, source: bytes) -> Word:
    pieces = list(_pieces(node, source))
    if pieces and pieces[0] == ("#", True):
        raise _NotALook("comment")
    text = "".join(char for char, _ in pieces)
    return Word(text, next((at for at, (char, live) in enumerate(pieces) if live and char in _WILDCARDS), -1))


def _pieces(node: Node, source: bytes) -> Iterator[tuple[str, bool]]:
    """The characters of a word after quotes are removed, each with whether the shell still gives it meaning."""
    raw = _raw(node, source)
    match node.type:
        case "word" | "number" if not node.children:
            yield from _unquoted(raw)
        case "raw_string" if len(raw) >= 2 and raw[0] == raw[-1] == "'" and "'" not in raw[1:-1]:
            yield from ((char, False) for char in raw[1:-1])
        case "string" if all(child.type in ('"', "string_content") for child in node.children):
            yield from ((char, False) for char in _double_quoted(raw))
        case "concatenation":
            end = node.start_byte
            for child in node.children:
                if child.start_byte != end or child.type == "concatenation":
                    raise _NotALook("concatenation")
                yield from _pieces(child, source)
                end = child.end_byte
        case _:
            raise _NotALook(node.type)


def _unquoted(raw: str) -> Iterator[tuple[str, bool]]:
    chars = iter(raw)
    for char in chars:
        if char == "\\":
            escaped = next(chars, None)
            if escaped is None:
                raise _NotALook("backslash at the end")
            yield escaped, False
        elif char in _LIVE or char in " \t":
            raise _NotALook(char)
        else:
            yield char, True


def _double_quoted(raw: str) -> Iterator[str]:
    if len(raw) < 2 or not (raw[0] == raw[-1] == '"'):
        raise _NotALook("string")
    chars = iter(raw[1:-1])
    for char in chars:
        if char in '$`"':
            raise _NotALook(char)
        if char != "\\":
            yield char
            continue
        escaped = next(chars, None)
        if escaped is None:
            raise _NotALook("backslash at the end")
        # Between double quotes a backslash escapes these four only (POSIX shell, section 2.2.3).
        yield from escaped if escaped in '$`"\\' else f"\\{escaped}"


def _raw(node: Node, source: bytes) -> str:
    return source[node.start_byte : node.end_byte].decode()
