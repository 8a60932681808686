"""The standard streams: closed ones, and output to a pipe whose reader may leave, as ``head`` and ``grep -m1`` do."""

from __future__ import annotations

import contextlib
import os
import select
import stat
import sys
import threading

from flower_client.exits import Exit


def open_streams() -> None:
    """Make the standard streams ones that can be used: those that were closed (``<&-``) lead nowhere from now on.

    A character that the locale cannot show, or bytes that are no character, become a replacement, not an exception.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - open as long as we run
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def leave_when_unread() -> None:
    """From now on, end this process quietly once nobody reads its standard output any more.

    A write would find out as well, but a run that waits for an answer may say nothing for hours, and the shell waits
    for every part of a pipeline. Only for commands that can be ended anywhere. Does nothing where standard output is
    no pipe or the system cannot tell.
    """
    try:
        fd = sys.stdout.fileno()
        piped = stat.S_ISFIFO(os.fstat(fd).st_mode)
    except (OSError, ValueError):  # closed, or replaced by something that is no file
        return
    if piped and hasattr(select, "poll"):
        threading.Thread(target=_watch, args=(fd,), name="flower-pipe", daemon=True).start()


def _watch(fd: int) -> None:
    poller = select.poll()
    poller.register(fd, 0)  # asks for nothing: errors, such as a missing reader, are always told
    poller.poll()
    os._exit(Exit.PIPE_CLOSED)  # the main thread may sit in a read that only ends with the server's reply


def forget_output() -> None:
    """Send what is still to be written nowhere, so that the interpreter's last flush does not complain."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
