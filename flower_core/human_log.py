"""The disk side of asking: the question log, and what was said appended to the brief.

Nothing here raises: a full disk must not end hours of work. What went wrong goes into ``errors``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

from flower_core.documents import append_amendment
from flower_core.events import note
from flower_core.files import append_text
from flower_core.human_records import Ask, Mail
from flower_core.texts import Texts


class HumanLog:
    """Appends to ``log_path`` and ``amend_path``, either of which may be None; safe to use from any thread."""

    def __init__(
        self, log_path: Path | str | None, amend_path: Path | str | None, texts: Texts, errors: list[str]
    ) -> None:
        self.log_path = None if log_path is None else Path(log_path)
        self.amend_path = None if amend_path is None else Path(amend_path)
        self._texts = texts
        self._errors = errors
        # Two threads that append at once would otherwise mix their lines.
        self._lock = threading.Lock()

    def question(self, ask: Ask) -> None:
        """Log that ``ask`` was put."""
        self._append(question_entry(ask, self._texts))

    def outcome(self, ask: Ask) -> None:
        """Log how ``ask`` was settled."""
        self._append(outcome_entry(ask, self._texts))

    def mail(self, mail: Mail) -> None:
        """Log something said unprompted."""
        self._append(mail_entry(mail, self._texts))

    def amend(self, text: str, label: str) -> str:
        """Append ``text`` to the brief under a dated heading; the path it went to, "" when it went nowhere."""
        path = self.amend_path
        if path is None:
            return ""
        done = self._guarded(lambda: append_amendment(path, text, label=label, lang=self._texts.lang))
        return str(path) if done else ""

    def _append(self, entry: str) -> None:
        path = self.log_path
        if path is not None:
            self._guarded(lambda: append_text(path, entry + "\n"))

    def _guarded(self, write: Callable[[], None]) -> bool:
        try:
            with self._lock:
                write()
        except (OSError, ValueError) as error:  # ValueError: a path no file system takes
            note(error, self._errors)
            return False
        return True


def question_entry(ask: Ask, texts: Texts) -> str:
    """A question as Markdown, its options numbered."""
    lines = [texts("human.log_question", id=ask.id, at=stamp(ask.asked_at)), "", quote(ask.question)]
    if ask.options:
        lines.append("")
    for number, option in enumerate(ask.options, 1):
        lines.append(texts("human.log_option", number=number, option=option))
    return "\n".join([*lines, ""])


def outcome_entry(ask: Ask, texts: Texts) -> str:
    """How a question was settled, as Markdown; empty for one that still waits."""
    if ask.state == "asked":
        return ""
    at = stamp(ask.settled_at or ask.asked_at)
    lines = [texts("human.log_outcome", id=ask.id, state=texts(f"human.state.{ask.state}"), at=at)]
    if ask.answer:
        lines += ["", quote(ask.answer)]
    return "\n".join([*lines, ""])


def mail_entry(mail: Mail, texts: Texts) -> str:
    """Something said unprompted, as Markdown."""
    return "\n".join([texts("human.log_mail", id=mail.id, at=stamp(mail.at)), "", quote(mail.text), ""])


def quote(text: str) -> str:
    """``text`` as a Markdown quotation, so that no line of it can pass for a heading of ours."""
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines()) or ">"


def transcript(asks: list[Ask], mail: list[Mail], texts: Texts) -> str:
    """Questions with their outcomes, and what was said unprompted, in the order of their beginning, as Markdown."""
    entries = [(ask.asked_at, question_entry(ask, texts) + "\n" + outcome_entry(ask, texts)) for ask in asks]
    entries += [(said.at, mail_entry(said, texts)) for said in mail]
    return "\n".join(text for _, text in sorted(entries, key=lambda entry: entry[0]))


def stamp(at: float) -> str:
    """``at`` (seconds since the epoch) as local time for people to read."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))
