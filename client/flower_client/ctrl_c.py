"""Ctrl-C, the first time: something to act on rather than the end."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType


@contextlib.contextmanager
def ctrl_c(pressed: Callable[[], object], *, leaves: Callable[[], bool]) -> Iterator[None]:
    """Have Ctrl-C call ``pressed``, in the signal handler; when ``leaves()`` it raises KeyboardInterrupt instead.

    Changes nothing on another thread than the main one, nor where the signal is ignored, as nohup and a shell's ``&``
    want it.
    """
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    if ignored or threading.current_thread() is not threading.main_thread():
        yield
        return

    def on_signal(signum: int, frame: FrameType | None) -> None:
        if leaves():
            raise KeyboardInterrupt
        pressed()

    before = signal.signal(signal.SIGINT, on_signal)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
