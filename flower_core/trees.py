"""Removing directories that agents have worked in."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

_TRIES = 3


def remove_tree(path: Path | str) -> None:
    """Remove the directory ``path`` with all that is in it, as far as that can be done. Follows no symbolic link.

    However deep it is: a command can nest directories by the thousand, beyond what a recursion or the number of open
    files allows. Raises no OSError; whether anything is left can be seen.
    """
    for _ in range(_TRIES):  # somebody may still be at work in there
        with contextlib.suppress(RecursionError):
            shutil.rmtree(path, ignore_errors=True)
        if not os.path.lexists(path):
            return
        with contextlib.suppress(OSError):
            _flatten(path)


def _flatten(path: Path | str) -> None:
    """Move every directory below ``path`` right into it. Raises OSError."""
    top = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        pending, moved = _directories(top), 0
        while pending:
            with contextlib.suppress(OSError):  # it has gone, or must stay
                folder = os.open(pending.pop(), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=top)
                try:
                    for name in _directories(folder):
                        moved += 1
                        fresh = f".{os.getpid()}-{moved}"
                        os.rename(name, fresh, src_dir_fd=folder, dst_dir_fd=top)
                        pending.append(fresh)
                finally:
                    os.close(folder)
    finally:
        os.close(top)


def _directories(folder: int) -> list[str]:
    with os.scandir(folder) as found:
        return [each.name for each in found if each.is_dir(follow_symlinks=False)]
