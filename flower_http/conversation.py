"""What agents asked and what people said in one run: the open part from its view, the rest from the journal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from flower_http import records
from flower_http.journal import Journal
from flower_http.projection import RunView
from flower_http.views import AskView, MailView

ANSWER_TIMEOUT_S: Final = 5.0


class Conversation:
    """The conversation of run ``number`` of ``journal``; ``view`` gives the run as it is shown.

    What it says agrees with the events that are shown, also while newer ones are being kept. Every method may be
    called from any thread and raises sqlite3.Error when the journal cannot be read.
    """

    def __init__(self, journal: Journal, number: int, view: Callable[[], RunView]) -> None:
        self._journal = journal
        self._number = number
        self._view = view

    def asks(self) -> list[AskView]:
        """Every question so far, oldest first."""
        view = self._view()
        known = {ask.id: ask for ask in map(AskView.restore, self._settled("ask", view))}
        known.update((ask.id, ask) for ask in view.asks)
        return sorted(known.values(), key=lambda ask: ask.since_seq)

    def mail(self) -> list[MailView]:
        """Everything said unprompted so far, oldest first."""
        view = self._view()
        known = {data["id"]: MailView(**data) for data in self._settled("mail", view)}
        known.update((item.id, item) for item in view.mail)
        return sorted(known.values(), key=lambda item: item.since_seq)

    def ask(self, ask_id: str) -> AskView | None:
        """The question with this id, or None."""
        view = self._view()
        found = view.ask(ask_id)
        return found or next(map(AskView.restore, self._settled("ask", view, ask_id)), None)

    def message(self, mail_id: str) -> MailView | None:
        """What was said under this id, or None."""
        view = self._view()
        found = next((item for item in view.mail if item.id == mail_id), None)
        return found or next((MailView(**data) for data in self._settled("mail", view, mail_id)), None)

    def settle_answer(self, ask: Mapping[str, Any], *, timeout: float = ANSWER_TIMEOUT_S) -> None:
        """Keep how a person settled a question (``ask["id"]``); returns once that survives a crash.

        Raises :class:`JournalUnavailable` after ``timeout`` seconds, and then it is not kept and never will be.
        """
        kept = dict(ask)
        self._journal.execute(lambda db: records.insert_answer(db, self._number, str(kept["id"]), kept), timeout)

    def answers(self) -> dict[str, dict[str, Any]]:
        """Every kept answer by the id of its question, whether or not the agent ever got it."""
        return self._journal.read(lambda db: records.load_answers(db, self._number))

    def _settled(self, kind: str, view: RunView, only: str | None = None) -> list[dict[str, Any]]:
        return self._journal.read(lambda db: records.load_settled(db, self._number, kind, view.last_seq, only))
