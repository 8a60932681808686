"""Writing files so that a reader, or a crash, never meets half of one.

Where agents can rearrange what lies there it is done with their rights; see :mod:`flower_core.rights`.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from flower_core.rights import acting_for

try:
    import fcntl
except ImportError:  # pragma: no cover - no such module on Windows, where one process per run_dir must do
    fcntl = None  # type: ignore[assignment]


def atomic_write(path: Path | str, text: str, *, private: bool = False) -> None:
    """Write ``text`` (UTF-8) to ``path`` in one step: old content or new, never a mixture.

    Makes missing parent directories. ``private``: for its owner alone (mode 0600), else as it was or as the umask
    says. Raises OSError, and then the old content still stands.
    """
    target = Path(path)
    with acting_for(target):
        _write(target, text, private)


def _write(target: Path, text: str, private: bool) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace", newline="") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        if not private:  # as the temporary file already is
            os.chmod(name, target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask())
        os.replace(name, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def private_file(path: Path | str) -> Path:
    """Make ``path`` if it is missing, for its owner alone (mode 0600), with its parent directories. Raises OSError."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    os.close(os.open(target, os.O_RDWR | os.O_CREAT, 0o600))
    return target


def append_text(path: Path | str, text: str) -> None:
    """Append ``text`` (UTF-8) to ``path``, making it and its parent directories if need be. Raises OSError."""
    target = Path(path)
    with acting_for(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("a", encoding="utf-8", errors="replace", newline="") as out:
            out.write(text)


def read_text(path: Path | str) -> str:
    """What the file at ``path`` holds as UTF-8, with U+FFFD for whatever is none. Raises OSError."""
    with acting_for(path):
        return Path(path).read_text(encoding="utf-8", errors="replace")


@contextlib.contextmanager
def locked(path: Path | str) -> Iterator[None]:
    """Hold an exclusive lock on ``path`` (made if missing) against every other process and thread that asks."""
    target = Path(path)
    with acting_for(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        handle = target.open("a")
    with handle:
        if fcntl is not None:
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _umask() -> int:
    # The mask can only be read by setting it, which would race with other threads; ask the kernel where it tells.
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("Umask:"):
                return int(line.split()[1], 8)
    except (OSError, ValueError):
        pass
    return 0o022
