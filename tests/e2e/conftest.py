"""Fixtures of the end-to-end tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from flower_core.rehearsal import RehearsalServer
from tests.e2e.stage import Stage
from tests.support import eventually

MakeStage = Callable[[Mapping[str, Any] | str], Stage]


@pytest.fixture
def staged(tmp_path: Path) -> Iterator[MakeStage]:
    """Makes a :class:`Stage` for a play, or the shipped one of that name.

    Afterwards no agent program may be left in its workspace.
    """
    stages: list[Stage] = []

    def make(play: Mapping[str, Any] | str) -> Stage:
        home = (tmp_path / f"stage-{len(stages)}").resolve()
        (home / "space").mkdir(parents=True)
        stages.append(Stage(RehearsalServer(play, pace=0).start(), home))
        return stages[-1]

    yield make
    for stage in stages:
        stage.close()
    for stage in stages:
        eventually(lambda stage=stage: not stage.agent_processes(), timeout=20)  # type: ignore[misc]
