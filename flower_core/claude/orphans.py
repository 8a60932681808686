"""Stops what an earlier process has left behind: agent programs, and the commands they were running.

The kernel tells an agent program when its parent dies, and it ends cleanly then, its command with it. What is left is
rare and does harm: a command outlives an agent program that was killed with it, and goes on writing where the resumed
agent now works. So agents carry a mark in their environment, which their children inherit. Whoever knows that nothing
of its own carries the mark yet can stop whatever does.

Linux only; elsewhere nothing is found. A command that has thrown away its environment is not found either.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from pathlib import Path

from flower_core.claude.environment import MARK
from flower_core.claude.processes import ProcessHandle, all_processes, parent_of

#: Seconds between asking and forcing, and for all of it. The agent program takes 0.2 s to stop itself and its command.
_ASK_S, _ALL_S = 2.0, 4.0
_LOOK_EVERY_S = 0.02


def mark_of(folder: Path) -> str:
    """A mark for agents whose books are in ``folder``, which exists: it names that directory on this machine."""
    about = folder.stat()
    return f"{about.st_dev:x}-{about.st_ino:x}"


def stop_marked(mark: str, *, ask_s: float = _ASK_S, all_s: float = _ALL_S) -> int:
    """Stop every process that carries ``mark`` in its environment's ``MARK``, and return how many there were.

    They are asked (SIGTERM), from ``ask_s`` seconds on forced (SIGKILL), and given up after ``all_s``. This process and
    those it descends from are left alone.
    """
    if sys.platform != "linux":
        return 0
    begun, spared, known = time.monotonic(), _line_of(os.getpid()), set[int]()
    while True:
        waited = time.monotonic() - begun
        found = {process for process in all_processes() - spared if _stop(process, mark, known, force=waited >= ask_s)}
        known |= found
        if not found or waited > all_s:
            return len(known)
        time.sleep(_LOOK_EVERY_S)


def _stop(process: int, mark: str, asked: set[int], *, force: bool) -> bool:
    """Send the signal that is due if ``process`` carries ``mark``; whether it does."""
    with ProcessHandle(process) as handle:
        try:
            variables = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
        except OSError:  # it has gone, or is another user's
            return False
        if f"{MARK}={mark}".encode() not in variables:
            return False
        if force or process not in asked:
            return handle.send(signal.SIGKILL if force else signal.SIGTERM)
        return True


def _line_of(process: int) -> set[int]:
    """``process``, its parent, and so on."""
    line: set[int] = set()
    with contextlib.suppress(OSError):
        while process and process not in line:
            line.add(process)
            process = parent_of(process)
    return line
