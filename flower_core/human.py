"""Asking a person: questions that wait without blocking anything, and what a person says unprompted.

Who gets to settle a question is decided in :mod:`flower_core.human_questions`; here is what follows from it: the
waiting call hears of it, the log and the sink are told, and what a person said to a call that is gone is kept.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from flower_core.events import EventSink, SafeSink, clean_text
from flower_core.human_inbox import Books, Inbox
from flower_core.human_log import HumanLog, transcript
from flower_core.human_questions import Ending, Questions, Waiting
from flower_core.human_queue import AskQueue, wake
from flower_core.human_records import Ask, AskState, Mail
from flower_core.human_replies import Replies
from flower_core.texts import DEFAULT_LANG, texts_for

__all__ = ["Ask", "HumanChannel", "Mail"]

#: How long an outcome waits for the sink to return from its ``asked`` event, in seconds. Only a sink that itself
#: waits for the answering thread can use it up; then the order of the two events is given up, not the run.
_ANNOUNCE_WAIT_S = 2.0


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
        self._replies = Replies(self.texts, over_budget=over_budget_text, timeout=timeout_text, declined=declined_text)
        self._emit = SafeSink(on_event, self.ui_errors)
        self._log = HumanLog(log_path, amend_path, self.texts, self.ui_errors)
        self._inbox = Inbox(self._emit, first_mail_id)
        self._books = Books()
        self._questions = Questions(first_id)
        self._queue = AskQueue(self._questions)

    # -- what agents and the framework call, on their event loop --------------------------------------------

    async def ask(self, question: str, options: list[str] | None = None) -> Ask:
        """Put a question and wait for its outcome. Raises nothing but CancelledError.

        The result is settled: ``answered``, ``timeout``, ``declined``, ``over_budget`` or ``invalid`` (no text in
        ``question``, or ``options`` that are no list of texts). Cancelling the call settles it as ``declined``.
        """
        loop = asyncio.get_running_loop()
        draft, mail_id = self._draft(question, options)
        waiting = self._questions.admit(draft, self.max_asks, loop)
        if isinstance(waiting, Ask):
            self._log.question(waiting)
            self._report(waiting)
            if mail_id:
                self._inbox.take(only=mail_id)
            return waiting
        timer: asyncio.TimerHandle | None = None
        try:
            if self.timeout_s is not None:
                timer = loop.call_later(self.timeout_s, self._end, waiting, "timeout")
            self._announce(waiting)
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
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                return await self._queue.get()
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

    def send(self, text: str, *, ref: str = "") -> Mail:
        """Put something into the inbox, interrupting nothing. ``ref`` goes into its events. ValueError when empty."""
        if not text.strip():
            raise ValueError("there is nothing in that message; send some text")
        text = clean_text(text)
        mail = self._inbox.put(text, self.amend(text, label=self.texts("human.amendment")), ref)
        self._log.mail(mail)
        return mail

    def amend(self, text: str, *, label: str) -> str:
        """Append ``text`` to the brief under a dated heading that begins with ``label``.

        The path it went to; "" when there is none or the disk refused, which is noted in ``ui_errors``.
        """
        return self._log.amend(text, label)

    def take_mail(self, only: str | None = None) -> list[Mail]:
        """Hand over what was said and not yet taken, oldest first; it counts as delivered. ``only``: that id alone."""
        taken = self._inbox.take(only)
        self._books.forget(mail.id for mail in taken)
        return taken

    def remember(self, question: str, answer: str) -> None:
        """Keep an answer the agent may not have got: the same words asked again are answered with it, once."""
        self._books.keep(question, answer)

    def go_on(self, *, ask: int, mail: int, used: int = 0) -> None:
        """Go on after an earlier process: number the next question and message at least so high.

        ``used`` questions have been taken from the quota already.
        """
        self._questions.go_on(ask, used)
        self._inbox.go_on(mail)

    def expect(self, ask_id: str, question: str) -> None:
        """An earlier process left this question open: asked again in the same words it keeps its id."""
        self._questions.expect(ask_id, question)

    def withdraw(self, ask_id: str) -> bool:
        """Expect that question no longer; True for exactly one caller, False once it has been asked again."""
        return self._questions.withdraw(ask_id)

    def redeliver(self, ask_id: str) -> bool:
        """Put an answer into the inbox whose delivery is known to have failed. False if there is no such answer."""
        ask = self._questions.get(ask_id)
        if ask is None or ask.state != "answered":
            return False
        self._keep(ask)
        return True

    def close(self) -> None:
        """Settle every waiting question as declined, each with its event. The channel can be used again."""
        for waiting in self._questions.claim_all():
            self._settle(waiting, waiting.ask.settled("declined"))

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
        return self._questions.all()

    @property
    def mail(self) -> list[Mail]:
        """Everything said unprompted, oldest first, as it stands now."""
        return self._inbox.all()

    def pending(self) -> list[Ask]:
        """The questions that wait for an answer, oldest first."""
        return self._questions.pending()

    def pending_mail(self) -> list[Mail]:
        """What was said and the agent has not taken yet, oldest first."""
        return self._inbox.pending()

    def transcript(self) -> str:
        """Every question, outcome and message so far, in the order of their beginning, as Markdown."""
        return transcript(self.asks, self.mail, self.texts)

    def reply(self, ask: Ask) -> str:
        """What the agent is told about a settled question: the answer word for word, or what to do without one."""
        return self._replies.to(ask)

    def mcp_servers(self) -> dict[str, Any]:
        """The in-process MCP server ``human`` with both tools, in the form a session's specification takes."""
        # The one place where the core reaches for the SDK from below; at import time it would be a cycle.
        from flower_core.claude.tools import human_server

        return {"human": human_server(self)}

    # -- the life of a question ------------------------------------------------------------------------------

    def _draft(self, question: object, options: object) -> tuple[Ask, str]:
        """The question before it has a number, settled if nobody need be asked; and the mail that makes moot."""
        draft = Ask.draft(question, options, self.timeout_s)
        recalled = self._books.recall(draft.question) if draft.state == "asked" else None
        if recalled is None:
            return draft, ""
        return replace(draft.settled("answered", recalled[0]), replayed=True), recalled[1]

    def _announce(self, waiting: Waiting) -> None:
        try:
            self._log.question(waiting.asked)
            self._emit(waiting.asked.event(self._questions.remaining(self.max_asks)))
        finally:
            waiting.announced.set()
        self._queue.put(waiting.ask.id)

    def _settle_by_person(self, ask_id: str, state: AskState, text: str, by: str) -> bool:
        waiting = self._questions.claim(ask_id)
        if waiting is None:
            return False
        settled = waiting.ask.settled(state, text, by)
        try:
            if self.on_settle is not None:
                self.on_settle(settled)
        except BaseException:
            ending = self._questions.give_back(waiting)
            if ending is not None:
                self._settle(waiting, waiting.ask.settled(ending))
            self._queue.ring()  # a consumer may have passed it over while it was claimed
            raise
        self._settle(waiting, settled)
        return True

    def _abandon(self, waiting: Waiting) -> None:
        """The waiting call is gone without having heard of an outcome."""
        if self._end(waiting, "declined", abandoned=True) == "settled":
            self._keep(waiting.ask)

    def _end(self, waiting: Waiting, ending: Ending, abandoned: bool = False) -> str:
        """End a question no person has claimed; the phase it was found in."""
        found = self._questions.claim_to_end(waiting, ending, abandoned=abandoned)
        if found == "open":
            self._settle(waiting, waiting.ask.settled(ending))
        return found

    def _settle(self, waiting: Waiting, settled: Ask) -> None:
        """Make a claimed question's outcome known: to its call, then to the log and the sink."""
        heard = self._questions.settle(waiting, settled) and wake(waiting.loop, waiting.call)
        if waiting.announcer != threading.get_ident():
            waiting.announced.wait(_ANNOUNCE_WAIT_S)
        self._report(settled)
        if not heard:
            self._keep(settled)

    def _report(self, settled: Ask) -> None:
        self._log.outcome(settled)
        self._emit(settled.event(self._questions.remaining(self.max_asks)))

    def _keep(self, ask: Ask) -> None:
        """What a person said to a question whose call is gone goes into the inbox, once."""
        answered = ask.state == "answered"
        if not answered and not ask.answer.strip():
            return
        if not self._books.first_time(ask.id):
            return
        key, words = ("late_answer", self.reply(ask)) if answered else ("late_decline", ask.answer)
        mail = self._inbox.put(self.texts(f"human.{key}", question=ask.question, answer=words))
        if answered:
            self._books.keep(ask.question, ask.answer, mail.id)
