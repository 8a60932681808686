"""Helpers for all tests: waiting for a condition instead of sleeping, and work on another thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def eventually(condition: Callable[[], T], timeout: float = 20.0, interval: float = 0.01) -> T:
    """The first true value of ``condition()``; fails the test when none comes within ``timeout`` seconds."""
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not true within {timeout} s: {condition!r} gave {value!r}")
        time.sleep(interval)


def in_thread(action: Callable[[], T]) -> Future[T]:
    """``action`` on a thread of its own, which keeps no test run from ending; what came of it as a future."""
    outcome: Future[T] = Future()

    def run() -> None:
        try:
            outcome.set_result(action())
        except Exception as error:
            outcome.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return outcome
