"""Keeps the server's memory to itself: its secrets, and the environment it was started with.

On Linux every process of the same user can read that environment in ``/proc/PID/environ``, where it stays as it was at
the start whatever a program unsets later; and whatever is not unset, each agent program inherits for a moment, until
its launcher has dropped it. So each secret is unset, and the memory that held it is overwritten. The rest of the
memory, where the credential must stay, is closed to neighbours as a whole.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterable
from pathlib import Path

try:
    import resource
except ImportError:  # pragma: no cover - no such module on Windows, which writes no core dumps
    resource = None  # type: ignore[assignment]

#: Fields of /proc/self/stat behind the program's name, counted from 0: env_start and env_end (proc(5), fields 50, 51).
_ENV_START, _ENV_END = 47, 48
_PR_SET_DUMPABLE = 4  # linux/prctl.h


def close_memory() -> None:
    """Let no other process of this user look into this one, and have no core dump written.

    On Linux ``/proc/PID/environ``, ``mem``, ``maps``, ``cwd`` and ``fd`` are root's alone from now on, and no debugger
    attaches. Programs started from here are not concerned: executing one makes it dumpable again.
    """
    if resource is not None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def hide(names: Iterable[str]) -> None:
    """Unset the environment variables ``names`` and, on Linux, overwrite their first values with NUL bytes.

    Call it once whatever needs the values has them, and before there is another thread: one that reads the
    environment just then would see half of it.
    """
    wanted = {os.fsencode(name) for name in names}
    for name in wanted:
        os.environb.pop(name, None)  # before overwriting: the C library reads the same memory
    start, end = _environment_block()
    place = start
    for entry in ctypes.string_at(start, end - start).split(b"\0") if start else []:
        name, equals, value = entry.partition(b"=")
        if equals and name in wanted:
            ctypes.memset(place + len(name) + 1, 0, len(value))
        place += len(entry) + 1


def _environment_block() -> tuple[int, int]:
    """Where the kernel keeps the environment of this process's start; (0, 0) where it does not tell."""
    try:
        # The program's name stands in parentheses and may hold any character, parentheses included.
        fields = Path("/proc/self/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        return int(fields[_ENV_START]), int(fields[_ENV_END])
    except (OSError, ValueError, IndexError):
        return 0, 0
