"""Writing files so that a reader, or a crash, never meets half of one.

Where agents can rearrange what lies there it is done with their rights; see :mod:`flower_core.rights`. Whatever they
put in the place of a file (a pipe, a device, a lock that is never let go) is an error, and nothing waits for it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from flower_core.rights import acting_for, may_hold

try:
    import fcntl
except ImportError:  # pragma: no cover - no such module on Windows, where one process per run_dir must do
    fcntl = None  # type: ignore[assignment]

#: The most that is read of one file, in bytes; a longer one is no text that anybody has written for us.
MOST_BYTES = 64 << 20
#: How long a lock is waited for, and how often it is tried, in seconds. Whoever needs one needs it for milliseconds.
_LOCK_S, _TRY_EVERY_S = 10.0, 0.005


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
        handle = open_regular(target, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        with os.fdopen(handle, "a", encoding="utf-8", errors="replace", newline="") as out:
            out.write(text)


def read_bytes(path: Path | str) -> bytes:
    """What the file at ``path`` holds, :data:`MOST_BYTES` at most. Raises OSError."""
    with acting_for(path), os.fdopen(open_regular(path), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > MOST_BYTES:
            raise OSError(errno.EFBIG, f"it has more than {MOST_BYTES} bytes", str(path))
        return file.read(size)


def read_text(path: Path | str) -> str:
    """The same as UTF-8, with line feeds at the ends of lines and U+FFFD for whatever is no text. Raises OSError.

    The byte order mark that some editors put in front of a text is no part of it.
    """
    return read_bytes(path).decode("utf-8-sig", "replace").replace("\r\n", "\n").replace("\r", "\n")


def open_regular(path: Path | str, flags: int = os.O_RDONLY) -> int:
    """A descriptor of the regular file at ``path``; anything else is not waited for. Raises OSError."""
    handle = os.open(path, flags | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0), 0o666)
    try:
        mode = os.fstat(handle).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        if not may_hold(handle):
            raise PermissionError(errno.EACCES, "a link leads to where it must not", str(path))
    except BaseException:
        os.close(handle)
        raise
    return handle


@contextlib.contextmanager
def locked(path: Path | str) -> Iterator[None]:
    """Hold an exclusive lock on ``path`` (made if missing) against every other process and thread that asks.

    Raises OSError, TimeoutError when somebody else holds it for ten seconds.
    """
    target = Path(path)
    with acting_for(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        handle = open_regular(target, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    with os.fdopen(handle, "a"):
        if fcntl is not None:
            _lock(handle, target)
        yield


def _lock(handle: int, path: Path) -> None:
    until = time.monotonic() + _LOCK_S
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError as error:
            if time.monotonic() > until:
                raise TimeoutError(errno.ETIMEDOUT, "somebody does not let go of the lock", str(path)) from error
        time.sleep(_TRY_EVERY_S)


def _umask() -> int:
    # The mask can only be read by setting it, which would race with other threads; ask the kernel where it tells.
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("Umask:"):
                return int(line.split()[1], 8)
    except (OSError, ValueError):
        pass
    return 0o022
