"""Nothing that comes from elsewhere can act on the terminal."""

from __future__ import annotations

import json
import time
import unicodedata

import pytest
from flower_client.safe_text import clean, json_line, one_line

ATTACKS = {
    "colour": ("\x1b[31mred\x1b[0m", "red"),
    "cursor": ("a\x1b[2J\x1b[1;1Hb", "ab"),
    "private mode": ("\x1b[?1049hx", "x"),
    "title, BEL": ("\x1b]0;owned\x07x", "x"),
    "title, ST": ("\x1b]0;owned\x1b\\x", "x"),
    "link": ("\x1b]8;;http://evil\x1b\\click\x1b]8;;\x1b\\", "click"),
    "clipboard, C1": ("\x9d52;c;aGk=\x9cx", "x"),
    "control sequence, C1": ("\x9b31mx", "x"),
    "device string": ("\x1bP+q544e\x1b\\x", "x"),
    "unterminated title": ("\x1b]0;rest of it", "0;rest of it"),
    "escape at the end": ("x\x1b", "x"),
    "reset": ("\x1bcx", "x"),
    "charset": ("\x1b(0x", "x"),
    "nested": ("\x1b\x1b[31mx", "x"),
    "backspace over": ("safe\x08\x08\x08\x08evil", "safeevil"),
    "return over": ("safe\revil", "safe\nevil"),
    "line ends": ("a\r\nb\x0bc\u2028d\x85e", "a\nb\nc\nd\ne"),
    "NUL and bell": ("a\x00b\x07c\x7f", "abc"),
    "tab": ("a\tb", "a\tb"),
    "bidi": ("photo\u202egpj.exe", "photo<U+202E>gpj.exe"),
    "isolate": ("\u2066x\u2069", "<U+2066>x<U+2069>"),
    "surrogate": ("a\ud800b", "a\ufffdb"),
    "tags": ("a\U000e0041b", "ab"),
    "honest": ("naïve 中文 👩‍👩‍👧 é", "naïve 中文 👩‍👩‍👧 é"),
}


@pytest.mark.parametrize(("given", "shown"), ATTACKS.values(), ids=ATTACKS.keys())
def test_clean_leaves_only_what_can_be_read(given: str, shown: str) -> None:
    assert clean(given) == shown


def test_of_marks_in_stacks_only_as_many_stay_as_a_language_needs() -> None:
    assert clean("z" + "\u0301\u0323\u20dd" * 200 + "y") == "z" + "\u0301\u0323\u20dd" * 2 + "\u0301\u0323y"


def test_no_control_character_survives_whatever_stands_around_it() -> None:
    for code in [*range(0x20), *range(0x7F, 0xA0), 0x202E, 0xD800, 0xFEFF]:
        shown = clean(f"a{chr(code)}[0m{chr(code)}b")
        left = {char for char in shown if unicodedata.category(char) in ("Cc", "Cf", "Cs")} - {"\n", "\t"}
        assert not left, hex(code)


def test_cleaning_a_megabyte_of_broken_escapes_takes_no_time() -> None:
    started = time.monotonic()
    for broken in ("\x1b]", "\x1b[", "\x1b[1;", "\x9d", "\x1bP\x1b", "\x1b ", "\x9b0"):
        clean(broken * 100_000)
        clean(broken + "1" * 500_000 + broken + " " * 500_000)
    assert time.monotonic() - started < 10  # a quadratic scan takes minutes


def test_one_line_is_one_line_and_bounded() -> None:
    assert one_line("a\n\n  b\tc") == "a b c"
    assert one_line("x" * 300, 10) == "x" * 9 + "…"


def test_json_lines_are_safe_and_say_the_same() -> None:
    value = {given: shown for given, shown in ATTACKS.values() if "\ud800" not in given}
    line = json_line(value)
    assert json.loads(line) == value
    assert clean(line) == line
    assert "中文" in line
    assert json_line({"a": "\ud800"}) == '{"a": "\\ud800"}'
