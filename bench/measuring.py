"""What all benchmarks share: pairs measured in turn, figures with their spread, and servers as child processes."""

from __future__ import annotations

import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

#: Seconds a child may take to begin and to end.
_PATIENCE_S = 60.0
#: So much of the log of one that did not work is shown, in characters.
_LOG_SHOWN = 2000


@dataclass(frozen=True)
class Goal:
    """What the ratio, ours to theirs, is to be: at most or at least ``bound``."""

    sign: str
    bound: float

    def reached(self, ratio: float) -> bool:
        """Whether ``ratio`` keeps to the bound."""
        return ratio >= self.bound if self.sign == "≥" else ratio <= self.bound

    def __str__(self) -> str:
        return f"{self.sign} {self.bound:g}"


@dataclass(frozen=True)
class Row:
    """One comparison: what of ours, in which ``unit``, against which ``floor``; one figure of each per round."""

    what: str
    unit: str
    ours: Sequence[float]
    floor: str
    theirs: Sequence[float]
    goal: Goal | None = None

    @property
    def ratios(self) -> list[float]:
        """Ours to theirs, pair by pair."""
        return [mine / other if other else math.inf for mine, other in zip(self.ours, self.theirs, strict=True)]

    @property
    def ratio(self) -> float:
        """The median of the ratios."""
        return statistics.median(self.ratios)


@dataclass
class Report:
    """What one benchmark found: its rows, and in words where the time goes."""

    title: str
    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def paired(
    rounds: int, ours: Callable[[], float], theirs: Callable[[], float], *, warm_up: bool = True
) -> tuple[list[float], list[float]]:
    """Figures of both, taken in turn, so that a machine that slows down slows both; the first pair may be a warm-up."""
    pairs = [(ours(), theirs()) for _ in range(rounds + warm_up)][int(warm_up) :]
    return [mine for mine, _ in pairs], [other for _, other in pairs]


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that at least ``percent`` of all values do not exceed."""
    return sorted(values)[max(0, math.ceil(len(values) * percent / 100) - 1)]


def resident_mb(process: int | str = "self") -> float:
    """The memory a process holds, in MiB (Linux)."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024 / 1024


# ---- child processes: one command a line, one line of figures in return


class Child:
    """A process that answers commands. What it logs goes to a file, as a service's log does."""

    def __init__(self, module: str, *arguments: str, env: Mapping[str, str] | None = None) -> None:
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=Path(__file__).parent.parent,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=env,
            text=True,
            bufsize=1,
        )
        self.ready = self._line()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def ask(self, *words: object) -> list[float]:
        """The figures that the command ``words`` gives."""
        self.tell(*words)
        return self.hear()

    def tell(self, *words: object) -> None:
        """Give the command ``words`` and do not wait."""
        print(*words, file=self._process.stdin, flush=True)

    def hear(self) -> list[float]:
        """The figures of the oldest command that was only told."""
        return [float(word) for word in self._line().split()]

    def close(self) -> None:
        """Let it end."""
        try:
            self._process.communicate(timeout=_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise
        finally:
            self._log.close()

    def _line(self) -> str:
        line = self._process.stdout.readline() if self._process.stdout else ""
        if not line:
            self._process.wait(_PATIENCE_S)
            self._log.seek(0)
            raise SystemExit(f"a child process has ended early: {self._log.read()[-_LOG_SHOWN:]}")
        return line.strip()


@contextmanager
def child(module: str, *arguments: object, env: Mapping[str, str] | None = None) -> Iterator[Child]:
    """The process ``python -m module arguments…``, ended on leaving; ``env`` instead of our own environment."""
    started = Child(module, *map(str, arguments), env=env)
    try:
        yield started
    finally:
        started.close()


def obey(commands: Mapping[str, Callable[..., object]], ready: object = "ready") -> None:
    """Say ``ready``, then carry out the commands on standard input until it ends. For the child's side."""
    print(ready, flush=True)
    for line in sys.stdin:
        name, *arguments = line.split()
        found = commands[name](*arguments)
        figures = found if isinstance(found, (list, tuple)) else [found]
        print(*(0.0 if figure is None else figure for figure in figures), flush=True)
