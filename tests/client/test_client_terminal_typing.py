"""Lines typed in a real terminal: those that had better not be sent, may not have arrived, or are long."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.client.scripted_run import ScriptedRun
from tests.client.scripted_server import Answer, ScriptedServer
from tests.client.terminal import CTRL_C, Terminal, terminal


def test_a_line_with_an_arrow_key_or_one_too_long_for_a_terminal_is_not_sent(
    watching: Terminal, run: ScriptedRun
) -> None:
    run.ask("q1", "Which flour?", ["rye", "spelt"])
    watching.see("q1> ")
    watching.type("\x1b[A\n")
    watching.see("not sent, as a key such as an arrow got into it")
    watching.see("q1> ")
    watching.type("a" * 5000 + "\n")
    watching.see("not sent, as a terminal cuts lines off at 4095 bytes")
    watching.see("q1> ")
    assert run.asks["q1"]["state"] == "asked"
    watching.type("2\n")
    watching.see("q1  answered by tester: spelt")
    watching.type("less salt\x1b[D\n")
    watching.see("not sent, as a key such as an arrow got into it: less salt\n")
    assert run.mail == []


def test_what_may_have_been_sent_is_not_said_to_be_unsent(
    watching: Terminal, server: ScriptedServer, run: ScriptedRun
) -> None:
    def deaf(answer: Answer) -> None:
        server.faults.append(deaf)

    server.faults.append(deaf)
    watching.type("more salt\n")
    watching.see("\nperhaps not sent: .*It may have been carried out all the same")
    assert run.mail == ["more salt"]
    server.stop()
    watching.type("less salt\n")
    watching.see("\nnot sent: .*Connection refused")


def test_the_task_may_be_longer_than_a_line_of_the_terminal_and_corrected_with_arrow_keys(
    server: ScriptedServer, tmp_path: Path
) -> None:
    pytest.importorskip("readline")
    with terminal("start", home=tmp_path, url=server.url) as opened:
        opened.see("What is to be done")
        opened.type("b" * 6000 + "x\x1b[Da\n")
        opened.see("r1\n")
        assert opened.exit_code() == 0
    assert server.runs["r1"].task == "b" * 6000 + "ax"


def test_after_ctrl_c_nothing_stands_behind_what_the_terminal_shows_of_it(
    server: ScriptedServer, run: ScriptedRun, tmp_path: Path
) -> None:
    with terminal("events", "r1", "--follow", home=tmp_path, url=server.url) as opened:
        opened.see("run.created.*\n")
        opened.type(CTRL_C)
        opened.see(r"\^C")  # shown once the signal has been sent
        run.say("more")  # ends a read that began before it came
        opened.see(r"^\n")
        assert opened.exit_code() == 130
