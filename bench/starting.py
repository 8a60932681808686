"""How long a command takes to say what version it is, against an interpreter that loads what it is made with."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from bench.measuring import Goal, Report, Row, paired

_BIN = Path(sys.executable).parent
_COMMANDS: dict[str, tuple[list[str], list[str], Goal | None]] = {
    "flower-client --version": (
        [str(_BIN / "flower-client"), "--version"],
        [sys.executable, "-c", "import click, requests"],
        Goal("≤", 1.1),
    ),
    "flower-server --version": (
        [str(_BIN / "flower-server"), "--version"],
        [sys.executable, "-c", "import click, flask"],
        None,
    ),
}


def measure(*, quick: bool) -> Report:
    """Whole processes, from start to end."""
    report = Report("Starting a command")
    for name, (command, floor, goal) in _COMMANDS.items():
        ours, theirs = paired(3 if quick else 25, _timed(command), _timed(floor))
        report.rows.append(Row(name, "ms", ours, f"python -c '{floor[-1]}'", theirs, goal))
    report.notes.append(
        "A command loads only the module it stands in; what sends requests, and what serves runs, is loaded by those "
        "that need it. The rest is the interpreter and click."
    )
    return report


def _timed(command: list[str]) -> Callable[[], float]:
    def once() -> float:
        started = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return (time.perf_counter() - started) * 1000

    return once
