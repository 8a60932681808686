"""Signals that end the process: the books are written first, and never by code that would wait for itself."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading

import pytest

from flower_core.rescue import rescued_on_signals, undisturbed

HEAD = """
import os, signal, sys, time
from flower_core.rescue import rescued_on_signals, undisturbed

def say(word):
    print(word, flush=True)

def die(number=signal.SIGTERM):
    os.kill(os.getpid(), number)
    time.sleep(0)
"""


def after(program: str) -> tuple[list[str], int]:
    """What a process said that ran ``program``, and how it ended."""
    done = subprocess.run(
        [sys.executable, "-c", HEAD + program], capture_output=True, text=True, check=False, timeout=30
    )
    assert done.stderr == ""
    return done.stdout.split(), done.returncode


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_signal_rescues_and_then_ends_the_process(name: str) -> None:
    program = f"with rescued_on_signals(lambda: say('rescued')):\n    die(signal.{name})\n    say('lived')"
    assert after(program) == (["rescued"], -getattr(signal, name))


def test_nested_steps_are_all_rescued_and_the_outer_one_also_after_the_inner_has_ended() -> None:
    program = """
outer, inner = rescued_on_signals(lambda: say('outer')), rescued_on_signals(lambda: say('inner'))
first = rescued_on_signals(lambda: say('first'))
first.__enter__(); outer.__enter__(); first.__exit__(None, None, None)
with inner:
    pass
die()
"""
    assert after(program) == (["outer"], -signal.SIGTERM)


def test_with_all_steps_ended_a_signal_just_ends_the_process() -> None:
    assert after("with rescued_on_signals(lambda: say('rescued')): pass\ndie()") == ([], -signal.SIGTERM)


def test_a_handler_of_the_programs_own_is_left_alone() -> None:
    program = """
signal.signal(signal.SIGTERM, lambda *_: say('own'))
with rescued_on_signals(lambda: say('rescued')):
    die()
    say('lived')
"""
    assert after(program) == (["own", "lived"], 0)


def test_while_undisturbed_the_rescue_waits_for_the_end_of_it() -> None:
    program = """
with rescued_on_signals(lambda: say('rescued')):
    with undisturbed():
        die()
        say('written')
    say('lived')
"""
    assert after(program) == (["written", "rescued"], -signal.SIGTERM)


def test_a_rescue_that_fails_does_not_keep_the_process_alive() -> None:
    program = "sys.stderr = open(os.devnull, 'w')\nwith rescued_on_signals(lambda: 1 / 0):\n    die()\n    say('lived')"
    assert after(program) == ([], -signal.SIGTERM)


def test_outside_the_main_thread_nothing_is_installed() -> None:
    found: list[object] = []

    def look() -> None:
        with rescued_on_signals(lambda: None), undisturbed():
            found.append(signal.getsignal(signal.SIGTERM))

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=look)
    thread.start()
    thread.join(10)
    assert found == [before]
