"""Standard input, read all the time by a thread that can be stopped.

Every line carries what was on the screen when it was begun, so that words typed before a question was shown are never
taken for its answer, however late they are looked at.
"""

from __future__ import annotations

import codecs
import os
import re
import select
import threading
from collections.abc import Callable
from dataclasses import dataclass

try:
    import termios
except ImportError:  # pragma: no cover - Windows has neither termios nor poll()
    termios = None  # type: ignore[assignment]

#: How long, in seconds, to leave the terminal alone when this process is not in its foreground.
BACKGROUND_PAUSE_S = 0.2

#: Begun when something else was on the screen, and so about neither.
OVERTAKEN = "something came up while you typed it"
#: Typed with keys that a terminal hands on as control characters.
KEYS = "a key such as an arrow got into it"
#: As long as Linux lets a line become in a terminal: what is typed or pasted beyond that is lost without a word.
LONGEST_LINE = 4095
CUT = f"a terminal cuts lines off at {LONGEST_LINE} bytes: `flower-client say` and `answer` take longer ones"
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


@dataclass(frozen=True)
class Line:
    """One line as typed, without its end. ``about`` is what :meth:`Keyboard.show` had been told last, or empty.

    ``unfit`` is why nothing must be done with it, for people: one of the constants above, or empty.
    """

    text: str
    about: str = ""
    unfit: str = ""


@dataclass(frozen=True)
class InputClosed:
    """There will be no further line."""


class Keyboard:
    """Reads ``fd`` (a terminal or a pipe) and hands every line to ``deliver``, on a thread of its own."""

    def __init__(self, fd: int, deliver: Callable[[Line | InputClosed], object]) -> None:
        self._fd = fd
        self._terminal = os.isatty(fd)
        self._deliver = deliver
        self._about = ""
        self._begun = ""  # of the line being typed, what was typed before the last show()
        self._pending = ""  # and what has been read since
        self._closed = False
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._lock = threading.Lock()  # held while bytes move from fd to deliver, and while `about` changes
        self._stop_read, self._stop_write = os.pipe()
        self._thread = threading.Thread(target=self._run, name="flower-keyboard", daemon=True)

    @staticmethod
    def available() -> bool:
        """Whether this system can wait for input without blocking on it."""
        return hasattr(select, "poll")

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; what is typed afterwards stays for whoever reads next."""
        os.write(self._stop_write, b".")
        self._thread.join()
        os.close(self._stop_read)
        os.close(self._stop_write)

    def show(self, about: str) -> None:
        """From now on lines are about ``about``, which is about to be shown.

        Whole lines typed until now keep what they were about. A line begun and not ended is delivered once it is ended,
        as overtaken: its beginning was meant for something else, and its end may have been typed without looking.
        """
        with self._lock:
            self._read_what_is_there()
            if self._terminal:
                self._take_in(self._unended())
            self._begun += self._pending
            self._pending = ""
            self._about = about

    def _run(self) -> None:
        poller = select.poll()
        poller.register(self._fd, select.POLLIN)
        poller.register(self._stop_read, select.POLLIN)
        while True:
            ready = {fd for fd, _ in poller.poll()}
            if self._stop_read in ready:
                return
            if not self._in_foreground():
                # Reading a terminal from the background stops the process (SIGTTIN); `fg` will bring it back.
                if select.select([self._stop_read], [], [], BACKGROUND_PAUSE_S)[0]:
                    return
                continue
            with self._lock:
                self._read_what_is_there()
                if self._closed:
                    return

    def _read_what_is_there(self) -> None:
        """Deliver the whole lines that can be read without waiting, and the end of input when it comes."""
        while not self._closed and self._readable() and self._in_foreground():
            try:
                data = os.read(self._fd, 4096)
            except OSError:  # the terminal is gone
                data = b""
            self._take_in(data, last=not data)
            if not data:
                # Said once, by whichever thread meets it: a terminal tells of a Ctrl-D to one read only.
                self._closed = True
                self._deliver(InputClosed())

    def _take_in(self, data: bytes, *, last: bool = False) -> None:
        """Deliver the lines that ``data`` ends, and keep the beginning of the next one."""
        *lines, self._pending = (self._pending + self._decoder.decode(data, final=last)).split("\n")
        if last and self._begun + self._pending:
            lines.append(self._pending)
            self._pending = ""
        for line in lines:
            text = (self._begun + line).removesuffix("\r")
            self._deliver(Line(text, self._about, OVERTAKEN if self._begun else self._flaw(text)))
            self._begun = ""

    def _flaw(self, text: str) -> str:
        """What the terminal has done to a line; from elsewhere it is what was meant."""
        if not self._terminal:
            return ""
        return CUT if len(text.encode()) >= LONGEST_LINE else KEYS if _CONTROL.search(text) else ""

    def _unended(self) -> bytes:
        """What a terminal keeps of a line until it is ended: it only gives it away while it does no editing."""
        if termios is None or not self._in_foreground():
            return b""
        try:
            editing = termios.tcgetattr(self._fd)
            plain = [*editing[:3], editing[3] & ~termios.ICANON, *editing[4:6], list(editing[6])]
            plain[6][termios.VMIN], plain[6][termios.VTIME] = 0, 0  # a read that finds nothing comes back at once
            termios.tcsetattr(self._fd, termios.TCSANOW, plain)
            try:
                return os.read(self._fd, 4096)
            finally:
                termios.tcsetattr(self._fd, termios.TCSANOW, editing)
        except (termios.error, OSError):  # the terminal is gone
            return b""

    def _readable(self) -> bool:
        poller = select.poll()
        poller.register(self._fd, select.POLLIN)
        return bool(poller.poll(0))

    def _in_foreground(self) -> bool:
        try:
            return os.tcgetpgrp(self._fd) == os.getpgrp()
        except OSError:  # no terminal, or not the one that controls this process: nothing stops us reading it
            return True
