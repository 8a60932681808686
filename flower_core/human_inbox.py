"""What a person said that no waiting call will carry to the agent: unprompted words, and answers that came late."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import replace

from flower_core.events import EventSink
from flower_core.human_questions import words_of
from flower_core.human_records import Mail


class Inbox:
    """A queue of :class:`Mail` for any number of threads; ``emit`` is called outside its lock and must not raise."""

    def __init__(self, emit: EventSink, first_id: int = 1) -> None:
        self._emit = emit
        self._lock = threading.Lock()
        self._next_id = first_id
        self._mail: dict[str, Mail] = {}
        self._announced: set[str] = set()

    def go_on(self, first_id: int) -> None:
        """Give no number below ``first_id`` to new mail."""
        with self._lock:
            self._next_id = max(self._next_id, first_id)

    def put(self, text: str, amended: str = "", ref: str = "") -> Mail:
        """Queue ``text`` and emit ``queued``. It can be taken only after that, so events keep their order."""
        with self._lock:
            mail = Mail(f"m{self._next_id}", text, amended=amended, ref=ref)
            self._next_id += 1
            self._mail[mail.id] = mail
        try:
            self._emit(mail.event())
        finally:
            with self._lock:
                self._announced.add(mail.id)
        return mail

    def take(self, only: str | None = None) -> list[Mail]:
        """Everything announced and not yet taken, oldest first, now marked delivered; ``only`` limits it to one id."""
        with self._lock:
            ready = [
                replace(mail, state="delivered")
                for mail in self._mail.values()
                if mail.state == "queued" and mail.id in self._announced and only in (None, mail.id)
            ]
            self._mail.update((mail.id, mail) for mail in ready)
        for mail in ready:
            self._emit(mail.event())
        return ready

    def pending(self) -> list[Mail]:
        """What the agent has not taken, oldest first."""
        return [mail for mail in self.all() if mail.state == "queued"]

    def all(self) -> list[Mail]:
        """Everything ever said, oldest first."""
        with self._lock:
            return list(self._mail.values())


class Books:
    """Answers the agent may never have got, by the words of their question, for when it asks the same again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answers: dict[str, tuple[str, str]] = {}
        self._seen: set[str] = set()

    def first_time(self, ask_id: str) -> bool:
        """Whether this is the first call for ``ask_id``: two threads may find out at once that an answer came late."""
        with self._lock:
            first = ask_id not in self._seen
            self._seen.add(ask_id)
            return first

    def keep(self, question: str, answer: str, mail_id: str = "") -> None:
        """Keep ``answer``; ``mail_id`` is the mail that tells of it too, if there is one."""
        with self._lock:
            self._answers[words_of(question)] = (answer, mail_id)

    def recall(self, question: str) -> tuple[str, str] | None:
        """The answer kept for these words, and the mail it makes superfluous; given out once."""
        with self._lock:
            return self._answers.pop(words_of(question), None)

    def forget(self, mail_ids: Iterable[str]) -> None:
        """Drop the answers these mails have told the agent: asking again is then meant."""
        gone = set(mail_ids)
        with self._lock:
            self._answers = {words: kept for words, kept in self._answers.items() if kept[1] not in gone}
