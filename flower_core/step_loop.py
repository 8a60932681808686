"""Running one agent to its end: one loop, four ways out of a turn.

A turn ends in success, in an interruption by a person (the same session goes on with what was said), in a full context
window (a fresh session takes over), or in a failure that may be worth another attempt.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from flower_core.call import Call
from flower_core.claude.errors import Failure, context_full, failure_of_exception
from flower_core.claude.options import Opening, Surroundings, build_options
from flower_core.claude.session import AgentSession, TurnEnd
from flower_core.events import Event
from flower_core.handoff_turn import Desk, hand_over, warn
from flower_core.resilience import Resilience, reachable
from flower_core.sessions import SqliteSessionStore


@dataclass(frozen=True)
class StepLoop:
    """What it takes to bring a step to its end.

    ``endpoint`` is host and port of what must be reachable for it. ``keep`` writes down what has come of a step that is
    still at work; it is called from a thread of its own and must not raise.
    """

    around: Surroundings
    store: SqliteSessionStore
    desk: Desk
    resilience: Resilience
    endpoint: tuple[str, int]
    keep: Callable[[Call], None]

    async def until_done(self, call: Call, opening: Opening) -> None:
        """Bring ``call`` to its end, beginning with ``opening``; how it ended stands in its result."""
        result = call.result
        while True:
            session = self._session(call, opening)
            failure = await self._attempt(call, session, opening)
            if failure is None:
                result.ok = True
                return
            if failure.kind == "context" and _can_hand_over(call, opening):
                if len(result.retired) == call.watch.policy.max_generations:
                    text = call.texts("handoff.too_small", count=len(result.retired))
                    self._give_up(call, replace(failure, text=text))
                    return
                await hand_over(call, session, self.desk, partial(self._recover, call))
                opening = Opening(str(uuid.uuid4()))
                continue
            if failure.kind == "unsettled":
                _tell_retry(call, call.texts("runtime.unsettled"))
                opening = await self._next_opening(call, opening, interrupted=True)
                continue
            result.errors.append(failure.text)
            if not self.resilience.retries(failure.recovery, result.attempts):
                self._give_up(call, failure)
                return
            hopeless = await self._wait_before_retry(call, failure)
            if hopeless:
                self._give_up(call, replace(failure, text=hopeless, advice="advice_endpoint"))
                return
            result.attempts += 1
            opening = await self._next_opening(call, opening)

    def _session(self, call: Call, opening: Opening) -> AgentSession:
        opening = replace(opening, budget_usd=_left(call))
        return AgentSession(lambda say: build_options(call.spec, self.around, opening, stderr=say))

    async def _attempt(self, call: Call, session: AgentSession, opening: Opening) -> Failure | None:
        if opening.resume is None:
            call.owe_nothing()
        else:
            # In a thread: a long transcript takes its time to search, and other runs share this loop.
            spent = await asyncio.to_thread(self.store.cumulative_cost, opening.resume)
            call.owe(opening.resume, spent, fork=opening.fork)
        try:
            async with session:
                call.session = session
                return await self._converse(call, session)
        except Exception as error:
            return failure_of_exception(error, session.stderr)
        finally:
            call.session = None

    async def _converse(self, call: Call, session: AgentSession) -> Failure | None:
        """Take turns until the agent is done, failed, or full, going on after every interruption."""
        while True:
            prompt = call.begin_turn()
            call.emit(Event("prompt", prompt))
            end = await self._turn(call, session, prompt)
            if end.failure is None and not end.interrupted and call.finish():
                return None
            # A process that is killed outright cannot say any more what the step has cost up to here.
            await asyncio.to_thread(self.keep, call)
            if end.failure is not None and not end.interrupted:
                return end.failure
            if call.watch.full:
                return context_full(f"at {call.watch.level} tokens")
            if end.failure is not None:
                return end.failure
            call.prompt_after_interrupt()

    async def _turn(self, call: Call, session: AgentSession, prompt: str) -> TurnEnd:
        async with contextlib.aclosing(session.turn(prompt)) as turn:
            async for item in turn:
                if isinstance(item, TurnEnd):
                    return item
                call.absorb(item)
                _heed(call, session)
        raise ConnectionError("the agent program ended without a result")

    def _give_up(self, call: Call, failure: Failure) -> None:
        call.result.error = failure.text
        if failure.advice:
            advice = call.texts(f"runtime.{failure.advice}").strip()
            call.result.error = call.texts("runtime.with_advice", failure=failure.text.rstrip("."), advice=advice)
        unheard = call.give_up()
        if unheard:
            call.result.errors.append(call.texts("runtime.undelivered", words=unheard).strip())

    async def _wait_before_retry(self, call: Call, failure: Failure) -> str:
        """Wait until another attempt makes sense; why there is to be none, "" when there is."""
        policy, attempt, texts = self.resilience, call.result.attempts + 1, call.texts
        if failure.pause_s > policy.max_offline_wait:
            return texts("runtime.pause_too_long", pause=round(failure.pause_s), bound=round(policy.max_offline_wait))
        delay = policy.delay(attempt - 1, floor=failure.pause_s)
        values = {"attempt": attempt, "total": policy.max_attempts, "delay": round(delay, 1), "reason": failure.text}
        _tell_retry(call, texts("runtime.retry_waiting", **values))
        if await self._wait(call, delay):
            return ""
        return texts("runtime.offline_too_long", endpoint=self._where(), bound=round(policy.max_offline_wait))

    async def _recover(self, call: Call, failure: Failure) -> None:
        """Wait like before a retry, for what is no attempt of the step."""
        if failure.kind == "transient":
            await self._wait(call, self.resilience.delay(1))

    async def _wait(self, call: Call, delay: float) -> bool:
        """Wait for the network, then ``delay`` seconds; False when the network stayed away for too long."""
        policy, (host, port) = self.resilience, self.endpoint
        offline_until = time.monotonic() + policy.max_offline_wait
        told = False
        while not await reachable(host, port, policy.probe_timeout):
            if time.monotonic() >= offline_until:
                return False
            if not told:
                _tell_retry(call, call.texts("runtime.retry_offline", endpoint=self._where()))
                told = True
            await call.pause(min(policy.probe_interval, max(0.0, offline_until - time.monotonic())))
        if not call.disturbed:  # who says something wants it heard now
            await call.pause(delay)
        return True

    def _where(self) -> str:
        host, port = self.endpoint
        return f"{host}:{port}"

    async def _next_opening(self, call: Call, opening: Opening, *, interrupted: bool = False) -> Opening:
        """How to go on: in the session there is by now, else as at first."""
        session_id = call.session_id
        kept = bool(session_id) and await asyncio.to_thread(self.store.has_session, session_id)
        if kept and interrupted and call.heard:
            call.prompt_after_interrupt()
        else:
            call.prompt_after_failure(session_kept=kept)
        if kept:
            return Opening(resume=session_id)
        return opening if opening.resume is not None else replace(opening, session_id=str(uuid.uuid4()))


def _heed(call: Call, session: AgentSession) -> None:
    """Do what the level of the context calls for."""
    watch = call.watch
    if watch.wants_window():
        session.ask_window(watch.learn_window)
    if watch.take_warning():
        warn(call)
    if watch.take_stop():
        call.end_turn()


def _can_hand_over(call: Call, opening: Opening) -> bool:
    """Whether a fresh session could do better: not where a fresh one has just refused its very first prompt."""
    began_here = opening.resume is None and not call.watch.level
    return call.watch.policy.enabled and bool(call.result.session_id) and not began_here


def _tell_retry(call: Call, text: str) -> None:
    payload = {"step": call.result.step, "attempt": call.result.attempts + 1}
    call.emit(Event("retry", text, payload=payload))


def _left(call: Call) -> float | None:
    """What the step may still spend; the agent program counts a budget per process, we count it per step."""
    limit = call.spec.max_budget_usd
    spent = call.result.cost_usd - call.exempt_usd
    return None if limit is None else max(limit - spent, 0.000001)
