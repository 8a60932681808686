"""Asking a person: questions that wait without blocking anything, and what a person says unprompted.

A question is *open* until somebody *claims* it: a person, its timeout, or its cancellation. The claim is taken
under a lock, so exactly one of them wins; the winner *settles* it. Everything else follows from that.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from flower_core.events import EventSink, SafeSink
from flower_core.human_inbox import Inbox
from flower_core.human_log import HumanLog, mail_entry, outcome_entry, question_entry
from flower_core.human_records import Ask, AskState, Mail
from flower_core.texts import DEFAULT_LANG, texts_for

__all__ = ["Ask", "HumanChannel", "Mail"]

#: How long an outcome waits for the sink to return from its ``asked`` event, in seconds. Only a sink that itself
#: waits for the answering thread can use it up; then the order of the two events is given up, not the run.
_ANNOUNCE_WAIT_S = 5.0


@dataclass(eq=False)
class _Waiting:
    """A question that waits, and the call that waits for it. Guarded by the channel's lock."""

    ask: Ask
    loop: asyncio.AbstractEventLoop
    call: asyncio.Future[None]
    phase: Literal["open", "claimed", "settled"] = "open"
    #: What becomes of it should the present claim be given back: its time ran out or its call ended meanwhile.
    fallback: Literal["timeout", "declined"] | None = None
    abandoned: bool = False
    announcer: int = field(default_factory=threading.get_ident)
    announced: threading.Event = field(default_factory=threading.Event)


