"""Long lines in terminals of any width."""

from __future__ import annotations

import io
import os
import pty
import termios
import time

import pytest
from flower_client.screen import Screen
from flower_client.wrap import width, wrap

TEXTS = {
    "words": "the quick brown fox jumps over the lazy dog and comes back again",
    "coloured": "\x1b[31mthe quick brown fox jumps\x1b[0m over the lazy dog",
    "an option": "   12) a long option that goes on for more than one line",
    "Chinese": "中文没有空格，所以可以在任何地方换行。但是标点不能在行首，是吗？",
    "both": "mixed 中文 and english 中文字 words",
    "combining": "cafe\u0301 " * 12,
    "emoji": "👩‍👩‍👧 " * 9,
    "full width": "ＡＢＣＤＥＦＧＨＩＪ" * 3,
}


@pytest.mark.parametrize("columns", [10, 20, 33, 80])
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_no_line_is_wider_than_the_terminal_and_nothing_is_lost(text: str, columns: int) -> None:
    lines = wrap(text, columns)
    assert max(map(width, lines)) <= columns
    assert "".join("".join(lines).split()) == "".join(text.split())


def test_further_lines_stand_under_the_text_of_the_first() -> None:
    assert wrap("   12) one two three four", 20) == ["   12) one two three", "       four"]
    assert wrap("verdict   one two three", 20) == ["verdict   one two", "          three"]
    assert wrap("- one two three four", 11) == ["- one two", "  three", "  four"]


def test_a_long_word_stays_whole_so_that_it_can_be_copied() -> None:
    address = "https://example.org/" + "x" * 60
    assert wrap(f"see {address} for these two words", 20) == [f"see {address} for these two", "words"]


def test_no_line_of_chinese_begins_with_what_closes_a_phrase_and_joined_emoji_stay_together() -> None:
    for columns in range(10, 30):
        assert not any(line[0] in "，。？" for line in wrap(TEXTS["Chinese"], columns))
        assert not any(line.startswith("\u200d") or line.endswith("\u200d") for line in wrap(TEXTS["emoji"], columns))


def test_widths() -> None:
    assert [width(text) for text in ("abc", "中文", "e\u0301", "\x1b[1mab\x1b[0m", "Ａ", "👍")] == [3, 4, 1, 2, 2, 2]


def test_a_hundred_thousand_characters_take_no_time() -> None:
    begun = time.monotonic()
    for text in ("x" * 100_000, "中" * 100_000, "ab " * 33_000, "\x1b[31m" * 20_000, " " * 100_000, "e\u0301" * 50_000):
        wrap(text, 20)
    assert time.monotonic() - begun < 10  # a quadratic way takes minutes


def test_a_terminal_is_asked_for_its_width_at_every_line() -> None:
    master, slave = pty.openpty()
    try:
        with open(slave, "w", encoding="utf-8", closefd=False) as out:
            screen = Screen(out, io.StringIO())
            for columns, expected in ((20, "one two three four\r\nfive"), (12, "one two\r\nthree four\r\nfive")):
                termios.tcsetwinsize(slave, (24, columns))
                screen.lines(["one two three four five"])
                assert os.read(master, 1000).decode() == f"{expected}\r\n"
    finally:
        os.close(master)
        os.close(slave)


def test_what_is_no_terminal_and_lines_for_programs_stay_whole() -> None:
    out = io.StringIO()
    Screen(out, out).lines(["word " * 100])
    assert out.getvalue() == "word " * 100 + "\n"
    master, slave = pty.openpty()
    try:
        termios.tcsetwinsize(slave, (24, 20))
        with open(slave, "w", encoding="utf-8", closefd=False) as terminal:
            Screen(terminal, out, wraps=False).lines(['{"one": "two three four five six"}'])
        assert os.read(master, 1000).decode() == '{"one": "two three four five six"}\r\n'
    finally:
        os.close(master)
        os.close(slave)
