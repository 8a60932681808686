"""What people do to a run: answer, decline, say something, interrupt. Each is kept before it is confirmed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from flower_http.errors import Problem, invalid_body, unavailable
from flower_http.event_log import EventLog, LogClosed
from flower_http.jobs import Job
from flower_http.journal import JournalUnavailable
from flower_http.projection import RunView
from flower_http.recovery import OpenAsks, write_outcome
from flower_http.views import AskView, MailView

#: How long a request waits for what it did to be committed, in seconds.
KEPT_S = 5.0
_LOOK_EVERY_S = 0.01


class Steering:
    """Carries people's words to the jobs. ``log_of`` and ``job_of`` look up a run; the first raises Problem 404."""

    def __init__(
        self, log_of: Callable[[str], EventLog], job_of: Callable[[str], Job | None], open_asks: OpenAsks
    ) -> None:
        self._log_of = log_of
        self._job_of = job_of
        self._open_asks = open_asks

    def answer(
        self, run_id: str, ask_id: str, *, text: str | None, option: int | None, by: str
    ) -> tuple[AskView, bool]:
        """Settle a question by words or by the 1-based number of an option."""
        log = self._log_of(run_id)
        ask = _ask_of(log, ask_id)
        return self._settle(log, ask, "answered", _words(ask, text, option), by)

    def decline(self, run_id: str, ask_id: str, *, reason: str, by: str) -> tuple[AskView, bool]:
        """Settle a question as declined."""
        log = self._log_of(run_id)
        return self._settle(log, _ask_of(log, ask_id), "declined", reason, by)

    def send(self, run_id: str, text: str, key: str) -> MailView:
        """Put ``text`` into the inbox; it is in the brief, too, when this returns.

        The ``key`` of the request becomes part of what is kept. So a request that is repeated because its reply was
        lost, with the server or without it, is told what the first one came to, and nothing is said twice.
        """
        log = self._log_of(run_id)
        before = _said_with(key, log)
        if before is not None:
            return before
        job = self._active(log)
        job.opened.wait(KEPT_S)  # a run that has only just begun has its inbox in a moment
        if job.channel is None:
            raise Problem(409, "not-running", "this run has no inbox; interrupt it with words instead")
        try:
            # What could not be kept in time the first time may be there already.
            mail_id = job.said_with(key) or job.channel.send(text, ref=key).id
        except ValueError as error:
            raise invalid_body({"text": [str(error)]}) from error
        return self._once_kept(log, mail_id)

    def _once_kept(self, log: EventLog, mail_id: str) -> MailView:
        view = self.wait_until(log, lambda seen: seen.final or log.conversation.message(mail_id) is not None)
        found = log.conversation.message(mail_id)
        if found is None and view.final:
            raise Problem(409, "not-running", "the run ended before it could be told")
        if found is None:
            raise unavailable("it reached the agent, but could not be kept yet")
        return found

    def interrupt(self, run_id: str, text: str, key: str) -> None:
        """Stop the agent at work; it goes on with ``text``, which is in the inbox and the brief, too.

        What is said is kept when this returns, and said once for each ``key``, as with :meth:`send`: a request that is
        repeated does not stop the agent again.
        """
        log = self._log_of(run_id)
        if _said_with(key, log) is not None:
            return
        job = self._active(log)
        mail_id = job.said_with(key) or job.interrupt(text, ref=key)
        if mail_id is None:
            raise Problem(409, "not-running", "there is nothing to interrupt just now")
        if mail_id:
            self._once_kept(log, mail_id)

    def settle_kept(self, log: EventLog) -> None:
        """Write the outcome of questions whose answer was kept when the process died, and not shown any more."""
        kept = log.conversation.answers()
        for ask in log.view.asks:
            if ask.id in kept and self._open_asks.claim(log.run_id, ask.id):
                known = kept[ask.id]
                write_outcome(log, ask, str(known["state"]), str(known["answer"]), str(known.get("answered_by", "")))

    def decline_open(self, log: EventLog) -> None:
        """Settle whatever an earlier process left waiting: its run will not go on."""
        self.settle_kept(log)
        for ask in log.view.asks:
            if self._open_asks.claim(log.run_id, ask.id):
                write_outcome(log, ask, "declined", "", "")

    def wait_until(self, log: EventLog, condition: Callable[[RunView], bool]) -> RunView:
        """The committed view once ``condition`` holds for it, or as it is after a few seconds."""
        deadline = time.monotonic() + KEPT_S
        while not condition(log.view) and time.monotonic() < deadline:
            log.wait_flushed(max(0.0, deadline - time.monotonic()))
            if not condition(log.view):
                time.sleep(_LOOK_EVERY_S)
        return log.view

    def _active(self, log: EventLog) -> Job:
        job = self._job_of(log.run_id)
        if job is None or not job.started or log.view.final:
            raise Problem(409, "not-running", f"the run is {log.view.state}; only a running one can be told anything")
        return job

    def _settle(self, log: EventLog, ask: AskView, state: str, text: str, by: str) -> tuple[AskView, bool]:
        if ask.state == "asked":
            try:
                done = self._try_to_settle(log, ask, state, text, by)
            except JournalUnavailable as error:
                raise unavailable(f"not kept, and the question waits on: {error}") from error
            self.wait_until(log, lambda seen: seen.ask(ask.id) is None)
            ask = log.conversation.ask(ask.id) or ask
            if done:
                return ask, False
            if ask.state == "asked":
                detail = "somebody else is settling this question just now, or its run is on the way; try again"
                raise Problem(503, "not-ready", detail, headers={"Retry-After": "1"})
        return _settled_before(ask, state, text, by)

    def _try_to_settle(self, log: EventLog, ask: AskView, state: str, text: str, by: str) -> bool:
        job = self._job_of(log.run_id)
        if job is not None and job.started:
            job.opened.wait(KEPT_S)
        channel = None if job is None else job.channel
        if job is not None and channel is not None:
            if job.settle_ask(ask.id, state, text, by):
                return True
            if not channel.withdraw(ask.id):  # it is asked again just now, or somebody else has it
                return job.settle_ask(ask.id, state, text, by)
        elif log.view.state not in ("interrupted", "queued"):
            return False
        try:
            return self._settle_open(log, ask, state, text, by)
        except BaseException:
            if channel is not None:
                channel.expect(ask.id, ask.question)
            raise

    def _settle_open(self, log: EventLog, ask: AskView, state: str, text: str, by: str) -> bool:
        """Settle a question an earlier process left waiting; its run has not asked it again."""
        if not self._open_asks.claim(log.run_id, ask.id):
            return False
        try:
            log.conversation.settle_answer(_kept(ask, state, text, by))
        except BaseException:
            self._open_asks.give_back(log.run_id, ask.id)
            raise
        try:
            write_outcome(log, ask, state, text, by)
        except LogClosed as error:
            raise Problem(409, "not-running", f"the run takes no more answers: {error}") from error
        self._hand_on(log, ask, state, text, by)
        return True

    def _hand_on(self, log: EventLog, ask: AskView, state: str, text: str, by: str) -> None:
        """Tell a channel that has come into being meanwhile; one that comes later finds the answer in the books."""
        job = self._job_of(log.run_id)
        if job is None or job.channel is None:
            return
        job.channel.withdraw(ask.id)
        if state == "answered":
            job.channel.remember(ask.question, text)
        # The agent may have asked again while the answer was on its way to the disk.
        for waiting in job.waiting_like(ask.question):
            job.settle_ask(waiting, state, text, by)


