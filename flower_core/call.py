"""The state of one ``Runtime.run`` call: what has come back so far, and what a person threw in meanwhile."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol

from flower_core.agent import AgentSpec, HandoffPolicy
from flower_core.context_watch import ContextWatch
from flower_core.events import Event, SafeSink, clean_text
from flower_core.ledger import Ledger
from flower_core.manifest import StepResult
from flower_core.texts import texts_for


class Interruptible(Protocol):
    """What can be stopped in the middle of a turn."""

    async def interrupt(self) -> None:
        """End the turn in flight, if there is one."""


class _Said(NamedTuple):
    """What a person said in an interruption, and whom to call once the agent is told."""

    words: str
    told: Callable[[], None] | None


#: Events that prove the agent program has taken the prompt in, and so has it in its transcript.
_ANSWERS = ("text", "thinking", "tool_call", "result")
_LAST_CALLS, _CALL_CHARS = 12, 160


class Call:
    """One step being run. Everything but :meth:`interrupt` and :attr:`result` belongs to the loop's thread.

    ``prompt`` is what is sent next.
    """

    def __init__(
        self,
        spec: AgentSpec,
        step: str,
        prompt: str,
        sink: SafeSink,
        on_session: Callable[[str, str], None] | None,
        handoff: HandoffPolicy,
    ) -> None:
        self.spec = spec
        self.texts = texts_for(spec.lang)
        self.emit = sink
        # Lone halves of surrogate pairs cannot be sent, and not every sink can show them.
        self.prompt = self.task = self._first_prompt = clean_text(prompt)
        self.result = StepResult(step=step, started_at=time.time())
        self.session: Interruptible | None = None
        self.watch = ContextWatch(handoff)
        #: What writing handoffs has cost, in US dollars; part of the step's cost, but not of what its budget bounds.
        self.exempt_usd = 0.0
        #: Its row was written because the process was told to die.
        self.rescued = False
        self._on_session = on_session
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self._lock = threading.Lock()
        self._said: list[_Said] = []
        self._told: list[str] = []
        self._told_before: list[str] = []
        self._session_id = self._retiring = ""
        self._over = False
        self._heard = False
        self._stopping: set[asyncio.Future[None]] = set()
        #: What the main thread last called, a line each.
        self.last_calls: deque[str] = deque(maxlen=_LAST_CALLS)
        self._prose: list[str] = []
        self._prose_before = 0
        self._ledger = Ledger()

    # -- what is said to the agent ----------------------------------------------------------------------------

    def interrupt(self, words: str, told: Callable[[], None] | None = None) -> bool:
        """Stop what is going on and remember ``words`` ("" = none) for the next prompt. Any thread.

        False when there will be no next prompt any more. ``told`` is called once they are in one.
        """
        with self._lock:
            if self._over:
                return False
            self._said.append(_Said(clean_text(words), told))
        self._loop.call_soon_threadsafe(self._stop)
        return True

    def finish(self) -> bool:
        """Take no more interruptions from here on; False, and nothing changes, while one waits to be heeded."""
        with self._lock:
            self._over = not self._said
            return self._over

    def give_up(self) -> str:
        """Take no more interruptions; what was said and will not reach the agent."""
        with self._lock:
            self._over = True
        return self._take_words(heard=False)

    def begin_turn(self) -> str:
        """The prompt to send now. What was said before there was a turn to stop simply goes along."""
        words = self._take_words()
        if words:
            self.prompt = f"{self.prompt}\n\n{self.texts('runtime.said_as_well', words=words).strip()}"
        self._heard = False
        self.watch.begin_turn()
        return self.prompt

    def prompt_after_interrupt(self) -> None:
        """Go on in the same session with what was said."""
        words = self._take_words()
        text = self.texts("runtime.interrupted_with", words=words) if words else self.texts("runtime.interrupted")
        self.prompt = text.strip()

    def prompt_after_failure(self, session_kept: bool) -> None:
        """Go on in the session if it was kept, else begin anew with everything that has been said so far.

        A prompt that nothing came back for is sent again: the process may have died before it was written down.
        """
        if not session_kept:
            del self._prose[self._prose_before :]
            self.result.text = "\n\n".join(self._prose)
            told = "\n\n".join(self._told)
            again = self.texts("runtime.said_as_well", words=told).strip() if told else ""
            self.prompt = "\n\n".join(filter(None, (self._first_prompt, again)))
        elif self._heard:
            self.prompt = self.texts("runtime.continue")

    def begin_generation(self, prompt: str) -> None:
        """Go on in a session that knows nothing but ``prompt``: the one so far has handed over."""
        self.prompt = self._first_prompt = prompt
        self.watch = ContextWatch(self.watch.policy)
        self._told_before += self._told
        self._told.clear()
        self._prose_before = len(self._prose)
        self._session_id, self._retiring = "", self.result.session_id

    @property
    def told(self) -> str:
        """All that people have said during this step and the agent has been told, oldest first."""
        return "\n\n".join([*self._told_before, *self._told])

    @property
    def session_id(self) -> str:
        """The session this step is in now, "" while a new one is not known yet."""
        return self._session_id

    @property
    def heard(self) -> bool:
        """Whether anything came back for the prompt sent last, so that the session has it in its transcript."""
        return self._heard

    @property
    def last_words(self) -> str:
        """What the main thread last said in words, "" for nothing."""
        return self._prose[-1] if self._prose else ""

    async def pause(self, seconds: float) -> None:
        """Wait ``seconds``, or until somebody interrupts."""
        try:
            await asyncio.wait_for(self._wake.wait(), seconds)
        except TimeoutError:
            return
        self._wake.clear()

    @property
    def disturbed(self) -> bool:
        """Whether an interruption waits to be heeded."""
        with self._lock:
            return bool(self._said)

    def _take_words(self, *, heard: bool = True) -> str:
        """What was said since the last time; "" also for an interruption without words. ``heard``: by a prompt."""
        with self._lock:
            said, self._said = self._said, []
        self._wake.clear()
        words = "\n\n".join(item.words for item in said if item.words)
        if words:
            self._told.append(words)
        for item in said:
            if heard and item.told is not None:
                item.told()
        return words

    def _stop(self) -> None:
        if not self.disturbed:
            return  # heeded already, with the turn that ended meanwhile; the one in flight is not meant
        self._wake.set()
        self.end_turn()

    def end_turn(self) -> None:
        """Have the turn in flight ended, if there is one."""
        if self.session is not None:
            stopping = asyncio.ensure_future(self.session.interrupt())
            self._stopping.add(stopping)
            stopping.add_done_callback(self._stopping.discard)

    # -- what comes back --------------------------------------------------------------------------------------

    def absorb(self, event: Event) -> None:
        """Take in one event of the agent and hand it on."""
        self._heard = self._heard or event.kind in _ANSWERS
        if event.kind == "system" and event.text == "init":
            self._session_id = str(event.payload["data"].get("session_id") or "") or self._session_id
            self._ledger.open(self._session_id)
        elif event.kind == "system" and event.text == "mirror_error":
            self.emit.report(OSError(f"the session store did not take an entry: {event.payload['data'].get('error')}"))
        elif event.kind == "result":
            self._charge(event)
        elif not event.payload.get("subagent"):
            self._absorb_main(event)
        self._announce_session()
        self.watch.absorb(event)
        self.emit(event)

    def owe_nothing(self) -> None:
        """A new session is about to begin, which counts from nothing."""
        self._ledger.owe_nothing()

    def owe(self, session_id: str, cost_usd: float, *, fork: bool) -> None:
        """Note what ``session_id`` had cost before it is continued; only what comes on top is ours."""
        self._ledger.owe(session_id, cost_usd, fork=fork)

    def charge_aside(self, result: Event) -> float:
        """Charge a turn that is exempt from the budget; what it cost, in US dollars."""
        self._charge(result)
        cost = float(result.payload["cost_usd"])
        self.exempt_usd += cost
        return cost

    def _announce_session(self) -> None:
        """Say which session the step is in, the moment it is known.

        One that takes over must have answered first: were we killed before it has anything in its transcript, the
        old one can still hand over again.
        """
        known = self._session_id
        if not known or known == self.result.session_id or (self._retiring and not self._heard):
            return
        if self._retiring:
            self.result.retired.append(self._retiring)
            self._retiring = ""
        self.result.session_id = known
        if self._on_session is not None:
            try:
                self._on_session(self.result.step, known)
            except Exception as error:  # a listener must not end the run
                self.emit.report(error)

    def _absorb_main(self, event: Event) -> None:
        if event.kind == "text":
            self._prose.append(event.text)
            self.result.text = "\n\n".join(self._prose)
        elif event.kind == "tool_call":
            about = event.text or str(event.payload.get("input"))
            self.last_calls.append(f"[{event.tool}] {about[:_CALL_CHARS]}")
        level = event.payload.get("context")
        if isinstance(level, int):
            self.result.context = level

    def _charge(self, event: Event) -> None:
        total = float(event.payload.get("cost_usd") or 0.0)
        cost = self._ledger.charge(str(event.payload.get("session_id") or ""), total)
        self.result.cost_usd += cost
        self.result.num_turns += int(event.payload.get("num_turns") or 0)
        # The SDK reports a running total; an event says what this turn cost, so that adding them up is right.
        event.payload["cost_usd"] = round(cost, 6)
