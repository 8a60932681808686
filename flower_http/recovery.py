"""What an earlier process left open in a run that goes on, and what becomes of it.

Answers and words that the agent may never have got, and the verdict that sent its work back, stand in the first prompt
of the run. A question that still waited goes on waiting: it can be answered at any time, keeps its id when the agent
asks the same again, and is declined once the step that was cut off is over without it.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from flower_core.documents import Verdict
from flower_core.human import HumanChannel
from flower_core.texts import texts_for
from flower_http.event_log import EventLog
from flower_http.projection import RunView
from flower_http.views import AskView, MailView


class OpenAsks:
    """The questions that wait although no call does: each gets one outcome, from whoever claims it first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._claimed: set[tuple[str, str]] = set()

    def claim(self, run_id: str, ask_id: str) -> bool:
        """Whether the caller is the one who settles this question."""
        with self._lock:
            if (run_id, ask_id) in self._claimed:
                return False
            self._claimed.add((run_id, ask_id))
            return True

    def give_back(self, run_id: str, ask_id: str) -> None:
        """The claim came to nothing; the question waits on."""
        with self._lock:
            self._claimed.discard((run_id, ask_id))


class Recovery:
    """What is left of ``log`` for a run that goes on (``resumed``); for a new run there is nothing."""

    def __init__(self, log: EventLog, lang: str, open_asks: OpenAsks, *, resumed: bool) -> None:
        self._log = log
        self._texts = texts_for(lang)
        self._open_asks = open_asks
        self._resumed = resumed
        view = log.view
        asks, mail = (log.conversation.asks(), log.conversation.mail()) if resumed else ([], [])
        self._mail: list[MailView] = [item for item in mail if item.waiting]
        self._open: list[AskView] = [ask for ask in asks if ask.waiting]
        self._used = sum(1 for ask in asks if ask.state not in ("asked", "over_budget", "invalid"))
        #: The step and round in which the earlier process died.
        self.cut_off = (view.step.name, view.step.round) if resumed and view.step.name else None
        #: The verdict that began that round. The session may have been cut off before it heard of it.
        self._sent_back = _sent_back(view, lang) if self.cut_off is not None and self.cut_off[1] > 1 else None
        self._next_ask = 1 + max((_number(ask.id) for ask in asks), default=0)
        self._next_mail = 1 + max((_number(item.id) for item in mail), default=0)

    def opening(self) -> str:
        """What was said before the process died, for the first prompt; "" when there is nothing to tell."""
        texts, parts = self._texts, []
        if self._sent_back is not None:
            parts.append(texts("runtime.judged_before", verdict=self._sent_back.feedback()).strip())
        answers = self._answers()
        if answers:
            rows = [{key: kept[key] for key in ("question", "answer")} for kept in answers]
            lines = [texts("runtime.answered_line", **row) for row in rows]
            parts.append(texts("runtime.answered_before", answers="\n".join(lines)).strip())
        if self._mail:
            parts.append(texts("runtime.said_before", words="\n\n".join(mail.text for mail in self._mail)).strip())
        return "\n\n".join(parts)

    def begin(self, channel: HumanChannel | None) -> None:
        """Tell the channel what it has to know of the earlier process, and count what :meth:`opening` tells as taken.

        Call it once the channel can be found by whoever answers: an answer is looked up here, or handed to the
        channel there, and neither can miss the other.
        """
        if channel is not None:
            channel.go_on(ask=self._next_ask, mail=self._next_mail, used=self._used)
            for ask in self._open:
                channel.expect(ask.id, ask.question)
            for kept in self._answers():
                channel.withdraw(str(kept["id"]))
                channel.remember(str(kept["question"]), str(kept["answer"]))
        for mail in self._mail:
            payload = {"kind": "mail", "id": mail.id, "state": "delivered", "amended": mail.amended}
            self._log.append("ask", mail.text, payload=payload)

    def end(self, channel: HumanChannel | None) -> None:
        """The step that was cut off is over: what it did not ask again is declined. May be called again."""
        for ask in self._open:
            unasked = channel is None or channel.withdraw(ask.id)
            if unasked and self._open_asks.claim(self._log.run_id, ask.id):
                write_outcome(self._log, ask, "declined", "", "")
        self._open = []

    def _answers(self) -> list[Mapping[str, Any]]:
        kept = self._log.conversation.answers().values() if self._resumed else ()
        return [item for item in kept if item.get("state") == "answered"]


def write_outcome(log: EventLog, ask: AskView, state: str, text: str, by: str) -> None:
    """Append the event that settles ``ask`` where no channel does. Raises LogClosed when the run has ended."""
    payload: dict[str, Any] = {
        "id": ask.id,
        "options": list(ask.options),
        "state": state,
        "answer": text,
        "remaining": ask.remaining,
        "asked_at": ask.asked_at,
    }
    if by:
        payload["answered_by"] = by
    log.append("ask", ask.question, payload=payload)


def _sent_back(view: RunView, lang: str) -> Verdict | None:
    """The run's last verdict if it sent the work back; where it was unreachable, a person's answer did."""
    told = view.verdict
    if not told or told["state"] not in ("not_yet", ""):
        return None
    return Verdict(told["state"], told["reason"], list(told["failed"]), lang)


def _number(name: str) -> int:
    digits = name[1:]
    return int(digits) if digits.isdecimal() else 0
