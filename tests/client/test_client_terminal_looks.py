"""What watch looks like in terminals of all kinds, whatever events hold."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from flower_client.wrap import width

from tests.client.scripted_run import ScriptedRun
from tests.client.scripted_server import ScriptedServer
from tests.client.terminal import terminal

#: Colours and nothing else: the only escape sequences that are ours.
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
HOSTILE = (
    "\x1b]0;owned\x07\x1b[2J\x1b[1;1Hvisible\x9b31m\u202egpj",
    "\x1b]52;c;aGk=\x1b\\safe\rover\x00\x08\x08\x08\x07",
    "\x1bP+q544e\x1b\\\x1bc\x1b(0\x1b[?1049h\x1b]8;;http://evil",
    "z\u0300" * 300,
    "\x1b[",
)
KINDS = ("text", "thinking", "tool_call", "tool_result", "step", "retry", "handoff", "error", "result", "system", "new")


@pytest.mark.parametrize(
    ("environ", "coloured"),
    [({"NO_COLOR": ""}, True), ({}, False), ({"NO_COLOR": "", "TERM": "dumb"}, False)],
    ids=["colours", "NO_COLOR", "dumb"],
)
def test_nothing_in_an_event_acts_on_the_terminal(
    server: ScriptedServer, run: ScriptedRun, tmp_path: Path, environ: dict[str, str], coloured: bool
) -> None:
    payload = {"is_error": True, "input": {HOSTILE[0]: HOSTILE[1]}, "subagent": HOSTILE[0], "error": HOSTILE[2]}
    for kind in KINDS:
        for text in HOSTILE:
            run.append(kind, text, {} if kind == "text" else payload, tool=HOSTILE[0])
    run.finish("failed", error=HOSTILE[1], verdict={"state": HOSTILE[0], "reason": HOSTILE[2], "failed": [HOSTILE[0]]})
    flags = ("--show", "all", "--subagents", "--from-start")
    with terminal("watch", "r1", *flags, home=tmp_path, url=server.url, environ=environ) as opened:
        opened.see(r"visible<U\+202E>gpj")
        opened.see("safe\nover\n")
        assert opened.exit_code(20) == 1
        seen = opened.rest()
    assert (COLOURS.search(seen) is not None) is coloured
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", COLOURS.sub("", seen))


def test_a_line_of_a_hundred_thousand_characters_and_thirty_options_can_be_read_at_twenty_columns(
    server: ScriptedServer, run: ScriptedRun, tmp_path: Path
) -> None:
    run.say("word " * 20_000)
    options = [f"\x1b[31mflour number {number}, 中文面粉很好很好很好" for number in range(1, 31)]
    run.ask("q1", "Which of all the flours that there are\x1b[2J?", options)
    with terminal("watch", "r1", "--from-start", home=tmp_path, url=server.url, columns=20) as opened:
        opened.see(r"\(92000 more")
        question = opened.see(r"\? q1(.|\n)*q1> ")
        opened.type("30\n")
        opened.see("q1  answered by")
    assert max(map(width, question.splitlines())) <= 20
    assert "   30) flour number\n       30, 中文面粉\n       很好很好很好\n" in question
    assert run.asks["q1"]["answer"] == options[29]


def test_lines_follow_the_width_of_the_window(server: ScriptedServer, run: ScriptedRun, tmp_path: Path) -> None:
    with terminal("watch", "r1", home=tmp_path, url=server.url, columns=80) as opened:
        opened.see("· run created")
        run.say("one two three four five six seven")
        opened.see("\none two three four five six seven\n")
        run.ask("q1", "Which?")
        opened.see("q1> ")
        opened.type("my ans")
        opened.resize(20)
        run.say("one two three four five six seven")
        opened.see("\none two three four\nfive six seven\nq1> ")
        opened.type("wer\n")
        opened.see("q1  answered by")
    assert run.asks["q1"]["answer"] == "my answer"
