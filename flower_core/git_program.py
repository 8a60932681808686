"""Asking git about a repository that somebody else may have prepared."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flower_core.rights import owners

#: A partial clone would fetch what it lacks, by any program that its configuration names.
NO_FETCH = {"GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1"}
_TIMEOUT_S = 30.0


def ask_git(
    where: Path | str, *args: str, workspace: Path | None = None, environ: Mapping[str, str] | None = None
) -> str:
    """What git prints in the directory ``where``, "" when it fails; to be asked only what starts no other program.

    Where agents have a user of their own git runs as that user, too, so that whatever they have prepared for it can do
    no more than they can: the one of ``workspace`` (default: ``where``). Without ``environ`` variables of this process
    that point git elsewhere count for nothing. Neither does whom the repository belongs to.

    Raises OSError when there is no git program, subprocess.TimeoutExpired after 30 seconds.
    """
    ids = owners(where if workspace is None else workspace)
    if environ is None:
        environ = _environ(theirs=ids is not None)
    as_them: dict[str, Any] = {} if ids is None else {"user": ids[0], "group": ids[1], "extra_groups": []}
    done = subprocess.run(
        # It goes there itself: changing to a directory before this is another user's process would be done as root.
        ["git", "-c", "safe.directory=*", "-C", os.path.abspath(where), *args],
        cwd="/",
        env={**environ, **NO_FETCH},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_TIMEOUT_S,
        **as_them,
    )
    return os.fsdecode(done.stdout).removesuffix("\n") if done.returncode == 0 else ""


def _environ(*, theirs: bool) -> dict[str, str]:
    """The variables of this process, those of git aside; for another user's process hardly any of them."""
    if theirs:
        return {"PATH": os.environ.get("PATH", os.defpath), "HOME": "/nonexistent"}  # ours would be closed to it
    return {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
