"""Directories within directories, deeper than any path can say."""

from __future__ import annotations

import os
from pathlib import Path


def nest(folder: Path, depth: int) -> None:
    """Make ``depth`` directories in ``folder``, each within the one before, with a file in the last."""
    here = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=here)
        here, above = os.open("d", os.O_RDONLY, dir_fd=here), here
        os.close(above)
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)
