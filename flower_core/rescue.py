"""Keeping the books when the process is told to die."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

_SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


class _Watch:
    """Who is to be rescued, and the handlers that do it. Belongs to the main thread, where Python runs handlers."""

    def __init__(self) -> None:
        self.rescuers: list[Callable[[], None]] = []
        self.busy = 0
        self._ours: list[int] = []
        self._pending: int | None = None

    def install(self) -> None:
        self._ours = [number for number in _SIGNALS if signal.getsignal(number) is signal.SIG_DFL]
        for number in self._ours:
            signal.signal(number, self._handle)

    def uninstall(self) -> None:
        for number in self._ours:
            if signal.getsignal(number) == self._handle:
                signal.signal(number, signal.SIG_DFL)

    def catch_up(self) -> None:
        if not self.busy and self._pending is not None:
            self._die(self._pending)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        self._pending = number
        self.catch_up()

    def _die(self, number: int) -> None:
        try:
            for rescue in list(self.rescuers):
                rescue()
        finally:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)


_WATCH = _Watch()


@contextlib.contextmanager
def rescued_on_signals(rescue: Callable[[], None]) -> Iterator[None]:
    """While inside, SIGTERM and SIGHUP call ``rescue`` and then do what they would have done. May be nested.

    Only on the main thread, and only where the program has no handler of its own: one that has, such as the
    server, decides itself when to rescue.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _WATCH.rescuers.append(rescue)
    if len(_WATCH.rescuers) == 1:
        _WATCH.install()
    try:
        yield
    finally:
        _WATCH.rescuers.remove(rescue)
        if not _WATCH.rescuers:
            _WATCH.uninstall()


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Put the rescue off until this ends: it would wait for a lock that the interrupted code itself holds."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _WATCH.busy += 1
    try:
        yield
    finally:
        _WATCH.busy -= 1
        _WATCH.catch_up()
