"""What a person said unprompted, in order, until the agent takes it."""

from __future__ import annotations

import threading
from dataclasses import replace

from flower_core.events import EventSink
from flower_core.human_records import Mail


class Inbox:
    """A queue of :class:`Mail` for any number of threads; ``emit`` is called outside its lock and must not raise."""

    def __init__(self, emit: EventSink, first_id: int = 1) -> None:
        self._emit = emit
        self._lock = threading.Lock()
        self._next_id = first_id
        self._mail: dict[str, Mail] = {}
        self._announced: set[str] = set()

    def put(self, text: str, amended: str = "") -> Mail:
        """Queue ``text`` and emit ``queued``. It can be taken only after that, so events keep their order."""
        with self._lock:
            mail = Mail(f"m{self._next_id}", text, amended=amended)
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
