"""A program in a terminal of its own, by default flower-client, typed into and read from by a test."""

from __future__ import annotations

import codecs
import contextlib
import os
import pty
import re
import select
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

CTRL_C = "\x03"
CTRL_D = "\x04"
FLOWER_CLIENT = ("-m", "flower_client")


class Terminal:
    """A process whose controlling terminal is a pty; what it writes is collected in ``screen``.

    ``columns`` is the width; 0 is a terminal that does not know its own. ``environ`` is added to the environment.
    """

    def __init__(
        self,
        *args: str,
        home: Path,
        url: str,
        program: tuple[str, ...] = FLOWER_CLIENT,
        columns: int = 0,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._master, slave = pty.openpty()
        termios.tcsetwinsize(slave, (24 if columns else 0, columns))
        name = os.ttyname(slave)
        # A session leader without a terminal gets the first one it opens: that is what makes Ctrl-C a signal.
        script = 'exec "$@" <"$0" >"$0" 2>&1'
        command = ["sh", "-c", script, name, sys.executable, *program, *args]
        env = {**os.environ, "FLOWER_URL": url, "XDG_CONFIG_HOME": str(home), "NO_COLOR": "1", "TERM": "xterm"}
        env |= {"TMPDIR": str(home), **(environ or {})}
        env.pop("FLOWER_TOKEN", None)
        self.process = subprocess.Popen(
            command, start_new_session=True, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        self._slave = slave  # kept open, so that reading goes on after the process has gone
        self.screen = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def resize(self, columns: int) -> None:
        """Make the window so wide; the process gets SIGWINCH, as from a real one."""
        termios.tcsetwinsize(self._master, (24, columns))

    def type(self, text: str) -> None:
        """Type ``text``; a line ends with a newline."""
        os.write(self._master, text.encode())

    def see(self, pattern: str, timeout: float = 10.0) -> str:
        """Wait until ``pattern`` is on the screen; it and everything above it are taken off."""
        deadline = time.monotonic() + timeout
        while not (found := re.search(pattern, self.screen)):
            left = deadline - time.monotonic()
            assert left > 0, f"{pattern!r} is not on the screen:\n{self.screen}"
            self._read(left)
        self.screen = self.screen[found.end() :]
        return found[0]

    def rest(self) -> str:
        """What else is written until the process ends."""
        self.process.wait(10)
        while self._read(0):
            pass
        return self.screen

    def exit_code(self, timeout: float = 10.0) -> int:
        return self.process.wait(timeout)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._master)
        os.close(self._slave)

    def _read(self, timeout: float) -> bool:
        if not select.select([self._master], [], [], timeout)[0]:
            return False
        # Characters and line ends may come in two parts.
        self.screen = (self.screen + self._decoder.decode(os.read(self._master, 65536))).replace("\r\n", "\n")
        return True


@contextlib.contextmanager
def terminal(*args: str, home: Path, url: str, **how: Any) -> Iterator[Terminal]:
    """A terminal in which this Python runs a program with ``args``, gone at the end; ``how`` as for Terminal."""
    opened = Terminal(*args, home=home, url=url, **how)
    try:
        yield opened
    finally:
        opened.close()
