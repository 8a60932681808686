"""How a run stands, said from time to time."""

from __future__ import annotations

from flower_client import Event, Run
from flower_client.standing import FIRST_PAUSE_S, LONGEST_PAUSE_S, Standing

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
    standing = Standing(clock)
    standing.see(SAID)
    clock.now += 15
    assert standing.line(RUN) == "3/3 Work · round 2 · context 41k · $0.32 · 4 min 20 s"


def test_what_is_not_known_is_left_out() -> None:
    assert Standing(Hands()).line(Run("r1", "queued")) == "queued · $0.00 · time unknown"


def test_at_most_once_a_minute_while_things_happen_and_ever_less_often_while_nothing_does() -> None:
    clock = Hands()
    standing = Standing(clock)

    def told(seconds: int, *, busy: bool) -> list[float]:
        begun, times = clock.now, []
        while clock.now < begun + seconds:
            clock.now += 1
            if busy:
                standing.see(SAID)
            if standing.due():
                times.append(clock.now - begun)
        return times

    assert told(300, busy=True) == [60, 120, 180, 240, 300]
    quiet = told(8 * 3600, busy=False)
    assert quiet[0] == FIRST_PAUSE_S * 2  # the event before counts: the pause had been prolonged once already
    assert len(quiet) < 25
    assert quiet[-1] - quiet[-2] == LONGEST_PAUSE_S
    standing.see(SAID)
    assert told(61, busy=False)
