"""Many watchers of one run while its server is killed with -9, twice: everyone ends with every event, in order."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.faults.watching import follow_through_kills

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL on Windows")

WATCHERS, EVENTS, RATE, KILLS = 60, 3000, 1500, 2


def test_every_watcher_ends_with_every_event_though_the_server_is_killed_twice(tmp_path: Path) -> None:
    seen = follow_through_kills(tmp_path, watchers=WATCHERS, events=EVENTS, rate=RATE, kills=KILLS)
    assert seen.endings == 1, "all of them were shown the very same"
    assert seen.breaks > 0, "the kills came while they were watching"
    assert seen.repeats > 0, "what had been shown was shown again, and compared"