class HumanChannel:
    """The line between agents and a person.

    Agents reach it as the MCP server ``human`` (:meth:`mcp_servers`), the framework through :meth:`ask`. All
    methods but :meth:`ask` and :meth:`next_ask`, which belong to an event loop, may be called from any thread.

    ``max_asks``: None for no limit, 0 for no question at all. ``timeout_s``: seconds a question may wait, None
    for ever, 0 or less when nobody is there. ``log_path`` gets every question and outcome, ``amend_path`` (the
    brief) everything said unprompted. ``on_settle(ask)`` is called with a person's outcome, on that person's
    thread, before the waiting call hears of it: a caller keeps the answer there; if it raises, the question waits
    on. ``first_id`` and ``first_mail_id`` continue the numbering of an earlier process. Raises ValueError for a
    negative ``max_asks`` or a ``timeout_s`` that is no finite number.
    """

    tool_name = "mcp__human__ask"
    inbox_name = "mcp__human__inbox"

    def __init__(
        self,
        *,
        on_event: EventSink | None = None,
        max_asks: int | None = None,
        timeout_s: float | None = 1800.0,
        log_path: Path | str | None = None,
        amend_path: Path | str | None = None,
        over_budget_text: str | None = None,
        timeout_text: str | None = None,
        declined_text: str | None = None,
        lang: str = DEFAULT_LANG,
        first_id: int = 1,
        first_mail_id: int = 1,
        on_settle: Callable[[Ask], None] | None = None,
    ) -> None:
        if max_asks is not None and max_asks < 0:
            raise ValueError(f"max_asks must be 0 or more, not {max_asks}; leave it None for no limit")
        if timeout_s is not None and not math.isfinite(timeout_s):
            raise ValueError(f"timeout_s must be a finite number of seconds, not {timeout_s}; use None for ever")
        self.max_asks = max_asks
        self.timeout_s = timeout_s
        self.lang = lang
        self.texts = texts_for(lang)
        self.on_settle = on_settle
        self.ui_errors: list[str] = []
        self._fallbacks: dict[str, str] = {
            "over_budget": self.texts("human.over_budget") if over_budget_text is None else over_budget_text,
            "timeout": self.texts("human.timeout") if timeout_text is None else timeout_text,
            "declined": self.texts("human.declined") if declined_text is None else declined_text,
            "invalid": self.texts("human.invalid"),
        }
        self._emit = SafeSink(on_event, self.ui_errors)
        self._log = HumanLog(_path(log_path), _path(amend_path), self.texts, self.ui_errors)
        self._inbox = Inbox(self._emit, first_mail_id)
        self._lock = threading.Lock()
        self._next_id = first_id
        self._used = 0
        self._asks: dict[str, Ask] = {}
        self._waiting: dict[str, _Waiting] = {}
        self._unseen: list[str] = []
        self._bells: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []
        self._kept: set[str] = set()
        #: Answers the agent may never have got, by the words of their question, each with the mail that tells it.
        self._books: dict[str, tuple[str, str]] = {}

    # -- what agents and the framework call, on their event loop --------------------------------------------

    async def ask(self, question: str, options: list[str] | None = None) -> Ask:
        """Put a question and wait for its outcome. Raises nothing but CancelledError.

        The result is settled: ``answered``, ``timeout``, ``declined``, ``over_budget`` or ``invalid`` (no text in
        ``question``, or ``options`` that are no list of texts). Cancelling the call settles it as ``declined``.
        """
        loop = asyncio.get_running_loop()
        with self._lock:
            ask, mail_id = self._admit(question, options)
            self._asks[ask.id] = ask
            remaining = self._remaining()
            if ask.state == "asked":
                waiting = self._waiting[ask.id] = _Waiting(ask, loop, loop.create_future())
        if ask.state != "asked":
            self._log.question(ask)
            self._log.outcome(ask)
            self._emit(ask.event(remaining))
            if mail_id:
                self._inbox.take(only=mail_id)
            return ask
        timer: asyncio.TimerHandle | None = None
        try:
            if self.timeout_s is not None:
                timer = loop.call_later(self.timeout_s, self._expire, waiting)
            self._announce(waiting, remaining)
            await waiting.call
        except BaseException:
            self._abandon(waiting)
            raise
        finally:
            if timer is not None:
                timer.cancel()
        return waiting.ask

    async def next_ask(self, timeout: float | None = None) -> Ask | None:  # noqa: ASYNC109 - the documented name
        """The next question that waits and that no other caller was given; None after ``timeout`` seconds.

        Every question goes to exactly one of the callers, of whatever loop. Raises nothing but CancelledError,
        and a cancelled caller takes no question with it.
        """
        loop = asyncio.get_running_loop()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while True:
                    bell = (loop, loop.create_future())
                    with self._lock:
                        ask = self._take_unseen()
                        if ask is not None:
                            return ask
                        self._bells.append(bell)
                    try:
                        await bell[1]
                    finally:
                        with self._lock, contextlib.suppress(ValueError):
                            self._bells.remove(bell)
        return None

    # -- what a person calls, from any thread ----------------------------------------------------------------

    def answer(self, ask_id: str, text: str, *, by: str = "") -> bool:
        """Answer a question; ``by`` names who did. False when it no longer waits, and then nothing has changed.

        True means that the agent is told exactly this text, or, if its call was cut off, finds it in the inbox.
        Raises what ``on_settle`` raises; the question waits on then.
        """
        return self._settle_by_person(ask_id, "answered", text, by)

    def decline(self, ask_id: str, reason: str = "", *, by: str = "") -> bool:
        """Pass a question over; the agent then decides itself. Returns and raises as :meth:`answer` does."""
        return self._settle_by_person(ask_id, "declined", reason, by)

    def send(self, text: str) -> Mail:
        """Put something into the inbox without interrupting anything. Raises ValueError when it says nothing."""
        if not text.strip():
            raise ValueError("there is nothing in that message; send some text")
        mail = self._inbox.put(text, self.amend(text, label=self.texts("human.amendment")))
        self._log.mail(mail)
        return mail

    def amend(self, text: str, *, label: str) -> str:
        """Append ``text`` to the brief under a dated heading that begins with ``label``.

        The path it went to; "" when there is none or the disk refused, which is noted in ``ui_errors``.
        """
        return self._log.amend(text, label)

    def take_mail(self) -> list[Mail]:
        """Hand over what was said and not yet taken, oldest first; it counts as delivered from here on."""
        taken = self._inbox.take()
        ids = {mail.id for mail in taken}
        with self._lock:
            self._books = {words: kept for words, kept in self._books.items() if kept[1] not in ids}
        return taken

    def remember(self, question: str, answer: str) -> None:
        """Keep an answer the agent may not have got: the same words asked again are answered with it, once."""
        with self._lock:
            self._books[_words(question)] = (answer, "")

    def redeliver(self, ask_id: str) -> bool:
        """Put an answer into the inbox whose delivery is known to have failed. False if there is no such answer."""
        with self._lock:
            ask = self._asks.get(ask_id)
        if ask is None or ask.state != "answered":
            return False
        self._keep(ask)
        return True

    def close(self) -> None:
        """Settle every waiting question as declined, each with its event. The channel can be used again."""
        with self._lock:
            claimed = [waiting for waiting in self._waiting.values() if waiting.phase == "open"]
            for waiting in self._waiting.values():
                waiting.fallback = waiting.fallback or "declined"
            for waiting in claimed:
                waiting.phase = "claimed"
        for waiting in claimed:
            self._settle(waiting, _settled(waiting.ask, "declined"))

    # -- what anybody may look at ----------------------------------------------------------------------------

    @property
    def on_event(self) -> EventSink | None:
        """The sink of this channel's events; may be set at any time."""
        return self._emit.sink

    @on_event.setter
    def on_event(self, sink: EventSink | None) -> None:
        self._emit.sink = sink

    @property
    def asks(self) -> list[Ask]:
        """Every question so far, oldest first, as it stands now."""
        with self._lock:
            return list(self._asks.values())

    @property
    def mail(self) -> list[Mail]:
        """Everything said unprompted, oldest first, as it stands now."""
        return self._inbox.all()

    def pending(self) -> list[Ask]:
        """The questions that wait for an answer, oldest first."""
        with self._lock:
            return [waiting.ask for waiting in self._waiting.values() if not waiting.abandoned]

    def pending_mail(self) -> list[Mail]:
        """What was said and the agent has not taken yet, oldest first."""
        return self._inbox.pending()

    def transcript(self) -> str:
        """Every question, outcome and message so far, in the order of their beginning, as Markdown."""
        entries = [
            (ask.asked_at, question_entry(ask, self.texts) + "\n" + outcome_entry(ask, self.texts)) for ask in self.asks
        ]
        entries += [(mail.at, mail_entry(mail, self.texts)) for mail in self.mail]
        return "\n".join(text for _, text in sorted(entries, key=lambda entry: entry[0]))

    def reply(self, ask: Ask) -> str:
        """What the agent is told about a settled question: the answer word for word, or what to do without one."""
        if ask.state == "answered":
            return ask.answer if ask.answer.strip() else self.texts("human.empty_answer")
        text = self._fallbacks[ask.state]
        if ask.state == "declined" and ask.answer.strip():
            return self.texts("human.declined_reason", declined=text, reason=ask.answer)
        return text

    def mcp_servers(self) -> dict[str, Any]:
        """The in-process MCP server ``human`` with both tools, in the form a session's specification takes."""
        # The one place where the core reaches for the SDK from below; at import time it would be a cycle.
        from flower_core.claude.tools import human_server

        return {"human": human_server(self)}

    # -- the life of a question ------------------------------------------------------------------------------

    def _admit(self, question: object, options: object) -> tuple[Ask, str]:
        """Number a question and decide, with the lock held, whether it waits; with the id of mail it makes moot."""
        valid = _is_question(question, options)
        ask = Ask(
            f"q{self._next_id}",
            question if isinstance(question, str) else "",
            list(options) if valid and isinstance(options, (list, tuple)) else [],
            timeout_s=self.timeout_s,
        )
        self._next_id += 1
        if not valid:
            return _settled(ask, "invalid"), ""
        answer, mail_id = self._books.pop(_words(ask.question), (None, ""))
        if answer is not None:
            return replace(_settled(ask, "answered", answer), replayed=True), mail_id
        if self.max_asks is not None and self._used >= self.max_asks:
            return _settled(ask, "over_budget"), ""
        self._used += 1
        if self.timeout_s is not None and self.timeout_s <= 0:
            return _settled(ask, "timeout"), ""
        return ask, ""

    def _announce(self, waiting: _Waiting, remaining: int) -> None:
        self._log.question(waiting.ask)
        try:
            self._emit(waiting.ask.event(remaining))
        finally:
            waiting.announced.set()
        with self._lock:
            self._unseen.append(waiting.ask.id)
        self._ring()

    def _settle_by_person(self, ask_id: str, state: AskState, text: str, by: str) -> bool:
        with self._lock:
            waiting = self._waiting.get(ask_id)
            if waiting is None or waiting.phase != "open":
                return False
            waiting.phase = "claimed"
        settled = replace(_settled(waiting.ask, state, text), answered_by=by)
        try:
            if self.on_settle is not None:
                self.on_settle(settled)
        except BaseException:
            self._give_back(waiting)
            raise
        self._settle(waiting, settled)
        return True

    def _give_back(self, waiting: _Waiting) -> None:
        """Undo a claim; what happened to the question meanwhile takes effect now."""
        with self._lock:
            fallback = waiting.fallback
            if fallback is None:
                waiting.phase = "open"
        if fallback is not None:
            self._settle(waiting, _settled(waiting.ask, fallback))
        else:
            self._ring()  # a caller of next_ask may have passed it over while it was claimed

    def _expire(self, waiting: _Waiting) -> None:
        self._end(waiting, "timeout")

    def _abandon(self, waiting: _Waiting) -> None:
        """The waiting call is gone without having heard of an outcome."""
        waiting.abandoned = True
        if self._end(waiting, "declined") == "settled":
            self._keep(waiting.ask)

    def _end(self, waiting: _Waiting, state: Literal["timeout", "declined"]) -> str:
        """Settle an open question as ``state``; one that is claimed only should the claim fail. The phase found."""
        with self._lock:
            found = waiting.phase
            if found == "open":
                waiting.phase = "claimed"
            elif found == "claimed":
                waiting.fallback = state
        if found == "open":
            self._settle(waiting, _settled(waiting.ask, state))
        return found

    def _settle(self, waiting: _Waiting, settled: Ask) -> None:
        """Make a claimed question's outcome known: to its call, then to the log and the sink."""
        with self._lock:
            waiting.ask = self._asks[settled.id] = settled
            waiting.phase = "settled"
            del self._waiting[settled.id]
            heard = not waiting.abandoned
            remaining = self._remaining()
        if heard:
            try:
                waiting.loop.call_soon_threadsafe(_wake, waiting.call)
            except RuntimeError:  # the loop was closed under the call
                heard = False
        if waiting.announcer != threading.get_ident():
            waiting.announced.wait(_ANNOUNCE_WAIT_S)
        self._log.outcome(settled)
        self._emit(settled.event(remaining))
        if not heard:
            self._keep(settled)

    def _keep(self, ask: Ask) -> None:
        """What a person said to a question whose call is gone goes into the inbox, once."""
        with self._lock:
            if ask.id in self._kept or not (ask.state == "answered" or ask.answer.strip()):
                return
            self._kept.add(ask.id)
        key = "human.late_answer" if ask.state == "answered" else "human.late_decline"
        words = self.reply(ask) if ask.state == "answered" else ask.answer
        mail = self._inbox.put(self.texts(key, question=ask.question, answer=words))
        if ask.state == "answered":
            with self._lock:
                self._books[_words(ask.question)] = (ask.answer, mail.id)

    def _take_unseen(self) -> Ask | None:
        """The first question nobody was given yet, with the lock held; settled ones drop out, claimed ones stay."""
        self._unseen = [ask_id for ask_id in self._unseen if ask_id in self._waiting]
        for ask_id in self._unseen:
            if self._waiting[ask_id].phase == "open":
                self._unseen.remove(ask_id)
                return self._waiting[ask_id].ask
        return None

    def _ring(self) -> None:
        """Wake every caller of :meth:`next_ask`; they compete, so none can take a wake-up with it when it goes."""
        with self._lock:
            bells, self._bells = self._bells, []
        for loop, bell in bells:
            with contextlib.suppress(RuntimeError):  # that caller's loop is closed
                loop.call_soon_threadsafe(_wake, bell)

    def _remaining(self) -> int:
        return -1 if self.max_asks is None else max(0, self.max_asks - self._used)


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _settled(ask: Ask, state: AskState, answer: str = "") -> Ask:
    return replace(ask, state=state, answer=answer, settled_at=time.time())


def _is_question(question: object, options: object) -> bool:
    if not isinstance(question, str) or not question.strip():
        return False
    if options is None:
        return True
    return isinstance(options, (list, tuple)) and all(isinstance(item, str) and item.strip() for item in options)


def _words(question: str) -> str:
    return " ".join(question.split())


def _path(path: Path | str | None) -> Path | None:
    return None if path is None else Path(path)
