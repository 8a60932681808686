"""The state of one ``Runtime.run`` call: what has come back so far, and what a person threw in meanwhile."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Protocol

from flower_core.agent import AgentSpec
from flower_core.events import Event, SafeSink
from flower_core.manifest import StepResult
from flower_core.texts import Texts


class Interruptible(Protocol):
    """What can be stopped in the middle of a turn."""

    async def interrupt(self) -> None:
        """End the turn in flight, if there is one."""


class Call:
    """One step being run. Everything but :meth:`interrupt` and :attr:`result` belongs to the loop's thread."""

    def __init__(
        self,
        spec: AgentSpec,
        step: str,
        sink: SafeSink,
        texts: Texts,
        on_session: Callable[[str, str], None] | None,
    ) -> None:
        self.spec = spec
        self.texts = texts
        self.emit = sink
        self.result = StepResult(step=step, started_at=time.time())
        self.session: Interruptible | None = None
        self._on_session = on_session
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self._lock = threading.Lock()
        self._said: list[str] = []
        self._stopping: set[asyncio.Future[None]] = set()
        self._prose: list[str] = []
        self._session_cost: dict[str, float] = {}

    def absorb(self, event: Event) -> None:
        """Take in one event of the agent and hand it on."""
        if event.kind == "system" and event.text == "init":
            self._learn_session(str(event.payload["data"].get("session_id") or ""))
        elif event.kind == "result":
            self._charge(event)
        elif not event.payload.get("subagent"):
            self._absorb_main(event)
        self.emit(event)

    def forget_prose(self) -> None:
        """Drop the words of an attempt that is started over, so that they do not stand twice in the result."""
        self._prose.clear()
        self.result.text = ""

    def owe(self, session_id: str, cost_usd: float) -> None:
        """Note what ``session_id`` had cost before this call; only what comes on top is ours."""
        self._session_cost[session_id] = cost_usd

    def interrupt(self, words: str) -> None:
        """Stop what is going on and remember ``words`` ("" = none) for the next prompt. Any thread."""
        with self._lock:
            self._said.append(words)
        self._loop.call_soon_threadsafe(self._stop)

    def take_words(self) -> str | None:
        """What was said since the last time, joined; "" for an interruption without words, None for none at all."""
        with self._lock:
            said, self._said = self._said, []
        self._wake.clear()
        return "\n\n".join(filter(None, said)) if said else None

    async def pause(self, seconds: float) -> None:
        """Wait ``seconds``, or until somebody interrupts."""
        try:
            await asyncio.wait_for(self._wake.wait(), seconds)
        except TimeoutError:
            return

    @property
    def disturbed(self) -> bool:
        """Whether an interruption waits to be taken."""
        with self._lock:
            return bool(self._said)

    def _stop(self) -> None:
        self._wake.set()
        if self.session is not None:
            stopping = asyncio.ensure_future(self.session.interrupt())
            self._stopping.add(stopping)
            stopping.add_done_callback(self._stopping.discard)

    def _learn_session(self, session_id: str) -> None:
        if not session_id or session_id == self.result.session_id:
            return
        self.result.session_id = session_id
        if self._on_session is not None:
            try:
                self._on_session(self.result.step, session_id)
            except Exception as error:  # a listener must not end the run
                self.emit.report(error)

    def _absorb_main(self, event: Event) -> None:
        if event.kind == "text":
            self._prose.append(event.text)
            self.result.text = "\n\n".join(self._prose)
        level = event.payload.get("context")
        if isinstance(level, int):
            self.result.context = level

    def _charge(self, event: Event) -> None:
        session_id = str(event.payload.get("session_id") or "")
        total = float(event.payload.get("cost_usd") or 0.0)
        cost = max(0.0, total - self._session_cost.get(session_id, 0.0))
        self._session_cost[session_id] = total
        self.result.cost_usd += cost
        self.result.num_turns += int(event.payload.get("num_turns") or 0)
        # The SDK reports a running total; an event says what this turn cost, so that adding them up is right.
        event.payload["cost_usd"] = round(cost, 6)
