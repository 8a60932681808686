"""With whose rights the server touches what agents can rearrange.

A server that runs as root may have its agents run as another user. What lies where they work is theirs: a file may be
a link to anything by the time it is opened. So there the kernel is asked on behalf of the agents: what they could not
read or write themselves, nobody reads or writes for them. Without :func:`entrust` nothing here does anything.

Linux only: the user on whose behalf files are opened belongs to a thread (setfsuid(2)), and root's power over files
rests while it is another one.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from collections.abc import Iterator
from pathlib import Path

_entrusted: dict[Path, int] = {}
_acting = threading.local()


def entrust(root: Path, uid: int) -> None:
    """From now on each directory in ``root`` is that of the user ``uid`` and of the directory's own group."""
    _entrusted[root.resolve()] = uid


@contextlib.contextmanager
def acting_for(path: Path | str) -> Iterator[None]:
    """While inside, this thread has the rights of those whom the place ``path`` is entrusted to; else its own.

    Not to be left open over an ``await``: other tasks of the thread would have them, too. May be nested.
    """
    ids = None if getattr(_acting, "ids", None) else owners(path)
    if ids is None:
        yield
        return
    libc = ctypes.CDLL(None)
    _acting.ids = ids
    libc.setfsgid(ids[1])  # first: without root's power over files it would be refused
    libc.setfsuid(ids[0])
    try:
        yield
    finally:
        libc.setfsuid(os.geteuid())
        libc.setfsgid(os.getegid())
        _acting.ids = None


@contextlib.contextmanager
def acting_once_open(path: Path | str) -> Iterator[None]:
    """The same, but with this thread's own rights at a place that no agent has been let into yet."""
    with contextlib.nullcontext() if awaits_owners(path) else acting_for(path):
        yield


def may_hold(handle: int) -> bool:
    """Whether this thread, if it has others' rights, may go on with a file it has opened: only within their places.

    A link of theirs to ``/proc/self`` leads through directories that are closed to them, to what is this process's.
    """
    if not getattr(_acting, "ids", None):
        return True
    return owners(os.readlink(f"/proc/self/fd/{handle}")) is not None


def owners(path: Path | str) -> tuple[int, int] | None:
    """User and group of those whom the place ``path`` is entrusted to; None where it is nobody's but the server's."""
    found = _found(path)
    if found is None:
        return None
    own, uid = found
    # Before it has a group of its own it is nobody's: better refused than done with root's rights.
    return uid, own.lstat().st_gid if own.exists() else os.getegid()


def awaits_owners(path: Path | str) -> bool:
    """Whether the place ``path`` is entrusted, but has no group of its own yet: so far no agent has got in."""
    found = _found(path)
    if found is None:
        return False
    try:
        about = found[0].lstat()
    except FileNotFoundError:
        return True
    return about.st_gid == os.getegid() or about.st_mode & 0o070 != 0o070


def _found(path: Path | str) -> tuple[Path, int] | None:
    """The directory right below an entrusted root that ``path`` lies in, and whom it is entrusted to."""
    if not _entrusted:
        return None
    place = Path(os.path.normpath(path))
    for root, uid in _entrusted.items():
        if place != root and place.is_relative_to(root):
            return root / place.relative_to(root).parts[0], uid
    return None
