"""Handing each question to exactly one of several consumers, on whatever event loops they live."""

from __future__ import annotations

import asyncio
import contextlib
import threading

from flower_core.human_questions import Questions
from flower_core.human_records import Ask


class AskQueue:
    """Ids of announced questions nobody has been given, and the consumers that sleep until there is one."""

    def __init__(self, questions: Questions) -> None:
        self._questions = questions
        self._lock = threading.Lock()
        self._unseen: list[str] = []
        self._bells: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []

    def put(self, ask_id: str) -> None:
        """Announce a question; from any thread."""
        with self._lock:
            # Where nobody pulls questions, what is settled drops out here.
            self._unseen = [*self._questions.still_waiting(self._unseen), ask_id]
        self.ring()

    def ring(self) -> None:
        """Wake every consumer to look again; from any thread.

        All of them, not one: then a consumer that is cancelled on waking takes no wake-up with it.
        """
        with self._lock:
            bells, self._bells = self._bells, []
        for loop, bell in bells:
            wake(loop, bell)

    async def get(self) -> Ask:
        """The first open question nobody was given, as soon as there is one; cancelling it takes none along."""
        loop = asyncio.get_running_loop()
        while True:
            bell = (loop, loop.create_future())
            with self._lock:
                ask = self._take()
                if ask is not None:
                    return ask
                self._bells.append(bell)
            try:
                await bell[1]
            finally:
                with self._lock, contextlib.suppress(ValueError):
                    self._bells.remove(bell)

    def _take(self) -> Ask | None:
        # Settled questions drop out. Claimed ones stay, for the claim may be given back.
        self._unseen = self._questions.still_waiting(self._unseen)
        ask = self._questions.first_open(self._unseen)
        if ask is not None:
            self._unseen.remove(ask.id)
        return ask


def wake(loop: asyncio.AbstractEventLoop, future: asyncio.Future[None]) -> bool:
    """Complete ``future`` on its own loop, from any thread; False when that loop is closed."""
    try:
        loop.call_soon_threadsafe(_complete, future)
    except RuntimeError:  # what a closed loop raises
        return False
    return True


def _complete(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
