"""Reading the files of a workspace for people elsewhere: listing and opening, and nothing beyond the workspace.

What lies there was put there by agents, so nothing about it is believed. A path is walked one directory at a time from
a directory that is held open (openat with O_NOFOLLOW), and what was opened is looked at again: neither ``..`` nor a
symbolic link, nor one that is swapped in at the last moment, leads anywhere else, and no pipe or device is waited for.
Where agents have a user of their own it is done with their rights: another name (a hard link) of a file that is closed
to them opens nothing. POSIX only.
"""

from __future__ import annotations

import errno
import heapq
import io
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from flower_core.rights import acting_once_open
from flower_http.errors import Problem

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

#: Bounds of a path below a workspace, in bytes: one name (NAME_MAX of every common file system), and all of it.
NAME_BYTES, PATH_BYTES = 255, 4096

#: The last moment that can be written as RFC 3339; an agent may have given a file any other.
_LATEST = datetime(9999, 12, 31, tzinfo=UTC).timestamp()
_KINDS = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "symlink"}
#: What opening may fail with because of the file; anything else is the server's own trouble.
_NOT_THERE = {
    errno.ENOENT: "there is no such file",
    errno.ENOTDIR: "a part of its path is not a directory",
    errno.ELOOP: "a part of its path is a symbolic link, and those are not followed",
    errno.EACCES: "the server may not read it",
    errno.EPERM: "the server may not read it",
    errno.ENAMETOOLONG: "no file can have such a name",
    errno.ENXIO: "it is not a regular file",
}


@dataclass(frozen=True)
class Entry:
    """One name in a directory: ``kind`` file, directory, symlink or other.

    ``size`` is in bytes, None for whatever is no file; ``modified`` is seconds since the epoch.
    """

    name: bytes
    kind: str
    size: int | None
    modified: float


@dataclass(frozen=True)
class Listing:
    """A directory, or a part of it, by name; ``following`` is where the next part begins, None at the end."""

    entries: Sequence[Entry]
    following: bytes | None


