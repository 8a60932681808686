"""``manifest.json``: what every step of every run in one directory did, cost and led to."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from flower_core.events import jsonable
from flower_core.files import atomic_write, locked


@dataclass
class StepResult:
    """What one step came to, over all its attempts, interrupts and handoffs.

    ``cost_usd`` is US dollars and ``num_turns`` model turns of the main thread, both added up; what an agent program
    that was killed outright had spent since its last result is in neither, as nobody was told. ``text`` is what the
    main thread said, without subagents and errors. ``error`` is why it failed, "" when ``ok``; ``errors`` has one
    line per failed attempt. ``started_at`` and ``ended_at`` are seconds since the epoch. ``resumed`` says that it
    began in an existing session, ``retired`` names the sessions it handed over from, ``context`` is the last known
    size of the conversation in tokens.
    """

    step: str
    session_id: str = ""
    ok: bool = False
    cost_usd: float = 0.0
    num_turns: int = 0
    text: str = ""
    error: str = ""
    started_at: float = 0.0
    ended_at: float = 0.0
    attempts: int = 1
    errors: list[str] = field(default_factory=list)
    resumed: bool = False
    retired: list[str] = field(default_factory=list)
    context: int = 0

    @property
    def duration_s(self) -> float:
        """Wall-clock seconds, to the millisecond; 0.0 while the step has not ended."""
        return round(max(0.0, self.ended_at - self.started_at), 3) if self.ended_at else 0.0


Row = dict[str, Any]


class Manifest:
    """The table of steps in one file, shared by every run and every process that uses the same directory.

    A file that cannot be read as a manifest is renamed to ``….corrupt-<time>`` and a new one is begun.
    """

    def __init__(self, path: Path | str, run_id: str) -> None:
        self.path = Path(path)
        self.run_id = run_id

    def record(self, result: StepResult) -> None:
        """Write ``result`` as a row, over the row of the same run, step and start if there is one. Raises OSError."""
        row: Row = jsonable({"run": self.run_id, **asdict(result), "duration_s": result.duration_s})
        with locked(self._lock):
            rows = self._read()
            place = next((n for n, other in enumerate(rows) if _identity(other) == _identity(row)), len(rows))
            rows[place : place + 1] = [row]
            self._write(rows)

    def rows(self, run_id: str | None = None) -> list[Row]:
        """Every row in order of first writing, or those of one run. Raises OSError when the file cannot be read."""
        if not self.path.exists():
            return []
        with locked(self._lock):
            return [row for row in self._read() if run_id is None or row.get("run") == run_id]

    def drop(self, run_id: str) -> None:
        """Take out the rows of one run. Raises OSError."""
        if not self.path.exists():
            return
        with locked(self._lock):
            rows = self._read()
            others = [row for row in rows if row.get("run") != run_id]
            if len(others) < len(rows):
                self._write(others)

    @property
    def _lock(self) -> Path:
        # A file of its own: the manifest is replaced on every write, and a lock would stay with the old one.
        return self.path.with_name(f".{self.path.name}.lock")

    def _read(self) -> list[Row]:
        """The rows in the file. Call it with the lock held: it may set the file aside."""
        try:
            rows = json.loads(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return []
        except (ValueError, RecursionError):
            rows = None
        if isinstance(rows, list) and all(isinstance(row, dict) for row in rows):
            return rows
        self._set_aside()
        return []

    def _write(self, rows: list[Row]) -> None:
        atomic_write(self.path, json.dumps(rows, ensure_ascii=False, indent=1) + "\n")

    def _set_aside(self) -> None:
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
        with contextlib.suppress(FileNotFoundError):
            os.replace(self.path, self.path.with_name(f"{self.path.name}.corrupt-{stamp}"))


def _identity(row: Row) -> tuple[Any, Any, Any]:
    return row.get("run"), row.get("step"), row.get("started_at")
