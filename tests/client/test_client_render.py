"""Events as lines: what is shown, what is hidden, and how."""

from __future__ import annotations

from typing import Any

import pytest
from flower_client import Ask, Event, Loss, Run
from flower_client.prompt import DECLINE, Choice, Questions, first_option, interpret
from flower_client.render import DEFAULT_SHOW, LONGEST, Renderer, duration, table


def event(kind: str, text: str = "", tool: str = "", /, **payload: Any) -> Event:
    return Event(1, kind, text, tool, payload=payload)


def shown(given: Event, *show: str, subagents: bool = False) -> list[str]:
    names = frozenset(show) if show else DEFAULT_SHOW
    return Renderer(show=names, subagents=subagents, colour=False).event(given)


@pytest.mark.parametrize(
    ("given", "lines"),
    [
        (event("step", "Work", index=3, total=3), ["", "── 3/3 Work ──"]),
        (event("step", "Work", index=3, total=3, woke=True), ["", "── 3/3 Work (woke) ──"]),
        (event("step", "Work·verdict#2"), ["", "·· Work·verdict#2"]),
        (event("step", "Work#round2", index=3, total=3, resumed=True), ["", "·· 3/3 Work#round2 (resumed)"]),
        (event("tool_call", "", "mcp__human__inbox"), ["  [mcp__human__inbox]"]),
        (event("text", "a\n\nb\n"), ["a", "", "b"]),
        (event("tool_call", "ls\n-la", "Bash"), ["  [Bash] ls -la"]),
        (event("tool_result", "no such file", is_error=True), ["    failed: no such file"]),
        (event("retry", "again in 4 s"), ["↻ again in 4 s"]),
        (event("handoff", "170k of 200k"), ["⇢ 170k of 200k"]),
        (event("error", "overloaded"), ["error: overloaded"]),
        (event("reset", "compacted"), ["(compacted)"]),
        (event("result", "error_max_turns", is_error=True), ["this turn did not end well (error_max_turns)"]),
        (event("task", unverifiable=["a", "b"], total=7), ["warning: 2 of 7 checks cannot be verified here"]),
        (event("ask", "hi", kind="mail", id="m1", state="delivered"), ["✉ delivered: hi"]),
        (event("ask", "?", id="q1", state="timeout"), ["? q1  timeout"]),
        (event("system", "run.interrupted", error="the server went down"), ["· run interrupted: the server went down"]),
    ],
)
def test_what_matters_is_always_a_line(given: Event, lines: list[str]) -> None:
    assert shown(given) == lines


@pytest.mark.parametrize(
    ("given", "show"),
    [
        (event("thinking", "hm"), "thinking"),
        (event("text", "words"), "text"),
        (event("tool_call", "ls", "Bash"), "tools"),
        (event("prompt", "do it"), "all"),
        (event("tool_result", "fine"), "all"),
        (event("result", "success"), "all"),
        (event("system", "init"), "all"),
        (event("hologram", "new"), "all"),
    ],
)
def test_the_rest_is_shown_on_request(given: Event, show: str) -> None:
    nothing = frozenset[str]()
    assert Renderer(show=nothing, colour=False).event(given) == []
    assert shown(given, show)
    assert shown(given, "all")


def test_tool_calls_and_results_are_one_line_each_and_shown_in_full_on_request() -> None:
    call = event("tool_call", "ls -la", "Bash", input={"command": "ls -la\nwc -l *", "timeout": 5})
    result = event("tool_result", "a\nb")
    assert shown(call) == ["  [Bash] ls -la"]
    assert shown(result) == []
    assert shown(call, "all") == ["  [Bash]", "    command: ls -la", "      wc -l *", "    timeout: 5"]
    assert shown(result, "all") == ["    = a", "    b"]
    assert shown(event("tool_result", "a\nb", is_error=True)) == ["    failed: a b"]


def test_of_a_very_long_text_the_beginning_is_shown_and_the_rest_on_request() -> None:
    said = event("text", "x" * 100_000)
    assert shown(said) == ["x" * LONGEST, "(92000 more characters; --show all shows them)"]
    assert shown(said, "all") == ["x" * 100_000]
    assert shown(event("text", "a" + "\n \n\n" * 1000 + "b")) == ["a", "", "b"]


def test_thirty_options_stand_in_one_column() -> None:
    lines = Renderer(colour=False).question(Ask("q1", "Which?", tuple(f"flour {number}" for number in range(1, 31))))
    assert lines[2] == "    1) flour 1"
    assert lines[-1] == "   30) flour 30"


