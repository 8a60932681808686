"""Asking git about a repository that somebody else may have prepared."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

#: A partial clone would fetch what it lacks, by any program that its configuration names.
NO_FETCH = {"GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1"}
_TIMEOUT_S = 30.0


def ask_git(where: Path | str, *args: str) -> str:
    """What git prints in the directory ``where``, "" when it fails; to be asked only what starts no other program.

    Variables of this process that point git elsewhere count for nothing, and neither does whom the repository belongs
    to. Raises OSError when there is no git program or no such directory, subprocess.TimeoutExpired after 30 seconds.
    """
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(
        ["git", "-c", "safe.directory=*", *args],
        cwd=where,
        env={**environ, **NO_FETCH},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_TIMEOUT_S,
    )
    return os.fsdecode(done.stdout).removesuffix("\n") if done.returncode == 0 else ""
