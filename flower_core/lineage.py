"""``lineage.json``: which session each step last spoke in, so that the next run can go on there."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Self

from flower_core.files import atomic_write, read_text
from flower_core.rights import acting_for

FILE_NAME = "lineage.json"
#: What marks the name of a further attempt, round or verdict ("Work#round2", "Work·verdict#1"): those never go on.
_SUFFIX_MARKS = ("#", "·")


class Lineage:
    """The sessions of the steps of one workspace, by step name.

    It starts empty; :meth:`load` takes up what the file holds. A file that is missing or corrupt, that belongs to
    another workspace, or whose sessions are gone means starting afresh, and is never an error.
    """

    def __init__(self, path: Path | str, workspace: Path | str) -> None:
        self.path = Path(path)
        self.workspace = Path(workspace).resolve()
        self._steps: dict[str, str] = {}
        self._woke = False

    @property
    def woke(self) -> bool:
        """Whether a later run has taken these steps up again; :meth:`mark_woke` sets it."""
        return self._woke

    @property
    def steps(self) -> dict[str, str]:
        """A copy of the table, step name to session id."""
        return dict(self._steps)

    def load(self, has_session: Callable[[str], bool]) -> Self:
        """Take up the steps in the file whose session ``has_session`` knows. Reads only; returns the lineage itself."""
        saved = self._read()
        steps = saved.get("steps")
        pairs = steps.items() if isinstance(steps, dict) else ()
        self._steps = {
            name: session_id
            for name, session_id in pairs
            if isinstance(session_id, str) and session_id and may_continue(name) and has_session(session_id)
        }
        self._woke = saved.get("woke") is True
        return self

    def get(self, step: str) -> str | None:
        """The session ``step`` last spoke in, or None."""
        return self._steps.get(step)

    def set(self, step: str, session_id: str) -> None:
        """Note the session of ``step`` and write the file at once. Suffixed names never enter. Raises OSError."""
        if session_id and may_continue(step) and self._steps.get(step) != session_id:
            self._steps[step] = session_id
            self._write()

    def mark_woke(self) -> None:
        """Note that a later run takes these steps up again, and write the file at once. Raises OSError."""
        self._woke = True
        self._write()

    def _write(self) -> None:
        saved = {"workspace": str(self.workspace), "woke": self._woke, "steps": self._steps}
        atomic_write(self.path, json.dumps(saved, ensure_ascii=False, indent=1) + "\n")

    def _read(self) -> dict[str, Any]:
        try:
            saved = json.loads(self.path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return {}
        if not isinstance(saved, dict) or not isinstance(saved.get("workspace"), str):
            return {}
        return saved if saved["workspace"] == str(self.workspace) else {}


def may_continue(step: str) -> bool:
    """Whether a step of that name may go on in a later run: names of single attempts, rounds and verdicts may not."""
    return bool(step) and not any(mark in step for mark in _SUFFIX_MARKS)


def archive(run_dir: Path | str, notes: Path | str, names: Iterable[str], stamp: str) -> Path | None:
    """Put the books of the work so far aside, so that a new one starts from nothing.

    Moves ``lineage.json`` from ``run_dir`` and the files ``names`` from ``notes`` into ``notes/archive/<stamp>/``, or
    ``<stamp>-2`` and so on where that exists. Returns that directory, None when there was nothing to move.
    Raises OSError.
    """
    notes = Path(notes)
    # The lineage first: should the rest fail, the new work has an old brief, but never an old session without one.
    sources = [Path(run_dir) / FILE_NAME, *(notes / name for name in names)]
    present = [source for source in sources if source.is_file()]
    if not present:
        return None
    with acting_for(notes / "archive"):
        target = _fresh_directory(notes / "archive", stamp)
    for source in present:
        if source.name == FILE_NAME:
            # Written anew, not moved: the notes may be another user's than the books.
            atomic_write(target / source.name, read_text(source))
            source.unlink()
        else:
            with acting_for(target):
                os.replace(source, target / source.name)
    return target


def _fresh_directory(parent: Path, name: str) -> Path:
    number = 1
    while True:
        target = parent / (name if number == 1 else f"{name}-{number}")
        try:
            target.mkdir(parents=True)
        except FileExistsError:
            number += 1
        else:
            return target
