"""is_ephemeral: what is a mere look, and above all what is not."""

from __future__ import annotations

import random
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from flower_core.looks import RULES
from flower_core.operands import Word
from flower_core.shell import MAX_LENGTH, is_ephemeral, parse

CORPUS = tomllib.loads((Path(__file__).parent / "data" / "looks.toml").read_text(encoding="utf-8"))
LOOKS: list[str] = [command for commands in CORPUS["passes"].values() for command in commands]
#: A lone surrogate cannot be written in TOML.
REFUSED: dict[str, list[str]] = {**CORPUS["refused"], "half a character": ["ls \ud800"]}


def test_the_corpus_is_large_and_says_no_command_twice() -> None:
    refused = [command for commands in REFUSED.values() for command in commands]
    assert (len(LOOKS) >= 150, len(refused) >= 150) == (True, True)
    assert len({*LOOKS, *refused}) == len(LOOKS) + len(refused)


@pytest.mark.parametrize("command", LOOKS)
def test_a_look_passes(command: str) -> None:
    assert is_ephemeral(command)


@pytest.mark.parametrize("command", [pytest.param(c, id=f"{why}: {c!r}") for why, cs in REFUSED.items() for c in cs])
def test_everything_else_is_refused(command: str) -> None:
    assert not is_ephemeral(command)


SUFFIXES = ["; rm x", "&& rm x", "|| rm x", "| sh", "& rm x", "\nrm x", " > x", " $(rm x)", " `rm x`", " <(rm x)"]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_nothing_can_be_added_to_a_look(suffix: str) -> None:
    assert [command for command in LOOKS if is_ephemeral(command.strip() + suffix)] == []


def test_a_look_with_something_put_in_front_is_refused() -> None:
    for prefix in ("rm x; ", "sudo ", "A=1 ", "! ", "( ", "{ ", "eval ", "exec "):
        assert [command for command in LOOKS if is_ephemeral(prefix + command)] == []


def test_a_command_too_long_to_be_a_look_is_refused() -> None:
    assert is_ephemeral("ls " + "a" * (MAX_LENGTH - 3))
    assert not is_ephemeral("ls " + "a" * (MAX_LENGTH - 2))
    assert is_ephemeral("ls" + " && ls" * 600)


PIECES = [
    *"ls;|&<>$`'\"\\(){}[]*?!#~=-+ \t\n\r\0\u00a0\ud800é",
    *(
        "ls ",
        "git ",
        "status ",
        "find . ",
        "-delete ",
        "cat ",
        "rm x",
        "2>&1",
        ">/dev/null",
        "&&",
        "||",
        " -- ",
        "$(",
        "<<E\n",
    ),
    *(
        "date ",
        "-s ",
        "grep a ",
        "-f ",
        "${",
        "$'",
        "((",
        "[[",
        "if ",
        "then ",
        "fi",
        "done",
        "case ",
        "x=1 ",
        "coproc ",
        ">|",
    ),
]


def test_no_input_raises_and_a_second_command_is_never_let_through() -> None:
    rng = random.Random(20240501)  # noqa: S311  (repeatable, not secret)
    accepted = 0
    for _ in range(4000):
        start = rng.choice(["", "ls ", "git status ", rng.choice(LOOKS)])
        command = start + "".join(rng.choices(PIECES, k=rng.randrange(9)))
        if is_ephemeral(command):
            accepted += 1
            assert not is_ephemeral(command + "; rm x"), command
            assert not is_ephemeral(command + "\nrm x"), command
            assert "rm x" not in command or _only_quoted(command), command
    assert accepted > 300


def _only_quoted(command: str) -> bool:
    """Whether the words of ``command`` prove that rm is nothing but an argument."""
    known = {name.split()[0] for name in RULES} | {"find"}
    return all(simple.words[0].text in known for simple in parse(command).commands)


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash to compare with")
def test_words_are_what_bash_makes_of_them(tmp_path: Path) -> None:
    rng = random.Random(7)  # noqa: S311  (repeatable, not secret)
    quoting = [
        "a",
        "b c",
        "'",
        '"',
        "\\",
        "\\$",
        "\\\\",
        " ",
        "\\ ",
        "é",
        "文",
        "#",
        "=",
        "-",
        "~x",
        "!",
        "'a'",
        '"b"',
        "\\`",
        "%",
        "1",
    ]
    commands = ["ls " + "".join(rng.choices(quoting, k=rng.randrange(1, 9))) for _ in range(1500)]
    known = [(command, parse(command).commands[0].words) for command in commands if is_ephemeral(command)]
    assert len(known) > 200
    script = "set -f\nls() { for word in \"$@\"; do printf '%s\\0' \"$word\"; done; printf '\\1\\0'; }\n" + "\n".join(
        command for command, _ in known
    )
    answer = subprocess.run(
        ["bash", "-c", script], capture_output=True, cwd=tmp_path, check=True, env={"LC_ALL": "C.UTF-8"}
    )
    theirs = answer.stdout.decode().split("\1\0")[:-1]
    assert len(theirs) == len(known)
    for (command, ours), found in zip(known, theirs, strict=True):
        assert "".join(f"{word.text}\0" for word in ours[1:]) == found, command


def test_wildcards_are_found_only_where_the_shell_expands_them() -> None:
    words = parse("ls a* '*' \"?\" \\* b'c'[d]").commands[0].words
    assert list(words[1:]) == [Word("a*", 1), Word("*"), Word("?"), Word("*"), Word("bc[d]", 2)]


def test_every_flag_of_every_rule_is_well_formed() -> None:
    for name, rule in RULES.items():
        assert rule.flags, name
        for flag, kind in rule.flags.items():
            assert flag == "-NUM" or (flag.startswith("--") and len(flag) > 3) or len(flag) == 2, (name, flag)
            assert kind in ("", ":", "?", "="), (name, flag)
