"""The terminal: lines, notes and a prompt that stays at the bottom."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import TextIO

from flower_client.wrap import wrap


class Screen:
    """Writes lines to ``out`` and notes to ``err`` (by default the standard ones), and keeps a prompt in sight.

    In a terminal long lines are broken between words, unless ``wraps`` is False: lines for programs stay whole.
    """

    def __init__(self, out: TextIO | None = None, err: TextIO | None = None, *, wraps: bool = True) -> None:
        self._out = out or sys.stdout
        self._err = err or sys.stderr
        self._wraps = wraps
        self._prompt = ""
        self._typed_into = False

    def lines(self, lines: Iterable[str]) -> None:
        """Write ``lines``, above the prompt if there is one."""
        self._write(self._out, list(lines))

    def note(self, line: str) -> None:
        """Write a remark that is no part of what was asked for."""
        self._write(self._err, [line])

    @property
    def prompting(self) -> bool:
        """Whether there is a prompt, so that somebody may be typing behind it."""
        return bool(self._prompt)

    def prompt(self, text: str) -> None:
        """Show ``text`` as the prompt, until :meth:`no_prompt`."""
        self._prompt, self._typed_into = text, False
        self._out.write(text)
        self._out.flush()

    def entered(self) -> None:
        """A line was entered: the terminal has moved to a new line by itself."""
        self._typed_into = True

    def no_prompt(self) -> None:
        """Have no prompt any more."""
        if self._prompt and not self._typed_into:
            self._out.write("\n")
            self._out.flush()
        self._prompt = ""

    def _write(self, stream: TextIO, lines: list[str]) -> None:
        if not lines:
            return
        prompt = self._prompt
        if prompt and not self._typed_into:
            self._out.write("\n")
            self._out.flush()
        columns = _columns(stream) if self._wraps else 0  # asked anew each time: the window may have been resized
        stream.write("".join(f"{part}\n" for line in lines for part in (wrap(line, columns) if columns else [line])))
        stream.flush()
        if prompt:
            self.prompt(prompt)


def _columns(stream: TextIO) -> int:
    """The width of the terminal that ``stream`` is; 0 when it is none, or does not know."""
    try:
        return os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        return 0