def test_subagents_are_hidden_or_marked() -> None:
    said = event("text", "a\nb", subagent="coder", parent_tool_use_id="t1")
    assert shown(said) == []
    assert shown(said, subagents=True) == ["  coder │ a", "  coder │ b"]


@pytest.mark.parametrize("payload", [{"index": "x"}, {"index": None, "total": []}, {"woke": 1}, {"subagent": 5}])
@pytest.mark.parametrize("kind", ["step", "text", "ask", "task", "tool_result", "system", "result", "mystery"])
def test_no_payload_can_break_it(kind: str, payload: dict[str, Any]) -> None:
    for text in ("", "x", "run."):
        assert isinstance(shown(event(kind, text, **payload), "all", subagents=True), list)


def test_colour_is_the_only_escape_sequence_and_can_be_off() -> None:
    coloured = Renderer(colour=True).event(event("error", "bad\x1b[2J"))
    assert coloured == ["\x1b[31merror: bad\x1b[0m"]


def test_a_question_ends_with_the_number_of_questions_left_where_there_is_a_quota() -> None:
    renderer = Renderer(colour=False)
    assert renderer.question(Ask("q1", "Rye?\nReally?", ("yes", "no"), remaining=3)) == [
        "",
        "? q1  Rye?",
        "      Really?",
        "   1) yes",
        "   2) no",
        "   (3 questions left)",
    ]
    assert renderer.question(Ask("q1", "Rye?")) == ["", "? q1  Rye?"]


def test_the_summary_tells_why_a_run_did_not_succeed_and_what_was_lost() -> None:
    data = {
        "id": "r1",
        "state": "failed",
        "failed_at": "Work",
        "verdict": {"state": "not_yet", "reason": "no crust", "failed": ["golden"]},
    }
    lines = Renderer(colour=False).summary(Run.from_json(data), [Loss("cursor-expired", 1, 5)])
    assert lines[1:4] == [
        "verdict   not_yet  no crust",
        "          not passed: golden",
        "run       failed  at step Work",
    ]
    assert lines[-1] == "lost      events 1 to 5 are lost (cursor-expired)"


@pytest.mark.parametrize(
    ("start", "end", "words"),
    [
        ("2030-01-01T00:00:00Z", "2030-01-01T00:00:04.6Z", "5 s"),
        ("2030-01-01T00:00:00Z", "2030-01-01T01:02:03Z", "1 h 02 min 03 s"),
        ("2030-01-01T00:00:00Z", "", "unknown"),
        ("2030-01-01T00:00:00", "2030-01-01T00:00:01Z", "unknown"),
    ],
)
def test_durations(start: str, end: str, words: str) -> None:
    assert duration(start, end) == words


def test_cells_of_a_table_are_cleaned() -> None:
    assert table([["a\x1b[31m\nb", "c"]], ["X", "Y"]) == ["X    Y", "a b  c"]


@pytest.mark.parametrize(
    ("line", "meaning"),
    [
        ("1", Choice(option=1)),
        (" 2 ", Choice(option=2)),
        ("２", Choice(option=2)),
        ("", DECLINE),
        ("   ", DECLINE),
        ("two", Choice(text="two")),
        ("2 of them", Choice(text="2 of them")),
        ("-1", Choice(text="-1")),
    ],
)
def test_what_a_line_answers(line: str, meaning: Choice) -> None:
    assert interpret(Ask("q1", "?", ("a", "b")), line) == meaning


def test_a_number_that_is_no_option_is_a_slip_unless_there_are_none() -> None:
    assert isinstance(interpret(Ask("q1", "?", ("a", "b")), "3"), str)
    assert isinstance(interpret(Ask("q1", "?", ("a", "b")), "0"), str)
    assert interpret(Ask("q1", "How many?"), "3") == Choice(text="3")


def test_first_option_declines_without_options() -> None:
    assert first_option(Ask("q1", "?", ("a",))) == Choice(option=1)
    assert first_option(Ask("q1", "?")).declines


def test_a_settled_question_never_waits_again() -> None:
    questions = Questions()
    questions.see(event("ask", "?", id="q1", state="asked"))
    questions.see(event("ask", "said", kind="mail", id="m1", state="queued"))
    assert [ask.id for ask in questions.waiting()] == ["q1"]
    questions.settle("q1")
    questions.see(event("ask", "?", id="q1", state="asked"))
    questions.set_waiting([Ask("q1", "?"), Ask("q2", "?")])
    assert [ask.id for ask in questions.waiting()] == ["q2"]
