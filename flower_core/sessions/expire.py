"""Expire: what a look showed long ago is not how things are now."""

from __future__ import annotations

from flower_core.output_files import is_pointer
from flower_core.sessions.transcript import Entry, results_of, with_texts
from flower_core.shell import is_ephemeral
from flower_core.texts import DEFAULT_LANG, texts_for


def expire(entries: list[Entry], *, keep_last: int = 6, max_chars: int = 2000, lang: str = DEFAULT_LANG) -> list[Entry]:
    """Put one line in place of the results of Bash looks older than the last ``keep_last`` of them.

    A look is what :func:`~flower_core.shell.is_ephemeral` says is one. Results of more than ``max_chars`` characters
    stay, as do pointers to where such a result has gone.
    """
    looks = [
        result
        for result in results_of(entries)
        if result.ran and result.command is not None and is_ephemeral(result.command)
    ]
    line = texts_for(lang)("sessions.expired")
    old = looks[: max(len(looks) - keep_last, 0)]
    stale = [result for result in old if len(result.text) <= max_chars and not is_pointer(result.text)]
    return with_texts(entries, [(result, line) for result in stale])
