from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from flower_http.errors import Problem
from flower_http.slots import Claim, Slots
from tests.http.run_world import refused


@dataclass
class Chair:
    run_id: str
    leaving: bool = False


class Hall:
    """Slots that only note whose turn it is."""

    def __init__(self, max_runs: int = 1, queue: int = 1) -> None:
        self.begun: list[str] = []
        self.slots: Slots[Chair] = Slots(lambda job: self.begun.append(job.run_id), max_runs=max_runs, queue=queue)

    def enter(self, run_id: str, where: str = "") -> None:
        self.slots.claim(Claim(run_id, Path("/w") / (where or run_id)))
        self.slots.put(Chair(run_id))

    def leave(self, run_id: str) -> None:
        """What a job does just before it shows that it has ended."""
        (job,) = (job for job in self.slots.running() if job.run_id == run_id)
        job.leaving = True


def test_as_many_run_as_may_and_the_next_begins_when_one_has_ended() -> None:
    hall = Hall(max_runs=2, queue=5)
    for name in "abcd":
        hall.enter(name)
    assert hall.begun == ["a", "b"]
    hall.slots.drop("a")
    assert hall.begun == ["a", "b", "c"]


def test_of_those_who_wait_the_oldest_run_is_the_next_whenever_it_came() -> None:
    hall = Hall(max_runs=1, queue=5)
    for name in ("b", "d", "c", "a"):
        hall.enter(name)
    for name in ("b", "a", "c"):
        hall.slots.drop(name)
    assert hall.begun == ["b", "a", "c", "d"]


def test_a_full_queue_refuses_and_says_when_to_come_again() -> None:
    hall = Hall(max_runs=1, queue=1)
    hall.enter("a")
    hall.enter("b")
    problem = refused(lambda: hall.enter("c"))
    assert (problem.status, problem.slug, problem.headers["Retry-After"]) == (429, "queue-full", "30")
    hall.slots.drop("a")
    hall.enter("c")


def test_without_a_queue_a_free_place_is_enough() -> None:
    hall = Hall(max_runs=1, queue=0)
    hall.enter("a")
    assert refused(lambda: hall.enter("b")).status == 429


def test_a_claim_counts_before_its_job_is_there_and_can_be_given_up() -> None:
    hall = Hall(max_runs=1, queue=0)
    hall.slots.claim(Claim("a", Path("/w/a")))
    assert refused(lambda: hall.enter("b")).status == 429
    hall.slots.drop("a")
    hall.enter("b")
    assert hall.begun == ["b"]


@pytest.mark.parametrize("where", ["x", "x/below", "."])
def test_a_workspace_is_busy_above_and_below_also_while_its_run_waits(where: str) -> None:
    hall = Hall(max_runs=1, queue=5)
    hall.enter("a", "elsewhere/1")
    hall.enter("b", "x")
    problem = refused(lambda: hall.enter("c", where))
    assert (problem.status, problem.slug) == (409, "workspace-busy")
    assert problem.extra["run"] in ("a", "b")


def test_a_flow_that_is_one_object_is_busy_for_everybody_else() -> None:
    hall = Hall(max_runs=5)
    hall.slots.claim(Claim("a", Path("/w/a"), flow="solo"))
    problem = refused(lambda: hall.slots.claim(Claim("b", Path("/w/b"), flow="solo")))
    assert (problem.slug, problem.extra["run"]) == ("flow-busy", "a")
    hall.slots.claim(Claim("c", Path("/w/c")))


def test_a_run_is_claimed_once() -> None:
    hall = Hall(max_runs=5)
    hall.enter("a")
    assert refused(lambda: hall.enter("a", "other")).slug == "not-interrupted"


def test_who_is_withdrawn_never_begins_and_leaves_the_place_free() -> None:
    hall = Hall(max_runs=1, queue=1)
    hall.enter("a")
    hall.enter("b")
    assert hall.slots.withdraw("a") is None, "it has its turn already"
    assert hall.slots.withdraw("b") == Chair("b")
    assert hall.slots.find("b") is None
    hall.enter("c", "b")
    hall.slots.drop("a")
    assert hall.begun == ["a", "c"]


def test_while_held_nobody_begins() -> None:
    hall = Hall(max_runs=1, queue=5)
    hall.slots.hold(True)
    hall.enter("a")
    assert hall.begun == []
    hall.slots.hold(False)
    assert hall.begun == ["a"]


def test_after_closing_nobody_is_taken_and_nobody_begins() -> None:
    hall = Hall(max_runs=1, queue=5)
    hall.enter("a")
    hall.enter("b")
    assert hall.slots.close() == [Chair("a")]
    assert refused(lambda: hall.enter("c")).status == 503
    assert not hall.slots.wait_idle(0.05)
    hall.slots.drop("a")
    assert hall.slots.wait_idle(5.0)
    assert hall.begun == ["a"]


def test_of_many_who_want_one_workspace_at_once_exactly_one_gets_it() -> None:
    hall = Hall(max_runs=50)
    start = threading.Barrier(20)
    won: list[str] = []

    def want(name: str) -> None:
        start.wait()
        try:
            hall.enter(name, "same")
        except Problem:
            return
        won.append(name)

    threads = [threading.Thread(target=want, args=(f"r{n}",)) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(won) == 1
    assert hall.begun == won


@pytest.mark.parametrize(("newcomer", "where"), [("b", "same"), ("a", "same"), ("b", "elsewhere")])
def test_a_place_that_is_just_being_left_is_waited_for(newcomer: str, where: str) -> None:
    hall = Hall(max_runs=1, queue=0)
    hall.enter("a", "same")
    hall.leave("a")
    with ThreadPoolExecutor() as pool:
        entering = pool.submit(hall.enter, newcomer, where)
        with pytest.raises(TimeoutError):
            entering.result(0.1)
        hall.slots.drop("a")
        entering.result(30)
    assert hall.begun == ["a", newcomer]


def test_whoever_waits_for_a_place_is_sent_away_when_there_will_be_none() -> None:
    hall = Hall(max_runs=1, queue=0)
    hall.enter("a", "same")
    hall.leave("a")
    with ThreadPoolExecutor() as pool:
        entering = pool.submit(refused, partial(hall.enter, "b", "same"))
        hall.slots.close()
        assert entering.result(30).status == 503
