"""Interrupting a run with words: they take the way of the inbox, so that they are kept, shown, and said only once."""

from __future__ import annotations

from concurrent.futures import Future
from functools import partial

from flower_core.human import HumanChannel
from flower_core.runtime import Runtime


class Interruptions:
    """What people say by interrupting the run whose ``channel`` this is. Every method may be called from any thread."""

    def __init__(self, channel: HumanChannel) -> None:
        self._channel = channel

    def interrupt(self, runtime: Runtime, words: str, ref: str) -> str | None:
        """Stop the agent; it goes on with ``words``, which are put into the inbox and the brief as well.

        The id of that mail, which bears ``ref``; "" without words; None, and nothing is said, when there is nothing to
        stop.
        """
        kept: Future[str] = Future()
        # Whichever comes last, the prompt that has the words or the mail, has the mail marked as delivered. A process
        # that dies in between has told nobody: the run that goes on finds the mail waiting.
        take = partial(kept.add_done_callback, lambda mail: self._channel.take_mail(mail.result()))
        if not runtime.interrupt(words, take):
            return None
        if not words.strip():
            return ""
        mail = self._channel.send(words, ref=ref)
        kept.set_result(mail.id)
        return mail.id

    def said_with(self, ref: str) -> str | None:
        """The id of the mail that bears ``ref``, in the inbox by whatever way; None for none, or without one."""
        mails = self._channel.mail if ref else []
        return next((mail.id for mail in mails if mail.ref == ref), None)
