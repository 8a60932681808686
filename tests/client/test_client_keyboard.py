"""Lines carry what was on the screen when they were typed."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import termios
from collections.abc import Iterator

import pytest
from flower_client.keyboard import CUT, KEYS, LONGEST_LINE, OVERTAKEN, InputClosed, Keyboard, Line

from tests.support import eventually

Got = list[Line | InputClosed]


@contextlib.contextmanager
def pipe() -> Iterator[tuple[int, int]]:
    read, write = os.pipe()
    try:
        yield read, write
    finally:
        for fd in (read, write):
            with contextlib.suppress(OSError):
                os.close(fd)


@pytest.fixture
def got() -> Got:
    return []


def test_lines_come_as_they_are_typed_and_then_the_end(got: Got) -> None:
    with pipe() as (read, write):
        keyboard = Keyboard(read, got.append)
        keyboard.start()
        os.write(write, "first\r\nzwei ä".encode()[:-1])
        eventually(lambda: got == [Line("first")])
        os.write(write, "ä".encode()[-1:] + b"\n\nlast")
        os.close(write)
        eventually(lambda: InputClosed() in got)
        keyboard.stop()
    assert got == [Line("first"), Line("zwei ä"), Line(""), Line("last"), InputClosed()]


def test_a_line_belongs_to_what_was_shown_when_it_was_begun_however_late_it_is_read(got: Got) -> None:
    with pipe() as (read, write):
        keyboard = Keyboard(read, got.append)  # not started: nobody has read anything yet
        os.write(write, b"for the inbox\nhalf of")
        keyboard.show("q1")
        os.write(write, b" it\nto q1\n")
        keyboard.show("q2")
        assert got == [Line("for the inbox"), Line("half of it", "q1", OVERTAKEN), Line("to q1", "q1")]
        keyboard.start()
        os.write(write, b"late\n")
        eventually(lambda: len(got) == 4)
        keyboard.stop()
    assert got[3] == Line("late", "q2")


def test_a_line_under_way_in_a_terminal_is_kept_from_what_overtakes_it(got: Got) -> None:
    master, slave = pty.openpty()
    try:
        before = termios.tcgetattr(slave)
        keyboard = Keyboard(slave, got.append)
        keyboard.start()
        os.write(master, "for the inbox\nhalf öf".encode())
        eventually(lambda: "half öf".encode() in os.read(master, 1024))  # echoed, so it has arrived
        keyboard.show("q1")
        os.write(master, b" it")
        eventually(lambda: b" it" in os.read(master, 1024))
        keyboard.show("q2")
        os.write(master, b"\n2\n")
        eventually(lambda: len(got) == 3)
        keyboard.stop()
        assert termios.tcgetattr(slave) == before
    finally:
        os.close(master)
        os.close(slave)
    assert got == [Line("for the inbox"), Line("half öf it", "q2", OVERTAKEN), Line("2", "q2")]


def test_a_line_that_the_terminal_cut_or_that_holds_keys_is_marked(got: Got) -> None:
    master, slave = pty.openpty()
    try:
        keyboard = Keyboard(slave, got.append)
        keyboard.start()
        for text in ("a" * 10_000, "ä" * 3000, "b" * (LONGEST_LINE - 1), "\x1b[A", "a\x16\x00b", "a\tb"):
            os.write(master, f"{text}\n".encode())
        eventually(lambda: len(got) == 6)
        keyboard.stop()
    finally:
        os.close(master)
        os.close(slave)
    assert all(isinstance(line, Line) for line in got)
    assert [line.unfit for line in got if isinstance(line, Line)] == [CUT, CUT, "", KEYS, KEYS, ""]
    assert got[0] == Line("a" * LONGEST_LINE, "", CUT)


def test_what_comes_through_a_pipe_is_taken_as_it_is(got: Got) -> None:
    with pipe() as (read, write):
        keyboard = Keyboard(read, got.append)
        keyboard.start()
        for text in ("a" * 10_000, "\x1b[A"):
            os.write(write, f"{text}\n".encode())
        eventually(lambda: len(got) == 2)
        keyboard.stop()
    assert got == [Line("a" * 10_000), Line("\x1b[A")]


def test_stop_ends_it_while_nothing_is_typed_and_leaves_the_rest_unread(got: Got) -> None:
    with pipe() as (read, write):
        keyboard = Keyboard(read, got.append)
        keyboard.start()
        keyboard.stop()
        os.write(write, b"for the shell\n")
        assert os.read(read, 100) == b"for the shell\n"
    assert got == []


def test_the_end_of_input_is_told_once_whoever_meets_it(got: Got) -> None:
    master, slave = pty.openpty()
    try:
        keyboard = Keyboard(slave, got.append)
        os.write(master, b"\x04")
        eventually(lambda: select.select([slave], [], [], 0)[0])
        keyboard.show("q1")
        assert got == [InputClosed()]
        os.write(master, b"more\n")
        keyboard.start()
        keyboard.stop()
    finally:
        os.close(master)
        os.close(slave)
    assert got == [InputClosed()]
