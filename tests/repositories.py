"""Real git repositories for tests, made without any configuration of the machine."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

_NOBODY = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
_SOMEBODY = ("-c", "user.name=test", "-c", "user.email=test@localhost")


def git(where: Path, *args: str) -> str:
    """What git prints in ``where``; it has to succeed."""
    environ = {"PATH": os.environ["PATH"], "HOME": str(where), **_NOBODY}
    done = subprocess.run(
        ["git", *_SOMEBODY, *args], cwd=where, env=environ, check=True, capture_output=True, text=True
    )
    return done.stdout


def repository(where: Path, *, commit: bool = True) -> Path:
    """A repository in ``where`` (made if missing), with one commit of a README unless there is to be none."""
    where.mkdir(parents=True, exist_ok=True)
    git(where, "init", "-q", "-b", "main")
    if commit:
        (where / "README").write_text("A repository.\n")
        git(where, "add", ".")
        git(where, "commit", "-q", "-m", "Begin")
    return where
