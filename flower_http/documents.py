"""What people and agents have agreed on in a run, as documents: brief, goal, questions, handoffs.

While a run is unfinished they are read where they lie, in the notes of its workbench. When it ends they are copied into
the server's own books: a later run in the same workspace goes on writing in the same files, and whoever looks at the
first one wants to see what that one was about.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from flower_core.files import atomic_write, open_regular
from flower_core.texts import texts_for
from flower_http.errors import Problem, unavailable
from flower_http.files import Entry, Tree

#: The most of a document that is shown, in bytes; whoever needs more of it fetches the file.
MOST_BYTES = 1024 * 1024
#: The most of all handoffs of a run together, in bytes; of more than that the newest are shown.
MOST_OF_HANDOFFS = 16 * MOST_BYTES

_LOG = logging.getLogger(__name__)
_FIXED = ("brief", "goal", "questions")
_HANDOFF = re.compile(rb"handoff-.+\.md", re.DOTALL)
#: Handoffs that are no longer the newest of their step lie in the archive, or in a directory of it.
_ARCHIVE = b"archive"
_MOST_NAMES = 1000


@dataclass(frozen=True)
class Document:
    """``name`` is its slug, ``title`` the name people know it by, ``modified`` seconds since the epoch."""

    name: str
    title: str
    modified: float
    text: str


class Documents:
    """The documents of all runs; ``home`` is the directory of the server's books about them, one file a run."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def begin(self, run_id: str, notes: Path, root: Path, lang: str) -> None:
        """Note that the run writes to directory ``notes`` in ``lang``. Raises OSError.

        ``root`` is a directory that agents cannot replace: where it is above ``notes``, no link below it is followed.
        """
        self._write(run_id, {"notes": str(notes), "root": str(root), "lang": lang})

    def freeze(self, run_id: str) -> None:
        """Keep the documents as they are now: the run has ended. Raises OSError."""
        if "notes" in self._read(run_id):
            self._write(run_id, {"documents": [asdict(document) for document in self.of(run_id)]})

    def drop(self, run_id: str) -> None:
        """Forget the run. Raises OSError."""
        self._file(run_id).unlink(missing_ok=True)

    def of(self, run_id: str) -> Sequence[Document]:
        """What there is so far, in the order brief, goal, questions, handoffs from the oldest on.

        Raises Problem 503 when the server's own book about them cannot be read.
        """
        known = self._read(run_id)
        if "notes" in known:
            return list(_found(Tree.at(Path(known["notes"]), Path(known["root"])), known["lang"]))
        return [Document(**kept) for kept in known.get("documents", [])]

    def _file(self, run_id: str) -> Path:
        return self._home / f"{run_id}.json"

    def _write(self, run_id: str, known: Mapping[str, Any]) -> None:
        atomic_write(self._file(run_id), json.dumps(known, ensure_ascii=False))

    def _read(self, run_id: str) -> Mapping[str, Any]:
        try:
            with os.fdopen(open_regular(self._file(run_id)), encoding="utf-8") as file:
                known = json.load(file)
        except FileNotFoundError:
            return {}  # it has not begun, or has no workbench
        except OSError as error:
            raise unavailable(f"the documents of the run cannot be read: {error.strerror or error}") from error
        except (ValueError, RecursionError):  # damaged: the run must be able to end, and to be deleted, all the same
            _LOG.error("run %s: %s makes no sense, its documents are not known", run_id, self._file(run_id))
            return {}
        return known if isinstance(known, dict) else {}


def _found(notes: Tree, lang: str) -> Iterator[Document]:
    """The documents in directory ``notes``. Agents may put anything there; what is no readable file is left out."""
    texts = texts_for(lang)
    for name in _FIXED:
        file = texts(f"workflow.files.{name}")
        if (document := _document(notes, file.encode(), name)) is not None:
            yield document
    yield from _handoffs(notes)


def _handoffs(notes: Tree) -> Sequence[Document]:
    """The handoffs, from the oldest on; their numbers count also those for which there is no room."""
    directories = [b"", _ARCHIVE, *(path for path, each in _entries(notes, _ARCHIVE) if each.kind == "directory")]
    candidates = (
        (each.modified, each.name, path)
        for directory in directories
        for path, each in _entries(notes, directory)
        if each.kind == "file" and _HANDOFF.fullmatch(each.name)
    )
    paths = [path for _, _, path in sorted(islice(candidates, _MOST_NAMES))]
    found: deque[Document] = deque()
    room = MOST_OF_HANDOFFS
    for number in range(len(paths), 0, -1):
        document = _document(notes, paths[number - 1], f"handoff-{number}")
        if document is not None:
            room -= len(document.text.encode())
            if room < 0:
                break
            found.appendleft(document)
    return found


def _entries(notes: Tree, directory: bytes) -> list[tuple[bytes, Entry]]:
    with suppress(Problem, OSError):
        prefix = directory + b"/" if directory else b""
        return [(prefix + each.name, each) for each in notes.list(directory, limit=_MOST_NAMES).entries]
    return []


def _document(notes: Tree, path: bytes, name: str) -> Document | None:
    with suppress(Problem, OSError):
        file = notes.open(path)
        if file is not None:
            with file:
                text = file.read(MOST_BYTES).decode("utf-8", "replace")
                title = path.rpartition(b"/")[2].decode("utf-8", "replace").removesuffix(".md")
                return Document(name, title, file.modified, text)
    return None
