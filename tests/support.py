"""Helpers for all tests: waiting for a condition instead of sleeping."""

from __future__ import annotations

import time
from collections.abc import Callable
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
