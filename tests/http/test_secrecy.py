"""The server's memory is its own: no neighbour of the same user reads its environment."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
#: Root may look into everything, so a test that runs as root gives itself up.
NOBODY = 65534
PROGRAM = f"""
import ctypes, os, sys
from flower_http.secrecy import close_memory, hide
if os.geteuid() == 0:
    os.setgroups([])
    os.setresgid({NOBODY}, {NOBODY}, {NOBODY})
    os.setresuid({NOBODY}, {NOBODY}, {NOBODY})
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # giving up root has closed it; as if it had never been root
if "close" in sys.argv:
    close_memory()
if "hide" in sys.argv:
    hide(["SECRET"])
print(open("/proc/self/status").read().count("Umask"), len(os.listdir("/proc/self/fd")) > 2, flush=True)
sys.stdin.read()
"""


@contextmanager
def server(*args: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", PROGRAM, *args]
    pipe = subprocess.PIPE
    environ = {**os.environ, "SECRET": "hidden", "OTHER": "open"}
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environ, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "1 True\n", "what it needs of itself it still sees"
        yield process
        process.communicate()


def neighbour(command: Sequence[str]) -> subprocess.CompletedProcess[bytes]:
    if os.geteuid() == 0:
        return subprocess.run(command, capture_output=True, user=NOBODY, group=NOBODY, extra_groups=[], check=False)
    return subprocess.run(command, capture_output=True, check=False)


def test_without_care_a_neighbour_reads_the_environment() -> None:
    with server() as process:
        assert b"SECRET=hidden" in neighbour(["cat", f"/proc/{process.pid}/environ"]).stdout


def test_a_secret_is_gone_from_where_neighbours_would_read_it() -> None:
    with server("hide") as process:
        seen = neighbour(["cat", f"/proc/{process.pid}/environ"]).stdout
        assert b"OTHER=open" in seen
        assert b"hidden" not in seen


@pytest.mark.parametrize("file", ["environ", "mem", "maps", "fd/0", "cwd/"])
def test_a_closed_memory_is_closed_to_neighbours(file: str) -> None:
    with server("close", "hide") as process:
        done = neighbour(["ls" if file.endswith("/") else "cat", f"/proc/{process.pid}/{file}"])
        assert done.returncode != 0
        assert b"Permission denied" in done.stderr
        assert done.stdout == b""