def _ask_of(log: EventLog, ask_id: str) -> AskView:
    ask = log.conversation.ask(ask_id)
    if ask is None:
        raise Problem(404, "unknown-ask", f"this run has no question {ask_id[:80]!r}; GET …/asks?state=all lists them")
    return ask


def _words(ask: AskView, text: str | None, option: int | None) -> str:
    if option is None:
        return text or ""
    if not 1 <= option <= len(ask.options):
        wrong = f"there is no option {option}; the question has {len(ask.options)}"
        raise invalid_body({"option": [wrong]})
    return ask.options[option - 1]


def _said_with(key: str, log: EventLog) -> MailView | None:
    """What an earlier request with this ``key`` has said; None for nothing, or without a key."""
    return next((mail for mail in log.conversation.mail() if mail.ref == key), None) if key else None


def _kept(ask: AskView, state: str, text: str, by: str) -> dict[str, Any]:
    return {"id": ask.id, "question": ask.question, "state": state, "answer": text, "answered_by": by}


def _settled_before(ask: AskView, state: str, text: str, by: str) -> tuple[AskView, bool]:
    """The very same answer again is as good as the first; any other comes too late."""
    if (ask.state, ask.answer, ask.answered_by) == (state, text, by):
        return ask, True
    raise Problem(409, "ask-settled", f"question {ask.id} no longer waits: {ask.state}", ok=False, ask=ask.to_json())
