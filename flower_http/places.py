"""Where runs work and where their books are kept: confined to two roots, and never two runs in one place."""

from __future__ import annotations

import hashlib
import logging
import secrets
import shutil
import sqlite3
import threading
from collections.abc import Collection, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from flower_core.lineage import FILE_NAME, Lineage
from flower_core.manifest import Manifest
from flower_core.rights import acting_once_open
from flower_core.runtime import SESSIONS_FILE
from flower_core.sessions import SqliteSessionStore
from flower_core.trees import remove_tree
from flower_core.workbench import BESIDE, Workbench
from flower_http.documents import Documents
from flower_http.errors import StartError, invalid_body
from flower_http.files import Tree
from flower_http.journal_file import is_ruin
from flower_http.projection import RunView

_LOG = logging.getLogger(__name__)


def keep_apart(workspace_root: Path, data_dir: Path) -> None:
    """Raise StartError when agents, who work below ``workspace_root``, would work where the server keeps its books."""
    root, data = workspace_root.resolve(), data_dir.resolve()
    if data.is_relative_to(root):
        raise StartError(f"--workspace-root {root} holds the data dir {data}, where agents must not work")


class RunIds:
    """Makes run ids that are URL-safe and sort by time, also within one millisecond."""

    def __init__(self) -> None:
        self._last = 0
        self._lock = threading.Lock()

    def make(self) -> str:
        """The next id, such as ``20260131t094512123-5f0c``."""
        with self._lock:
            self._last = max(self._last + 1, int(datetime.now(UTC).timestamp() * 1000))
            moment = datetime.fromtimestamp(self._last / 1000, UTC)
        return f"{moment:%Y%m%dt%H%M%S}{self._last % 1000:03d}-{secrets.token_hex(2)}"


