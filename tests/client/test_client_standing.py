"""How a run stands, said from time to time."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from click.testing import CliRunner
from flower_client import Event, Run, standing
from flower_client.cli import main
from flower_client.standing import FIRST_PAUSE_S, LONGEST_PAUSE_S, Standing

from tests.client.scripted_run import ScriptedRun
from tests.client.scripted_server import ScriptedServer
from tests.support import eventually

RUN = Run.from_json(
    {
        "id": "r1",
        "state": "running",
        "started_at": "2030-01-02T03:00:00Z",
        "step": {"name": "Work", "index": 3, "total": 3, "round": 2},
        "context": 41234,
        "cost_usd": 0.317,
    }
)
SAID = Event(1, "text", "hello", at="2030-01-02T03:04:05.000Z")


class Hands:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_it_says_step_round_context_cost_and_time_by_the_servers_clock() -> None:
    clock = Hands()
    teller = Standing(clock)
    teller.see(SAID)
    clock.now += 15
    assert teller.line(RUN) == "3/3 Work · round 2 · context 41k · $0.32 · 4 min 20 s"


def test_what_is_not_known_is_left_out() -> None:
    assert Standing(Hands()).line(Run("r1", "queued")) == "queued · $0.00 · time unknown"


def test_at_most_once_a_minute_while_things_happen_and_ever_less_often_while_nothing_does() -> None:
    clock = Hands()
    teller = Standing(clock)

    def told(seconds: int, *, busy: bool) -> list[float]:
        begun, times = clock.now, []
        while clock.now < begun + seconds:
            clock.now += 1
            if busy:
                teller.see(SAID)
            if teller.due():
                times.append(clock.now - begun)
        return times

    assert told(300, busy=True) == [60, 120, 180, 240, 300]
    quiet = told(8 * 3600, busy=False)
    assert quiet[0] == FIRST_PAUSE_S * 2  # the event before counts: the pause had been prolonged once already
    assert len(quiet) < 25
    assert quiet[-1] - quiet[-2] == LONGEST_PAUSE_S
    teller.see(SAID)
    assert told(61, busy=False)


@pytest.mark.parametrize("flags", [[], ["--json"]], ids=["for people", "for programs"])
def test_a_watch_says_it_on_standard_error_and_never_to_programs(
    server: ScriptedServer, run: ScriptedRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: list[str]
) -> None:
    def end() -> None:
        eventually(lambda: len(server.asked_for("events")) > 1)  # the first page has been shown
        run.finish()

    monkeypatch.setattr(standing, "FIRST_PAUSE_S", 0.0)
    ending = threading.Thread(target=end)
    ending.start()
    env = {"FLOWER_URL": server.url, "XDG_CONFIG_HOME": str(tmp_path), "FLOWER_TOKEN": None}
    result = CliRunner().invoke(main, [*flags, "watch", "r1"], env=env)
    ending.join(10)
    assert result.exit_code == 0
    assert ("· 3/3 Work · round 1 · $0.00 · 4 min" in result.stderr) is (not flags)
    assert "3/3 Work" not in result.stdout
