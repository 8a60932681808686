"""Ending an agent program with its commands, and nothing else, whatever id it gives for its own."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from flower_core.claude.processes import end_process, parent_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
#: Says which process its command is, and goes on until it is killed itself.
STUBBORN = "trap '' TERM; setsid sleep 600 & echo $!; wait; wait"


def test_a_child_ends_with_its_commands_and_what_is_no_child_is_left_alone() -> None:
    with subprocess.Popen(["/bin/sh", "-c", STUBBORN], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        command = int(child.stdout.readline())
        asyncio.run(end_process(command))
        assert (child.poll(), parent_of(command)) == (None, child.pid)
        asyncio.run(end_process(child.pid))
        assert child.wait(20) < 0
        assert child.stdout.read() == "", "the command held the other end of it"


def test_a_process_that_has_gone_needs_no_ending() -> None:
    with subprocess.Popen(["/bin/true"]) as child:
        child.wait(20)
    asyncio.run(end_process(child.pid))