class Places:
    """The directories of runs below ``workspace_root`` and ``data_dir``."""

    def __init__(self, workspace_root: Path, data_dir: Path) -> None:
        workspace_root.mkdir(parents=True, exist_ok=True)
        self.root = workspace_root.resolve()
        self._data = data_dir.resolve()
        self.documents = Documents(self._data / "documents")

    def find(self, name: str | None, run_id: str) -> Path:
        """The directory ``name`` stands for; a fresh one named after the run when None. Nothing is made.

        Raises Problem 422 when it would lie outside the root, links followed, when it cannot be a directory, and when
        its name holds what cannot be seen: two that look the same must be the same, and no list may be garbled by one.
        Nor may it be in the place of another workspace's workbench.
        """
        if name is not None and not name.isprintable():
            raise invalid_body({"workspace": ["must consist of printable characters"]})
        try:
            path = (self.root / (name or run_id)).resolve()
            wrong = path.exists() and not path.is_dir()
        except (OSError, RuntimeError, ValueError) as error:  # too long, links in a circle, a NUL
            raise invalid_body({"workspace": ["cannot be the name of a directory"]}) from error
        if path == self.root or not path.is_relative_to(self.root):
            raise invalid_body({"workspace": ["must lie below the server's workspace root"]})
        if any(part.startswith(BESIDE) for part in path.relative_to(self.root).parts):
            raise invalid_body(
                {"workspace": [f"must not have a part that begins with {BESIDE}: workbenches lie there"]}
            )
        if wrong:
            raise invalid_body({"workspace": ["is in the way of a file of that name"]})
        return path

    def make(self, workspace: Path) -> None:
        """Make a directory that :meth:`find` has found.

        Raises Problem 422 when the disk refuses, or when a link has been put into its way since.
        """
        try:
            same = workspace.resolve() == workspace
            if same:
                with acting_once_open(workspace):
                    workspace.mkdir(parents=True, exist_ok=True)
                same = workspace.resolve(strict=True) == workspace
        except (OSError, RuntimeError) as error:  # links in a circle are a RuntimeError
            raise invalid_body({"workspace": [f"cannot be made: {getattr(error, 'strerror', error)}"]}) from error
        if not same:
            raise invalid_body({"workspace": ["has become a symbolic link"]})

    def again(self, view: RunView) -> Path:
        """Where a run that was started before works. Raises Problem 422 as :meth:`find`, and for a link in its way."""
        workspace = self.find(view.workspace, view.id)
        if workspace != self.root / view.workspace:
            raise invalid_body({"workspace": ["has become a symbolic link"]})
        return workspace

    def shown(self, workspace: Path) -> str:
        """The workspace as clients name it: relative to the root."""
        return workspace.relative_to(self.root).as_posix()

    def books(self, workspace: Path) -> Path:
        """Where sessions, lineage and manifest of a workspace are kept: never inside it."""
        key = hashlib.sha256(str(workspace).encode()).hexdigest()[:16]
        return self._data / "books" / key

    def files(self, view: RunView) -> Tree:
        """The files of a run's workspace, for reading."""
        return Tree.at(self.root / view.workspace, self.root)

    def manifest_rows(self, view: RunView) -> list[dict[str, Any]]:
        """The rows of one run in its workspace's manifest, oldest first."""
        return self._manifest(view).rows(view.id)

    def session_file(self, workspace: Path, run_id: str) -> Path:
        """Where the session of a run without steps is noted, so that the run can go on in it."""
        return self.books(workspace) / "once" / f"{run_id}.json"

    def config_dir(self, run_id: str) -> Path:
        """The agent program's own directory for one run; sessions that share one can talk to each other."""
        return self._data / "config" / run_id

    def oracle_config_dir(self, run_id: str) -> Path:
        """The same for the agent program that answers a question about the run: not to be talked to by the run's."""
        return self.config_dir(f"{run_id}-o")

    def oracle_dir(self, run_id: str) -> Path:
        """Where the questions people asked about a run are kept, with all that answering them leaves."""
        return self._data / "oracle" / run_id

    # ---- what a run leaves behind

    def begin(self, run_id: str, workbench: Workbench | None) -> None:
        """Note where a run that begins keeps its documents. Raises OSError."""
        if workbench is not None:
            self.documents.begin(run_id, workbench.notes, self.root, workbench.lang)

    def end(self, run_id: str) -> None:
        """Put away what a run that has ended for good leaves behind. Never raises: the run must come to its end.

        What its agents know is in the session store by now; their own directory holds nothing anybody goes on with.
        """
        remove_tree(self.config_dir(run_id))
        try:
            self.documents.freeze(run_id)
        except Exception:
            _LOG.exception("run %s: its documents could not be kept as they are now", run_id)

    def sweep(self, unfinished: Collection[str]) -> None:
        """Remove the agents' directories of all runs but these, and those of oracles: a killed server leaves some."""
        for left in (self._data / "config").glob("*"):
            if left.name not in unfinished:
                remove_tree(left)

    def drop(self, view: RunView, *, shared: bool = False) -> None:
        """Forget a run that has ended: its documents, its rows of the manifest, and what was said in it or about it.

        Its workspace stays, and so do the sessions that a later run there may go on with. A ruined store of sessions
        goes as a whole, unless other runs have sessions there, or are under way in the workspace (``shared``): then it
        goes with the last of them. Raises OSError or sqlite3.Error.
        """
        books = self.books(self.root / view.workspace)
        for config in (self.config_dir(view.id), self.oracle_config_dir(view.id)):
            remove_tree(config)
        while self.oracle_dir(view.id).exists():
            with suppress(FileNotFoundError):  # somebody else is deleting the run, too
                shutil.rmtree(self.oracle_dir(view.id))
        self.documents.drop(view.id)
        spoken = _sessions(self._manifest(view).rows(view.id))
        self.session_file(self.root / view.workspace, view.id).unlink(missing_ok=True)
        theirs = _sessions(row for row in self._manifest(view).rows() if row.get("run") != view.id)
        for path in (books / "once").glob("*.json"):
            theirs.update(self._noted(path, view))
        kept = theirs | self._noted(books / FILE_NAME, view)
        if spoken - kept:
            _remove(spoken - kept, books, shared=shared or bool(theirs))
        self._manifest(view).drop(view.id)  # last: should anything above fail, it is known what is left to do

    def _noted(self, path: Path, view: RunView) -> set[str]:
        """The sessions that a lineage in ``path`` names."""
        return set(Lineage(path, self.root / view.workspace).load(lambda _: True).steps.values())

    def _manifest(self, view: RunView) -> Manifest:
        return Manifest(self.books(self.root / view.workspace) / "manifest.json", view.id)


def _remove(sessions: Iterable[str], books: Path, *, shared: bool) -> None:
    """Remove these sessions from the store in ``books``, or all of it when it is ruined and not ``shared``."""
    path = books / SESSIONS_FILE
    try:
        store = SqliteSessionStore(path)
        try:
            store.remove(sessions)
        finally:
            store.close()
    except sqlite3.Error as error:
        if not is_ruin(error):
            raise
        _LOG.error("%s is ruined (%s); it goes %s", path, error, "with the last run that uses it" if shared else "now")
        if not shared:
            # The names of sessions, too: there is nothing to go on from any more.
            for name in (FILE_NAME, *(SESSIONS_FILE + suffix for suffix in ("", "-wal", "-shm"))):
                (books / name).unlink(missing_ok=True)


def _sessions(rows: Iterable[dict[str, Any]]) -> set[str]:
    """Every session these rows of a manifest name."""
    return {str(name) for row in rows for name in (row.get("session_id"), *row.get("retired", ())) if name}


def overlaps(one: Path, other: Path) -> bool:
    """Whether two workspaces are the same, or one lies inside the other."""
    return one == other or one.is_relative_to(other) or other.is_relative_to(one)
