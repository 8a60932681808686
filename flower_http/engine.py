"""One asyncio loop in one thread: where every run lives.

The thread ends only when the server does. That matters beyond tidiness: the agent program is told by the kernel
when the thread that started it dies, and stops.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
_START_S = 10.0


class Engine:
    """Runs coroutines on a thread of its own. Start it once; every method may be called from any thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="flower-engine", daemon=True)
        self._ready = threading.Event()

    def start(self) -> None:
        """Start the thread and wait until its loop runs. Raises RuntimeError when it does not."""
        self._thread.start()
        if not self._ready.wait(_START_S):
            raise RuntimeError("the engine's loop did not start")

    @property
    def alive(self) -> bool:
        """Whether runs can be carried on."""
        return self._thread.is_alive() and self._loop.is_running()

    def submit(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Run ``work`` on the loop. Cancelling the future cancels the work."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def call_soon(self, function: Callable[[], object]) -> None:
        """Have ``function`` called on the loop's thread, and do not wait for it; an engine that has ended does not."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(function)

    def stop(self, timeout_s: float) -> bool:
        """Cancel what still runs and end the thread; True when it ended within ``timeout_s`` seconds."""
        if self._thread.is_alive():
            self.call_soon(self._loop.stop)
            self._thread.join(timeout_s)
        elif not self._loop.is_closed():  # it was never started
            self._loop.close()
        return not self._thread.is_alive()

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.call_soon(self._ready.set)
        try:
            self._loop.run_forever()
            self._finish()
        finally:
            self._loop.close()

    def _finish(self) -> None:
        left = asyncio.all_tasks(self._loop)
        for task in left:
            task.cancel()
        if left:
            self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
