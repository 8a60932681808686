"""is_ephemeral: what is a mere look, and above all what is not."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from flower_core.looks import RULES
from flower_core.operands import Word
from flower_core.shell import MAX_LENGTH, is_ephemeral, split_words

LOOKS = [
    "git status",
    "git status -sb",
    "git status --porcelain=v2 -uno",
    "git --no-pager diff",
    "git diff --stat HEAD~1..HEAD -- src/a.py",
    "git diff --cached --name-only",
    "git log --oneline -20",
    "git log -n 5 --format='%h %s' --since 'two weeks ago'",
    "git log -S needle -p -- 'src/*.py'",
    "git show HEAD:README.md | head -20",
    "git branch",
    "git branch -vv",
    "git branch -a --sort=-committerdate",
    "git branch --list 'feature/*'",
    "git branch --merged main",
    "git branch --show-current",
    "git rev-parse --abbrev-ref HEAD",
    "git rev-parse --short=8 HEAD",
    "ls",
    "ls -la",
    "ls -la ~ *.py src/[a-z]*.py",
    "ls;",
    "  ls -1 \n",
    "pwd",
    "cat README.md",
    "cat 'a file' \"another file\" a\\ third",
    "cat a.txt | cat -n",
    "head -5 a.txt",
    "head -n -5 a.txt",
    "head -c 100 *.txt",
    "tail -n +5 a.txt",
    "tail -20 ./*.log",
    "wc -l *.py",
    "stat -c %s a.txt",
    "file --mime-type a.bin",
    "du -sh * | head -3",
    "df -h",
    "date",
    "date +%F",
    "date -u -d 'next friday' '+%Y %m'",
    "ps aux",
    "ps -ef | grep python",
    "ps -o pid,args -p 1",
    "which python3 git",
    "find . -name '*.py' -print",
    "find . -type f -mtime -1 -size +10k -not -path './.git/*'",
    "find . \\( -name a -o -name b \\) ! -empty",
    "find . -path ./node_modules -prune -o -name '*.ts' -print",
    "find . -perm -u+x -newermt 2024-01-01",
    "grep -rn 'def main' src",
    "grep -n needle a.txt b.txt",
    "grep -rn --include=*.py needle .",
    "grep -e a -e b file",
    "grep x /dev/null",
    "rg -n needle",
    "rg --type py -C 3 'a b' src/",
    "git status && git log -1",
    "ls missing || pwd",
    "pwd; ls",
    "ls |& wc -l",
    "ls 2>/dev/null",
    "ls >/dev/null 2>&1",
    "ls -l /dev /proc",
    "df -h /dev/sda1",
    "cat /home/me/dev/notes.txt dev/notes.txt ../src/proc.c ~/dev/x",
    "cat ./dev/* /dev/null",
    "ls | cat a.txt - | grep -n x -",
    "grep -rn /proc/self/environ src",
    "grep -rn -e /dev/zero ../lib",
    "rg /dev/zero src",
    "git log --oneline dev..main -- src/dev",
    "git branch --list 'signature*'",
    "ps -eo pid,args",
    "ls &>/dev/null",
    "ls 2>&1 | head -1",
    "cat a.txt </dev/null",
    "find . -name x 2>/dev/null | wc -l",
    "grep -n '$HOME' a.sh",
    'grep -n "a\\$b" a.sh',
    "cat 文档/需求.md",
    "cat '{a,b}'",
    "git show 'HEAD@{1}'",
]

REFUSED = {
    "no command": [
        "", "   ", "\n", "# ls", ";", "&& ls",
    ],
    "unknown command": [
        "rm x", "touch x", "echo hi", "cd src", "cd src && ls", "sed -n 1p a", "awk 1 a", "sort a", "xargs rm", "env",
        "tee x", "sh -c ls", "eval ls", "exec ls", "command ls", "time ls", "coproc ls", "sudo ls", "nice ls",
        "python x", "/bin/ls", "./ls", "\\ls", "'ls'", '"ls"', "l's'", "l?", "l*", "~/ls", "git", "git stash",
        "git st", "git 'x'", "git stat*", "git push", "LS", "l\\s", "source ls", ". ls", "git config --list",
        "git remote -v", "kill 1",
    ],
    "writing and deleting flags": [
        "git branch x", "git branch -D x", "git branch -d x", "git branch -m a b", "git branch -v x",
        "git branch -f x", "git branch -l x", "git branch --sort --list x", "git branch --format --list x",
        "git branch --edit-description", "git branch --set-upstream-to=a", "git branch -u a", "git diff --output=x",
        "git diff --output x", "git log --output=x", "git show --outpu=x", "date -s x", "date --set=x", "date -us x",
        "date --se=x", "date 010100002030", "date -d -s x", "date -- 01010000", "date -d now 01010000",
        "date +%F +%F", "date *", "date -d *", "file -C", "file -C -m x", "file --compile", "find . -delete",
        "find . -fprint x", "find . -fprintf x y", "find . -fls x", "find . -fprint0 x", "find . '-delete'",
        'find . -"delete"', "find . -del\\ete", "find . -name x -o -delete", "find . -print0", "find . -ls",
        "find . -name -delete", "df --sync",
    ],
    "running other programs": [
        "git -c core.pager=x log", "git -c core.fsmonitor=x status", "git --exec-path=. status", "git --paginate log",
        "git -p log", "git -C x status", "git --git-dir=x status", "git --work-tree=x status",
        "git --config-env=a=b log", "git diff --ext-diff", "git log --ext-diff -p", "git diff --textconv",
        "git show --textconv", "git log --show-signature", "git diff --no-index a b", "find . -exec rm {} +",
        "find . -exec rm '{}' \\;", "find . -execdir x \\;", "find . -ok x \\;", "find . -okdir x \\;",
        "rg --pre x y", "rg --pre=x y", "rg --pre-glob x y", "rg --hostname-bin x y", "rg --hostname-bin=x y",
        "rg -z x", "rg --search-zip x", "file -z x", "grep --pre x y",
    ],
    "never ending or waiting": [
        "tail -f x", "tail -F x", "tail -fn5 x", "tail -5f x", "tail +5f x", "tail --follow x",
        "tail --follow=name x", "tail --foll x", "tail --retry x", "tail --pid=1 -f x", "cat", "cat -", "cat -n",
        "cat a -", "head", "head -5", "tail -n 5", "wc", "wc -l", "wc -", "file", "file -", "file -f -", "grep x",
        "grep x -", "grep -e x", "rg x -", "cat /dev/zero", "head /dev/urandom", "wc /dev/tty", "cat || cat x",
        "cat x; cat", "wc --files0-from=-", "stat -", "grep -f - x", "ls | wc -l && cat",
    ],
    "unknown flags": [
        "ls --bogus", "ls -1J", "pwd x", "git status --bogus", "rg --bogus x", "ps --bogus", "cat -Q x", "ps auxe",
    ],
    "flags behind --": [
        "git diff -- --output=x", "git log -S -- --output=x", "cat -- -x", "git branch -- -D x",
    ],
    "a wildcard that may become a flag": [
        "git diff *", "git diff -- *", "git diff -*", "git show ?-output=x", "git log [-]-output=x", "rg x *", "rg *",
        "tail *", "tail -n 5 *", "find *", "find . -name *", "find . -d*", "file *", "find . [-]delete", "ls -[l]",
        "ls -*",
    ],
    "expansion": [
        "ls $HOME", "ls ${HOME}", 'ls "$HOME"', 'ls "${HOME}"', "ls $(rm x)", 'ls "$(rm x)"', "ls `rm x`",
        'ls "`rm x`"', "ls <(rm x)", "ls >(rm x)", "cat <(ls)", "ls $((1+1))", "ls $[1+1]", "ls $'a'", "ls $'\\x2d'",
        'ls $"a"', "ls {a,b}", "ls {1..3}", "ls a{b,c}d", "find . -{delete,print}", "ls $", "ls a$", 'grep "a$" x',
        "ls $1", "ls $@", "ls $?", "ls !$", "$SHELL", "$(ls)", "`ls`", "ls ${x:=y}", "ls ${x@P}", "ls +(a)",
        "ls !(a)", "ls @(a|b)", "ls *(e:ls:)", "git show HEAD@{1}",
    ],
    "redirection": [
        "ls > x", "ls >x", "ls >> x", "ls >| x", "ls >|/dev/null", "ls &> x", "ls &>> x", "ls >& x", "ls >&x",
        "ls 2> x", "ls <> x", "cat < x", "ls > /dev/null x", "ls >/dev/null >x", "ls 2>/dev/null -l", ">/dev/null ls",
        "> x", ">/dev/null", "ls > /dev/nullx", "ls > /dev/null/x", "ls > '/dev/null'", "ls > $x",
        "ls > /dev/tcp/a/1", "ls {fd}>x", "ls 2>&1x", "ls 2>&-", "cat <<E\nx\nE", "cat <<< x", "cat <<<x",
        "cat <<-E\nE", "ls > /dev/../x", "ls | wc -l > x", "ls && ls > x", "(ls) > x",
    ],
    "background and compounds": [
        "ls &", "ls & rm x", "ls &\nrm x", "(ls)", "{ ls; }", "! ls", "[[ a ]]", "[ a ]", "((1))",
        "if ls; then ls; fi", "ls |", "while true; do ls; done", "for i in a; do ls; done", "case a in a) ls;; esac",
        "f() { ls; }", "function f { ls; }", "ls ;; ls", "ls;;", "ls ;& ls", "ls && ", "ls ||", "| ls", "ls | | wc",
        "select x in a; do ls; done", "until ls; do ls; done",
    ],
    "one part of several": [
        "ls; rm x", "ls && rm x", "ls || rm x", "ls | xargs rm", "ls | tee x", "rm x; ls", "ls | sh", "ls |& sh",
        "ls;rm x;ls", "ls&&rm x", "find . -name x | xargs rm", "git status && git commit -m x",
    ],
    "assignments": [
        "A=1 ls", "PATH=. ls", "A=1", "LD_PRELOAD=x ls", "GIT_PAGER=x git log", "A+=1 ls", "export A=1", "A[0]=1 ls",
    ],
    "line breaks and odd characters": [
        "ls\nrm x", "ls\n\nls", "ls \\\n -l", "ls |\nwc -l", "ls &&\nls", "ls 'a\nb'", "ls\rrm x", "ls \r",
        "ls\x00rm x", "ls \x00", "ls\xa0x", "ls\u2003x", "ls\u3000x", "ls \u200bx", "ls \u202ex", "ls\u2028rm x",
        "ls\x0brm", "ls\x0crm", "ls \x1b[31m", "ls \x7f", "ls \ud800", "ls\x85rm x", "ls \ufeffx",
    ],
    "comments": [
        "ls # rm", "ls #", "ls -l # x; rm x", "#", "ls;#",
    ],
    "broken syntax": [
        "ls 'a", 'ls "a', "ls \\", "ls (", "ls )", "ls }", "ls `", "ls $(", "ls <", "ls >", "ls 2>&", "ls [ (",
        "ls ''' ",
    ],
}  # fmt: skip


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
    return all(words[0].text in {name.split()[0] for name in RULES} | {"find"} for words in split_words(command) or [])


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
    known = [(command, words[0]) for command in commands if (words := split_words(command)) and is_ephemeral(command)]
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
    words = split_words("ls a* '*' \"?\" \\* b'c'[d]")
    assert words is not None
    assert words[0][1:] == [Word("a*", 1), Word("*"), Word("?"), Word("*"), Word("bc[d]", 2)]


def test_every_flag_of_every_rule_is_well_formed() -> None:
    for name, rule in RULES.items():
        assert rule.flags, name
        for flag, kind in rule.flags.items():
            assert flag == "-NUM" or (flag.startswith("--") and len(flag) > 3) or len(flag) == 2, (name, flag)
            assert kind in ("", ":", "?", "="), (name, flag)
