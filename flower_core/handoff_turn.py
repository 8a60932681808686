"""From a session whose context is full to a fresh one: the handoff is written, kept, and made the new one's prompt.

The session writes it itself, in one more turn on a copy of it. So the session stays as it was: should this process be
killed meanwhile, the run goes on in it, finds it full, and hands over again. Nobody watches that turn, hence it may
only speak: a hook refuses every tool. Where it comes to nothing, the document is put together from what is known.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from flower_core.call import Call
from flower_core.claude.errors import Failure, failure_of_exception
from flower_core.claude.session import AgentSession, TurnEnd
from flower_core.documents import Handoff
from flower_core.events import Event
from flower_core.sessions import SqliteSessionStore
from flower_core.workbench import Workbench

Phase = Literal["near", "writing", "done"]
#: Waits until another attempt makes sense.
Pause = Callable[[Failure], Awaitable[None]]

#: How often a session is asked for its handoff, how long it may take each time, and how many replies it has: more
#: than one only because a call of a tool, which is refused, takes one.
_TRIES, _WRITING_S, _REPLIES = 2, 600.0, 4
_TASK_CHARS, _PROSE_CHARS = 1200, 1200
#: How the prompt of a session begins that has taken over; what stands in it is the task all of them had.
_TASK = re.compile(r"\A<task>\n(.*?)\n</task>\n", re.DOTALL)


@dataclass(frozen=True)
class Desk:
    """Where handoffs are written: the store of the sessions, the workbench if there is one, the directory for notes."""

    store: SqliteSessionStore
    workbench: Workbench | None
    notes: Path

    def show(self, path: Path) -> str:
        """``path`` as agents should write it."""
        return self.workbench.show(path) if self.workbench is not None else str(path)


def tell(call: Call, phase: Phase, text: str, **more: object) -> None:
    """Emit a handoff event of ``call``."""
    watch = call.watch
    payload = {"phase": phase, "step": call.result.step, "context": watch.level, "window": watch.window}
    call.emit(Event("handoff", text, payload={**payload, **more}))


def warn(call: Call) -> None:
    """Announce that ``call`` is about to hand over."""
    watch = call.watch
    text = call.texts("handoff.near", context=watch.level, window=watch.window, at=watch.policy.at)
    tell(call, "near", text, at=watch.policy.at)


async def hand_over(call: Call, retiring: AgentSession, desk: Desk, pause: Pause) -> None:
    """Have the session of ``call`` write its handoff, keep it, and let ``call`` go on in a session that starts from it.

    ``retiring`` is the process it was in, which has ended. ``pause`` is awaited before a second try after a failure.
    Raises what the store raises.
    """
    watch = call.watch
    values = {"context": watch.level, "window": watch.window}
    tell(call, "writing", call.texts("handoff.writing", **values), at=watch.policy.at)
    writing = _Writing(call, retiring, desk, pause)
    document = await writing.document() or _mechanical(call, desk)
    path = await asyncio.to_thread(_keep, call, desk, document)
    shown = desk.show(path) if path is not None else ""
    filled = [key for key, body in document.sections().items() if body]
    # A person need not know where on this machine the books are; agents and programs are told the whole path.
    named = shown if not Path(shown).is_absolute() else Path(shown).name
    text = call.texts("handoff.done_degraded" if document.degraded else "handoff.done", path=named or "–", **values)
    spent = {"cost_usd": round(writing.cost_usd, 6), "num_turns": writing.num_turns}
    tell(call, "done", text, path=shown, degraded=document.degraded, sections=filled, **spent)
    call.begin_generation(await _prompt(call, desk, document, shown))


class _Writing:
    """The turns in which one session is asked for its handoff."""

    def __init__(self, call: Call, retiring: AgentSession, desk: Desk, pause: Pause) -> None:
        self._call = call
        self._retiring = retiring
        self._desk = desk
        self._pause = pause
        self._copy = ""
        self.cost_usd = 0.0
        self.num_turns = 0

    async def document(self) -> Handoff | None:
        """The handoff, or None when the session cannot write it."""
        call, missing = self._call, ""
        for attempt in range(1, _TRIES + 1):
            said, failure = await self._ask(missing)
            document = Handoff.parse(said, lang=call.spec.lang)
            if document.complete():
                # Its mark is ours to give; a model may have copied one.
                return replace(document, degraded=False)
            if failure is None:
                missing = call.texts("workflow.list.comma").join(document.missing())
            elif failure.recovery == "fatal":
                return None
            elif attempt < _TRIES:
                await self._pause(failure)
        return None

    async def _ask(self, missing: str) -> tuple[str, Failure | None]:
        """What the session says when asked, and what went wrong meanwhile; ``missing`` is what it left out before."""
        call, said = self._call, list[str]()
        prompt = call.texts("handoff.write", context=call.watch.level, window=call.watch.window).strip()
        if missing:
            prompt += "\n\n" + call.texts("handoff.write_again", sections=missing)
        try:
            await self._count_from_here()
            refusal = call.texts("handoff.no_tools")
            session = self._retiring.beside(call.result.session_id, refusal=refusal, replies=_REPLIES)
            async with asyncio.timeout(_WRITING_S), session:
                end = await self._listen(session, prompt, said)
        except Exception as error:
            return "\n\n".join(said), failure_of_exception(error)
        finally:
            await asyncio.shield(asyncio.to_thread(self._drop_copy))
        return "\n\n".join(said), end.failure

    async def _count_from_here(self) -> None:
        session_id = self._call.result.session_id
        self._call.owe(session_id, await asyncio.to_thread(self._desk.store.cumulative_cost, session_id), fork=True)

    async def _listen(self, session: AgentSession, prompt: str, said: list[str]) -> TurnEnd:
        async with contextlib.aclosing(session.turn(prompt)) as turn:
            async for item in turn:
                if isinstance(item, TurnEnd):
                    return item
                if item.kind == "system" and item.text == "init":
                    self._copy = str(item.payload["data"].get("session_id") or "")
                elif item.kind == "text" and not item.payload.get("subagent"):
                    said.append(item.text)
                elif item.kind == "result":
                    self.cost_usd += self._call.charge_aside(item)
                    self.num_turns += int(item.payload.get("num_turns") or 0)
        raise ConnectionError("the agent program ended without a result")

    def _drop_copy(self) -> None:
        """Delete the copy: it is as long as the session, and nobody will go on in it."""
        if self._copy and self._copy != self._call.result.session_id:
            try:
                self._desk.store.remove([self._copy])
            except Exception as error:  # costs room on the disk, and nothing else
                self._call.emit.report(error)


def _mechanical(call: Call, desk: Desk) -> Handoff:
    """A handoff put together from what is known."""
    done = "\n".join(f"- {line}" for line in call.last_calls) or "–"
    words = call.last_words[-_PROSE_CHARS:].strip() or "–"
    where = desk.show(desk.workbench.root) if desk.workbench is not None else "."
    return Handoff(
        doing=call.task[:_TASK_CHARS].strip() or "–",
        next=call.texts("handoff.mechanical_next"),
        scene=call.texts("handoff.mechanical_scene", calls=done, words=words, place=where).strip(),
        degraded=True,
        lang=call.spec.lang,
    )


def _keep(call: Call, desk: Desk, document: Handoff) -> Path | None:
    """Freeze the document; None where the disk does not take it, for it is in the next prompt all the same."""
    try:
        path = document.freeze(desk.notes, call.result.step)
        if desk.workbench is not None:
            desk.workbench.refresh()
    except OSError as error:
        call.emit.report(error)
        return None
    return path


async def _prompt(call: Call, desk: Desk, document: Handoff, shown: str) -> str:
    """What the fresh session is told: the task, what people said, the document, and where things lie."""
    first = await asyncio.to_thread(desk.store.first_prompt, call.result.session_id) or call.task
    found = _TASK.match(first)
    task = found[1] if found else first
    texts, parts = call.texts, []
    if call.task not in task:
        parts.append(texts("handoff.last_asked", words=call.task).strip())
    if call.told:
        parts.append(texts("handoff.told", words=call.told).strip())
    parts.append(texts("handoff.document", document=document.prompt_block()).strip())
    if desk.workbench is not None:  # without one the notes lie where the agent's file tools do not reach
        parts += [texts("handoff.place", path=shown)] if shown else []
        parts.append(texts("handoff.workbench", path=desk.show(desk.workbench.root)))
    return texts("handoff.take_over", task=task, parts="\n\n".join(parts)).strip()
