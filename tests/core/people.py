"""An event loop in a thread of its own, so that a test's main thread can be the person."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self, TypeVar

from flower_core.events import Event
from flower_core.human import Ask, HumanChannel
from tests.support import eventually

T = TypeVar("T")


class Agents:
    """Where questions are asked: ``agents.start(channel.ask(...))`` from any thread, as often as needed."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.start(_cancel_all()).result(5)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(5)
        self.loop.close()

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run ``work`` as a task of the loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def do(self, action: Callable[[], T]) -> T:
        """The result of ``action`` called on the loop's thread, in one step that no other task can get into."""

        async def once() -> T:
            return action()

        return self.start(once()).result(5)

    def after(self, seconds: float) -> threading.Event:
        """Set once the loop has seen ``seconds`` pass, and with them every timer that was due before."""
        passed = threading.Event()
        self.loop.call_soon_threadsafe(self.loop.call_later, seconds, passed.set)
        return passed


async def _cancel_all() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


class Screen:
    """A sink that keeps everything; safe from any thread."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def __call__(self, event: Event) -> None:
        self.events.append(event)

    def states(self, wanted: str) -> list[str]:
        """The states shown for one question or mail, in the order they were shown."""
        return [event.payload["state"] for event in list(self.events) if event.payload["id"] == wanted]


def waiting(channel: HumanChannel, count: int = 1) -> list[Ask]:
    """The questions that wait, once there are ``count`` of them."""
    return eventually(lambda: found if len(found := channel.pending()) == count else [])


def together(*actions: Callable[[], T]) -> list[T]:
    """The results of all ``actions``, begun at the same moment in a thread each."""
    start = threading.Barrier(len(actions))
    results: dict[int, T] = {}

    def run(index: int, action: Callable[[], T]) -> None:
        start.wait(5)
        results[index] = action()

    threads = [threading.Thread(target=run, args=pair) for pair in enumerate(actions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    return [results[index] for index in range(len(actions))]
