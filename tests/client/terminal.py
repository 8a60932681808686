"""A program in a terminal of its own, by default flower-client, typed into and read from by a test."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

CTRL_C = "\x03"
CTRL_D = "\x04"
FLOWER_CLIENT = ("-m", "flower_client")


class Terminal:
    """A process whose controlling terminal is a pty; what it writes is collected in ``screen``."""

    def __init__(self, *args: str, home: Path, url: str, program: tuple[str, ...] = FLOWER_CLIENT) -> None:
        self._master, slave = pty.openpty()
        name = os.ttyname(slave)
        # A session leader without a terminal gets the first one it opens: that is what makes Ctrl-C a signal.
        script = 'exec "$@" <"$0" >"$0" 2>&1'
        command = ["sh", "-c", script, name, sys.executable, *program, *args]
        env = {**os.environ, "FLOWER_URL": url, "XDG_CONFIG_HOME": str(home), "NO_COLOR": "1", "TERM": "xterm"}
        env["TMPDIR"] = str(home)
        env.pop("FLOWER_TOKEN", None)
        self.process = subprocess.Popen(
            command, start_new_session=True, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        self._slave = slave  # kept open, so that reading goes on after the process has gone
        self.screen = ""

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
        self.screen += os.read(self._master, 65536).decode("utf-8", "replace").replace("\r\n", "\n")
        return True


@contextlib.contextmanager
def terminal(*args: str, home: Path, url: str, program: tuple[str, ...] = FLOWER_CLIENT) -> Iterator[Terminal]:
    """A terminal in which this Python runs ``program`` with ``args``, gone at the end."""
    opened = Terminal(*args, home=home, url=url, program=program)
    try:
        yield opened
    finally:
        opened.close()
