"""Documents and files of a run: what the API says of them, and fetching one whole, over as many replies as it takes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, BinaryIO

from flower_client.errors import BadReply, ConfigError, Unreachable
from flower_client.fields import Json, as_object, text_of
from flower_client.retrying import may_succeed_later, pause_after
from flower_client.transport import Transport, is_json, json_of

_CHUNK = 256 * 1024


@dataclass(frozen=True)
class Document:
    """A document of a run: ``name`` is for :meth:`FlowerClient.document`, ``title`` for people; ``size`` in bytes."""

    name: str
    title: str = ""
    size: int = 0
    modified: str = ""
    raw: Json = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def from_json(cls, data: Any) -> Document:
        """Raises BadReply when it has no name."""
        data = as_object(data, "a document")
        return cls(_name(data), text_of(data, "title"), _size(data) or 0, text_of(data, "modified"), data)


@dataclass(frozen=True)
class FileEntry:
    """One name in a directory. ``kind`` is file, directory, symlink or other; ``size`` is that of a file, in bytes."""

    name: str
    kind: str = "other"
    size: int | None = None
    modified: str = ""
    raw: Json = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def from_json(cls, data: Any) -> FileEntry:
        """Raises BadReply when it has no name."""
        data = as_object(data, "a file")
        return cls(_name(data), text_of(data, "type") or "other", _size(data), text_of(data, "modified"), data)


@dataclass(frozen=True)
class FileList:
    """One page of a directory, by name. ``next_cursor`` fetches the next one, empty at the end."""

    entries: tuple[FileEntry, ...]
    next_cursor: str = ""
    raw: Json = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def from_json(cls, data: Any) -> FileList:
        """Raises BadReply when there is no list in it."""
        data = as_object(data, "a directory")
        if not isinstance(data.get("entries"), list):
            raise BadReply("a directory without a list of entries")
        entries = tuple(FileEntry.from_json(entry) for entry in data["entries"])
        return cls(entries, text_of(data, "next_cursor"), data)


def fetch(transport: Transport, path: str, out: BinaryIO) -> FileList | None:
    """Write the file at ``path`` to ``out``; of a directory, write nothing and return what is in it.

    A download that breaks off goes on where it was, or begins anew when the file has changed meanwhile; ``out`` must be
    seekable for that. Raises what :meth:`Transport.call` raises, and OSError when ``out`` does not take it.
    """
    download = _Download(transport, path, out)
    failures = 0
    while True:
        try:
            return download.go_on()
        except Unreachable as error:
            failures += 1
            if failures >= transport.attempts or not may_succeed_later(error):
                raise
            transport.sleep(pause_after(error, failures, transport.backoff))


class _Download:
    """How far a download has come; ``etag`` names the version of the file that it is about."""

    def __init__(self, transport: Transport, path: str, out: BinaryIO) -> None:
        self._transport = transport
        self._path = path
        self._out = out
        self._got = 0
        self._etag = ""

    def go_on(self) -> FileList | None:
        """Fetch the rest. Raises Unreachable when that breaks off; it may be called again then."""
        headers = {"Accept-Encoding": "identity"}
        if self._got:
            headers |= {"Range": f"bytes={self._got}-", "If-Range": self._etag}
        with self._transport.stream(self._path, headers) as response:
            if is_json(response):
                return FileList.from_json(json_of(response))
            if self._got and response.status_code != 206:
                self._begin_anew()
            self._etag = response.headers.get("ETag", "")
            for chunk in response.iter_content(_CHUNK):
                self._out.write(chunk)
                self._got += len(chunk)
        return None

    def _begin_anew(self) -> None:
        if not self._out.seekable():
            raise BadReply("the file has changed while it was fetched", hint="Fetch it again.")
        self._out.seek(0)
        self._out.truncate()
        self._got = 0


def checked_path(path: str) -> str:
    """``path`` below a workspace. Raises ConfigError for one that a URL would turn into another."""
    if path.startswith("/") or any(part in ("", ".", "..") for part in path.split("/") if path):
        raise ConfigError(f"{path!r} is not a path below the workspace", hint="Give names with one / between them.")
    return path


def _name(data: Json) -> str:
    name = text_of(data, "name")
    if not name:
        raise BadReply("something without a name")
    return name


def _size(data: Json) -> int | None:
    size = data.get("size")
    return size if isinstance(size, int) and not isinstance(size, bool) else None
