"""How processes descend from each other, and ending an agent program that does not heed us any more."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path

#: Seconds between asking and forcing. Asked (SIGTERM) it takes 0.2 s, writes down its cost and stops its command.
_ASK_S = 1.0


async def end_process(process: int) -> None:
    """Have our child ``process`` end: it is asked, and what is left of it and its descendants a second later is killed.

    The id is the agent program's own word, and with root's rights any process could be meant: what is no child of this
    process is left alone. Descendants, and whose child it is, are found on Linux only; elsewhere a command may outlive
    an agent program that had to be killed.
    """
    if not _is_child(process):
        return
    with contextlib.ExitStack() as handles:
        # A command is a session of its own, so neither signal nor process group reaches it once its parent has gone.
        members = (process, *descendants_of(process))
        family = [handles.enter_context(ProcessHandle(member)) for member in members]
        family[0].send(signal.SIGTERM)
        await asyncio.sleep(_ASK_S)
        for member in family:
            member.send(signal.SIGKILL)


def _is_child(process: int) -> bool:
    if sys.platform != "linux":
        return True
    with contextlib.suppress(OSError):  # it has gone
        return parent_of(process) == os.getpid()
    return False


def parent_of(process: int) -> int:
    """The id of the parent of ``process``, 0 for one that has none (Linux). Raises OSError when it has gone."""
    # The program's name stands in parentheses and may hold any character, parentheses included.
    return int(Path(f"/proc/{process}/stat").read_text(errors="replace").rpartition(")")[2].split()[1])


def all_processes() -> set[int]:
    """The ids of all processes there are (Linux; elsewhere none)."""
    return {int(entry.name) for entry in Path("/proc").glob("[0-9]*")}


def descendants_of(process: int) -> list[int]:
    """The children of ``process``, theirs, and so on (Linux; elsewhere none)."""
    children: dict[int, list[int]] = {}
    for each in all_processes():
        with contextlib.suppress(OSError):  # it has gone
            children.setdefault(parent_of(each), []).append(each)
    found = list(children.get(process, ()))
    for child in found:
        found += children.get(child, ())
    return found


class ProcessHandle:
    """Holds on to one process, so that no signal can reach another one that has got its id since. A context manager."""

    def __init__(self, process: int) -> None:
        self._process = process
        self._fd = -1
        if hasattr(os, "pidfd_open"):
            with contextlib.suppress(OSError):  # it has gone
                self._fd = os.pidfd_open(process)

    def __enter__(self) -> ProcessHandle:
        return self

    def __exit__(self, *_exc: object) -> None:
        if self._fd >= 0:
            os.close(self._fd)

    def send(self, number: signal.Signals) -> bool:
        """Send a signal; False when the process has gone, or is another user's."""
        try:
            if self._fd >= 0:
                signal.pidfd_send_signal(self._fd, number)
            elif hasattr(os, "pidfd_open"):
                return False
            else:
                os.kill(self._process, number)
        except OSError:
            return False
        return True
