"""Completion, in the real shells: commands and flags, and what only the server knows."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.client.scripted_run import ScriptedRun
from tests.client.scripted_server import ScriptedServer
from tests.client.terminal import terminal

BIN = Path(sys.executable).parent
#: Defines ``offers``, which prints what the shell would offer for the command line it is given, a word a line.
BASH = """
source <(flower-client completion bash)
offers() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _flower_client_completion flower-client
           printf '%s\\n' "${COMPREPLY[@]}"; }
"""
Offers = Callable[..., list[str]]
ARGV = "import os, sys; os.execvp(sys.argv[1], sys.argv[1:])"


def needs(shell: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(shell) is None, reason=f"there is no {shell} here")


def ask_shell(shell: str, script: str, url: str, home: Path) -> list[str]:
    environ = {"PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(home), "FLOWER_URL": url, "LANG": "C.UTF-8"}
    command = [shell, "-c", script]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split("\n")[:-1]


@pytest.fixture
def offers(server: ScriptedServer, tmp_path: Path) -> Offers:
    def ask(*words: str) -> list[str]:
        line = " ".join(f"'{word}'" for word in words)
        return ask_shell("bash", f"{BASH}\noffers flower-client {line}", server.url, tmp_path)

    return ask


@needs("bash")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["sh"], ["show"]),
        (["watch", "--exit"], ["--exit-on-ask"]),
        (["--json", "runs", "--js"], ["--json"]),
        (["completion", ""], ["bash", "zsh", "fish"]),
        (["watch", "r1", "--on-ask", "de"], ["decline"]),
        (["show", ""], ["r2", "r1"]),
        (["answer", "r1", ""], ["q1"]),
        (["docs", "r1", "b"], ["brief"]),
    ],
    ids=" ".join,
)
def test_bash_offers(
    server: ScriptedServer, run: ScriptedRun, offers: Offers, words: list[str], expected: list[str]
) -> None:
    server.add(ScriptedRun("r2"))
    run.ask("q1", "Rye?\nOr\twheat, perhaps", ["yes", "no"])
    run.documents |= {"brief": "# Brief", "goal": "# Goal"}
    assert offers(*words) == expected


@needs("bash")
def test_what_a_shell_would_act_on_is_never_offered(server: ScriptedServer, run: ScriptedRun, offers: Offers) -> None:
    for hostile in ("$(touch owned)", "r3 r4", "*", "-rf", "r5\nr6"):
        server.add(ScriptedRun(hostile))
    assert offers("show", "") == ["r1"]


@needs("bash")
def test_without_a_server_nothing_is_offered_and_nothing_is_said(server: ScriptedServer, offers: Offers) -> None:
    server.stop()
    assert offers("show", "") == [""]


@needs("bash")
def test_a_server_that_does_not_answer_is_waited_for_two_seconds(server: ScriptedServer, offers: Offers) -> None:
    server.faults.append(lambda answer: time.sleep(6))
    begun = time.monotonic()
    assert offers("show", "") == [""]
    assert time.monotonic() - begun < 5


@needs("fish")
def test_fish_offers_with_what_it_means(server: ScriptedServer, run: ScriptedRun, tmp_path: Path) -> None:
    run.ask("q1", "Rye?")
    load = "flower-client completion fish | source; "
    shown = ask_shell("fish", f"{load} complete -C 'flower-client answer r1 '", server.url, tmp_path)
    assert [line.split("\t")[0] for line in shown] == ["q1"]
    assert "watch" in ask_shell("fish", f"{load} complete -C 'flower-client wat'", server.url, tmp_path)[0]


@needs("zsh")
def test_zsh_completes_what_is_typed(server: ScriptedServer, run: ScriptedRun, tmp_path: Path) -> None:
    run.ask("q1", "Rye?")
    with terminal("zsh", "-f", "-i", home=tmp_path, url=server.url, program=("-c", ARGV)) as shell:
        shell.type(f"PATH={BIN}:$PATH; PS1='ready''> '; autoload -U compinit; compinit -D\n")
        shell.see(r"ready> ")
        shell.type("source <(flower-client completion zsh); print load''ed\n")
        shell.see("loaded")
        shell.type("flower-client sho\tr\t; exit\n")
        shell.see(re.escape("run:               r1"))
        shell.see("state: +waiting")
