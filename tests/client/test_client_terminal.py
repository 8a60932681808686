"""watch in a real terminal: questions, typing ahead, the inbox, Ctrl-C."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.client.scripted_run import ScriptedRun
from tests.client.scripted_server import ScriptedServer
from tests.client.terminal import CTRL_C, CTRL_D, Terminal, terminal
from tests.support import eventually

PROMPT = "q{}> "


def test_a_number_picks_an_option_and_text_answers(watching: Terminal, run: ScriptedRun) -> None:
    run.ask("q1", "Which flour?", ["rye", "spelt"], remaining=4)
    watching.see(r"\? q1  Which flour\?\n   1\) rye\n   2\) spelt\n   \(4 questions left\)\n")
    watching.see("q1> ")
    watching.type("2\n")
    watching.see(r"\? q1  answered by tester: spelt")
    run.ask("q2", "How long?")
    watching.see("q2> ")
    watching.type("two hours, 中文\n")
    watching.see(r"q2  answered by tester: two hours, 中文")
    run.finish()
    watching.see("run       succeeded")
    assert watching.exit_code() == 0
    assert [ask["answer"] for ask in run.asks.values()] == ["spelt", "two hours, 中文"]
    assert run.mail == []


def test_an_empty_line_skips_and_a_number_beyond_the_options_is_asked_again(
    watching: Terminal, run: ScriptedRun
) -> None:
    run.ask("q1", "Which flour?", ["rye", "spelt"])
    watching.see("q1> ")
    watching.type("3\n")
    watching.see("there is no option 3; give 1 to 2")
    watching.see("q1> ")
    assert run.asks["q1"]["state"] == "asked"
    watching.type("\n")
    watching.see("q1  declined")
    assert run.asks["q1"]["state"] == "declined"


def test_what_was_typed_before_a_question_was_shown_is_not_its_answer(watching: Terminal, run: ScriptedRun) -> None:
    watching.type("more salt\n1")  # a whole line, and the beginning of another
    watching.see("✉ queued: more salt")
    run.ask("q1", "Which flour?", ["rye", "spelt"])
    watching.see("q1> ")
    watching.type(" hour\n")  # typed without looking; it neither answers the question nor skips it
    watching.see("not sent, as something came up while you typed it: 1 hour")
    watching.see("q1> ")
    assert run.asks["q1"]["state"] == "asked"
    watching.type("2\n")
    watching.see("q1  answered by tester: spelt")
    assert run.mail == ["more salt"]


def test_the_end_of_an_answer_that_came_too_late_is_not_sent_to_the_agents(
    watching: Terminal, run: ScriptedRun
) -> None:
    run.ask("q1", "Which flour?")
    watching.see("q1> ")
    watching.type("spelt, or el")
    watching.see("spelt, or el")
    run.settle("q1", "answered", "rye", "bot")
    watching.see("q1  answered by bot: rye")
    run.say("going on")
    watching.see("going on")
    watching.type("se rye\n")
    watching.see("not sent, as something came up while you typed it: spelt, or else rye")
    assert run.mail == []


def test_of_two_people_the_later_one_is_told_what_was_answered_and_by_whom(
    watching: Terminal, server: ScriptedServer, run: ScriptedRun, tmp_path: Path
) -> None:
    with terminal("watch", "r1", home=tmp_path, url=server.url) as other:
        run.ask("q1", "Which flour?", ["rye", "spelt"])
        for each in (watching, other):
            each.see("q1> ")
        with run.changed:  # both have sent theirs before either can hear of the other's
            run.asks["q1"] |= {"state": "answered", "answer": "spelt", "answered_by": "ann"}
            other.type("1\n")
            eventually(lambda: server.asked_for("answer"))
        other.see("too late: q1 was answered by ann: spelt")
        run.append("ask", "Which flour?", dict(run.asks["q1"]))
        run.say("going on")
        watching.see("q1  answered by ann: spelt")
        watching.see("going on")
        watching.type("hello\n")
        other.see("✉ queued: hello")
    assert run.mail == ["hello"]


def test_lines_typed_while_the_server_hangs_belong_to_what_was_on_the_screen_then(
    watching: Terminal, run: ScriptedRun
) -> None:
    run.ask("q1", "Which flour?", ["rye", "spelt"])
    watching.see("q1> ")
    with run.changed:  # no request gets through meanwhile
        watching.type("1\n2\n")  # the second line is typed before the next question can be seen
        watching.see("1\n2\n")
        run.ask("q2", "How long?", ["an hour", "two hours"])
    watching.see("q1 was answered by tester: rye; not sent: 2")
    watching.see("q2> ")
    assert [ask["state"] for ask in run.asks.values()] == ["answered", "asked"]


def test_questions_come_one_at_a_time(watching: Terminal, run: ScriptedRun) -> None:
    with run.changed:
        run.ask("q1", "Which flour?", ["rye", "spelt"])
        run.ask("q2", "How long?", ["an hour", "two hours"])
    watching.see("q1> ")
    assert "How long?" not in watching.screen
    watching.type("1\n")
    watching.see(r"How long\?")
    watching.see("q2> ")
    watching.type("1\n")
    watching.see("q2  answered by tester: an hour")
    assert [ask["answer"] for ask in run.asks.values()] == ["rye", "an hour"]


def test_a_question_that_somebody_else_answers_goes_away(watching: Terminal, run: ScriptedRun) -> None:
    run.ask("q1", "Which flour?", ["rye", "spelt"])
    watching.see("q1> ")
    run.settle("q1", "answered", "spelt", "bot")
    watching.see("q1  answered by bot: spelt")
    run.say("going on")
    watching.see("going on")
    watching.type("hello\n")
    watching.see("✉ queued: hello")
    assert run.mail == ["hello"]


def test_a_line_that_starts_with_a_question_mark_asks_the_oracle_while_watching_goes_on(
    watching: Terminal, run: ScriptedRun
) -> None:
    watching.type("? why so slow\n")
    watching.see("asked on the side")
    run.say("still at it")
    watching.see("still at it")  # nothing waits for the answer
    watching.type("go on\n")
    watching.see("✉ queued: go on")
    eventually(lambda: run.questions)  # a thread of its own asks
    run.tell_oracle("It waits\nfor the oven.\x1b[2J")
    watching.see(r"\?\? why so slow\n   It waits\n   for the oven\.")
    assert "\x1b[2J" not in watching.screen
    watching.type("？为什么\n")
    eventually(lambda: len(run.questions) == 2)
    run.tell_oracle(error="the budget is used up")
    watching.see(r"\?\? 为什么\n   no answer: the budget is used up")
    assert [each["question"] for each in run.questions] == ["why so slow", "为什么"]
    assert run.mail == ["go on"]


def test_an_oracle_that_is_busy_or_a_line_without_a_question_harm_nothing(watching: Terminal, run: ScriptedRun) -> None:
    watching.type("?first\n")
    eventually(lambda: run.questions)
    watching.type("?\n？ \n?second\n")
    watching.see("the oracle was not asked, or not heard. a question about this run is being answered")
    run.finish()
    watching.see("run       succeeded")
    assert watching.exit_code() == 0  # nor does a question that is still open keep anybody here
    assert [each["question"] for each in run.questions] == ["first"]


def test_a_question_mark_in_an_answer_is_part_of_it(watching: Terminal, run: ScriptedRun) -> None:
    run.ask("q1", "Which flour?")
    watching.see("q1> ")
    watching.type("? rye perhaps\n")
    watching.see("q1  answered by tester: \\? rye perhaps")
    assert run.questions == []


def test_ctrl_c_can_interrupt_the_run(watching: Terminal, run: ScriptedRun) -> None:
    watching.type(CTRL_C)
    watching.see("What a subagent in flight has half done is lost")
    watching.see("i/l/c> ")
    watching.type("i use less salt\n")
    eventually(lambda: run.interrupts)
    assert run.interrupts == ["use less salt"]
    run.finish()
    watching.see("run       succeeded")
    assert watching.exit_code() == 0


def test_ctrl_c_can_leave_the_run_alone(watching: Terminal, run: ScriptedRun) -> None:
    watching.type(CTRL_C)
    watching.see("i/l/c> ")
    watching.type("l\n")
    watching.see("left running")
    assert watching.exit_code() == 130
    assert (run.state, run.interrupts) == ("running", [])


def test_ctrl_c_can_cancel_the_run(watching: Terminal, run: ScriptedRun) -> None:
    watching.type(CTRL_C)
    watching.see("i/l/c> ")
    watching.type("c\n")
    watching.see("run       cancelled")
    assert watching.exit_code() == 1


def test_ctrl_c_twice_leaves_at_once(watching: Terminal, run: ScriptedRun) -> None:
    watching.type(CTRL_C)
    watching.see("i/l/c> ")
    watching.type(CTRL_C)
    assert watching.exit_code() == 130
    assert run.state == "running"
    assert "Traceback" not in watching.rest()


def test_after_the_menu_the_question_is_asked_again(watching: Terminal, run: ScriptedRun) -> None:
    run.ask("q1", "Which flour?", ["rye", "spelt"])
    watching.see("q1> ")
    watching.type(CTRL_C)
    watching.see("i/l/c> ")
    watching.type("\n")
    watching.see(r"\? q1  Which flour\?")
    watching.see("q1> ")
    watching.type("1\n")
    watching.see("q1  answered by tester: rye")


def test_with_the_input_closed_questions_wait_and_ctrl_c_leaves(watching: Terminal, run: ScriptedRun) -> None:
    watching.type(CTRL_D)
    watching.see("the input has ended")
    run.ask("q1", "Which flour?", ["rye"])
    watching.see("flower-client answer r1 q1 TEXT")
    watching.type(CTRL_C)
    assert watching.exit_code() == 130


def test_the_server_may_restart_while_a_question_is_on_the_screen(
    watching: Terminal, server: ScriptedServer, run: ScriptedRun
) -> None:
    run.ask("q1", "Which flour?", ["rye", "spelt"])
    watching.see("q1> ")
    server.stop()
    watching.see("trying again until the server is back")
    server.start()
    watching.see("the server answers again")
    watching.see("q1> ")
    watching.type("2\n")
    watching.see("q1  answered by tester: spelt")


def test_a_journal_out_of_a_backup_is_told_its_questions_wait_again_and_the_code_is_six(
    watching: Terminal, server: ScriptedServer, run: ScriptedRun
) -> None:
    run.ask("q1", "Which flour?", ["rye", "spelt"])
    watching.see("q1> ")
    watching.type("1\n")
    watching.see("q1  answered by tester: rye")
    server.stop()
    run.lose_journal()
    run.ask("q1", "Which flour?", ["rye", "spelt"])
    server.start()
    watching.see(r"events from 4 on are lost \(epoch-changed\); starting over")
    watching.see("q1> ")
    watching.type("2\n")
    watching.see("q1  answered by tester: spelt")
    run.finish()
    watching.see(r"lost      events from 4 on are lost \(epoch-changed\)")
    assert watching.exit_code() == 6


def test_a_run_that_has_ended_is_shown_and_nothing_is_waited_for(
    server: ScriptedServer, run: ScriptedRun, tmp_path: Path
) -> None:
    run.finish()
    with terminal("watch", "r1", home=tmp_path, url=server.url) as opened:
        opened.type("typed ahead for the shell\n")
        assert opened.exit_code() == 0
        assert "type to say" not in opened.rest()
    assert run.mail == []


def test_start_asks_for_the_task_and_watches(server: ScriptedServer, tmp_path: Path) -> None:
    with terminal("start", "--watch", "--on-ask", "prompt", home=tmp_path, url=server.url) as opened:
        opened.see(r"What is to be done\?: ")
        opened.type("bake bread\n")
        opened.see("r1\n")
        opened.see("· run created")
        run = server.runs["r1"]
        run.ask("q1", "Which flour?", ["rye"])
        opened.see("q1> ")
        opened.type("1\n")
        opened.see("q1  answered")
        run.finish()
        assert opened.exit_code() == 0
    assert run.task == "bake bread"


def test_a_termination_signal_ends_it(watching: Terminal) -> None:
    os.kill(watching.process.pid, signal.SIGTERM)
    assert watching.exit_code() == -signal.SIGTERM
