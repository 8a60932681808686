"""The program the SDK starts in place of the agent program: it cleans the environment and ties two lives together.

Run as ``python -I launch.py AGENT-PROGRAM ARGUMENT…``. It keeps only the variables named in
``FLOWER_KEEP_ENV`` (comma separated) and then becomes the agent program. Should the parent die, the agent
program gets SIGINT, on which it ends cleanly; without that it finishes its whole turn alone (measured: 23
more requests after the parent was killed). Linux has a kernel call for it; elsewhere a watcher stays
in between. Standard library only, and nothing of flower: it starts with every session.
"""

import ctypes
import os
import signal
import subprocess
import sys
import time

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_WATCH_EVERY_S = 0.5


def clean_environment(environ: dict[str, str]) -> dict[str, str]:
    """The variables of ``environ`` that ``FLOWER_KEEP_ENV`` names."""
    keep = set(environ.get("FLOWER_KEEP_ENV", "").split(","))
    return {name: value for name, value in environ.items() if name in keep}


def _follow_parent_linux(parent: int) -> None:
    # The signal fires when the *thread* that started this process ends, so sessions are opened on a thread
    # that lives as long as the runs do.
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGINT, 0, 0, 0)
    if os.getppid() != parent:  # it died before the call
        sys.exit(143)


def _watch(command: list[str], environ: dict[str, str], parent: int) -> int:
    child = subprocess.Popen(command, env=environ)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda got, _frame: child.send_signal(got))
    while True:
        try:
            return child.wait(timeout=_WATCH_EVERY_S)
        except subprocess.TimeoutExpired:
            if os.getppid() != parent:
                child.send_signal(signal.SIGINT)
                time.sleep(_WATCH_EVERY_S)


def main(argv: list[str]) -> int:
    """Become (Linux) or run (elsewhere) the command ``argv``; returns its exit code in the second case."""
    parent = os.getppid()
    environ = clean_environment(dict(os.environ))
    if sys.platform == "linux":
        _follow_parent_linux(parent)
        os.execve(argv[0], argv, environ)  # noqa: S606 - becoming the agent program is the point
    return _watch(argv, environ, parent)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
