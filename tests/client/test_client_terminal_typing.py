"""watch in a real terminal: what becomes of lines that had better not be sent, or may not have arrived."""

from __future__ import annotations

from tests.client.scripted_run import ScriptedRun
from tests.client.scripted_server import Answer, ScriptedServer
from tests.client.terminal import Terminal


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