class OpenFile(io.RawIOBase):
    """A regular file, open for reading, or the part of it that :meth:`narrow` leaves.

    ``size`` is that of the whole file when it was opened, ``etag`` changes whenever it does. Its end is where it was
    then: what is appended later is not read, and OSError is raised for bytes that have gone, so that a reply whose
    length has been announced breaks off instead of waiting for ever.
    """

    def __init__(self, descriptor: int, about: os.stat_result) -> None:
        super().__init__()
        self._descriptor = descriptor
        self.size = about.st_size
        self.modified = _modified(about)
        self.etag = f"{about.st_ino:x}-{about.st_size:x}-{about.st_mtime_ns:x}"
        self._start, self._length, self._at = 0, about.st_size, 0

    def narrow(self, start: int, stop: int) -> None:
        """Be the bytes from ``start`` up to ``stop`` (exclusive) from now on."""
        self._start, self._length, self._at = start, stop - start, 0

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """As of any file; the part that is left is all there is."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._length}[whence]
        self._at = max(0, base + offset)
        return self._at

    def tell(self) -> int:
        """As of any file."""
        return self._at

    def readinto(self, buffer: WriteableBuffer) -> int:
        """As of any raw file. Raises OSError when the file has become shorter than it was."""
        view = memoryview(buffer).cast("B")
        wanted = max(0, min(len(view), self._length - self._at))
        data = os.pread(self._descriptor, wanted, self._start + self._at)
        if wanted and not data:
            raise OSError(errno.EIO, "the file has become shorter while it was read")
        view[: len(data)] = data
        self._at += len(data)
        return len(data)

    def close(self) -> None:
        """Let go of the file. May be called again."""
        if not self.closed:
            os.close(self._descriptor)
        super().close()


class Tree:
    """The files in directory ``below`` (names from the outside in) of ``root``, an absolute path without links."""

    def __init__(self, root: Path, below: Sequence[str] = ()) -> None:
        self._root = root
        self._below = tuple(os.fsencode(part) for part in below)

    @classmethod
    def at(cls, path: Path, root: Path) -> Tree:
        """The tree at ``path``, from ``root`` on where that is above it: then no link on that way is followed."""
        return cls(root, path.relative_to(root).parts) if path.is_relative_to(root) else cls(path)

    def open(self, path: bytes) -> OpenFile | None:
        """The regular file at ``path`` (names joined by ``/``); None when there is a directory.

        Raises Problem 404 when there is neither.
        """
        with self._opened(path) as (descriptor, about):
            if not stat.S_ISREG(about.st_mode):
                return None
            return OpenFile(os.dup(descriptor), about)

    def list(self, path: bytes, *, limit: int, after: bytes = b"") -> Listing:
        """At most ``limit`` (>= 1) names of the directory at ``path`` that sort behind ``after``.

        However many there are, only so many are held. Raises Problem 404.
        """
        with self._opened(path) as (descriptor, about):
            if not stat.S_ISDIR(about.st_mode):
                raise missing(path, _NOT_THERE[errno.ENOTDIR])
            with os.scandir(descriptor) as found:
                names = heapq.nsmallest(limit + 1, (name for each in found if (name := os.fsencode(each.name)) > after))
            entries = [entry for name in names[:limit] if (entry := _entry(descriptor, name)) is not None]
            return Listing(entries, names[limit - 1] if len(names) > limit else None)

    @contextmanager
    def _opened(self, path: bytes) -> Iterator[tuple[int, os.stat_result]]:
        try:
            descriptor = self._open(_parts(path))
        except OSError as error:
            if error.errno in _NOT_THERE:
                raise missing(path, _NOT_THERE[error.errno]) from error
            raise
        try:
            about = os.fstat(descriptor)
            # Looked at once more: it may have been exchanged since.
            if not (stat.S_ISREG(about.st_mode) or stat.S_ISDIR(about.st_mode)):
                raise missing(path, _NOT_THERE[errno.ENXIO])
            yield descriptor, about
        finally:
            os.close(descriptor)

    def _open(self, parts: Sequence[bytes]) -> int:
        """A descriptor of what lies at ``parts``. Raises OSError."""
        directory = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
        way = [*self._below, *parts]
        here = os.open(self._root, directory)
        try:
            with acting_once_open(self._root.joinpath(*map(os.fsdecode, self._below))):
                for part in way[:-1]:
                    here, above = os.open(part, directory, dir_fd=here), here
                    os.close(above)
                return _open_last(way[-1], here) if way else os.dup(here)
        finally:
            os.close(here)


def _open_last(name: bytes, directory: int) -> int:
    mode = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
    if stat.S_ISLNK(mode):
        raise OSError(errno.ELOOP, "a symbolic link")
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise OSError(errno.ENXIO, "not a file")  # opening a device may already do something
    # Should it be exchanged for a pipe right now: opening one without a writer would wait for it.
    return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY, dir_fd=directory)


def missing(path: bytes, why: str) -> Problem:
    """404 for a path below a workspace."""
    shown = path[:200].decode("utf-8", "replace")
    return Problem(404, "unknown-file", f"{shown!r}: {why}")


def _parts(path: bytes) -> list[bytes]:
    """The names in ``path``; none for the workspace itself. Raises Problem 404 for what can be no path below it."""
    parts = path.split(b"/") if path else []
    if len(path) > PATH_BYTES or any(len(part) > NAME_BYTES for part in parts):
        raise missing(path, _NOT_THERE[errno.ENAMETOOLONG])
    if b"\0" in path or any(part in (b"", b".", b"..") for part in parts):
        raise missing(path, "a path here is a row of names with one / between them, and none is . or ..")
    return parts


def _modified(about: os.stat_result) -> float:
    return min(max(about.st_mtime, 0.0), _LATEST)


def _entry(directory: int, name: bytes) -> Entry | None:
    with suppress(OSError):  # it has gone meanwhile
        about = os.stat(name, dir_fd=directory, follow_symlinks=False)
        kind = _KINDS.get(stat.S_IFMT(about.st_mode), "other")
        return Entry(name, kind, about.st_size if kind == "file" else None, _modified(about))
    return None
