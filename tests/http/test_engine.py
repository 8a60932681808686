from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Iterator

import pytest

from flower_http.engine import Engine


@pytest.fixture
def engine() -> Iterator[Engine]:
    made = Engine()
    made.start()
    yield made
    assert made.stop(5.0)


async def _thread() -> str:
    return threading.current_thread().name


def test_work_runs_on_one_thread_of_its_own(engine: Engine) -> None:
    names = {engine.submit(_thread()).result(5) for _ in range(5)}
    assert names == {"flower-engine"}


def test_a_function_is_called_on_that_thread(engine: Engine) -> None:
    seen: queue.Queue[str] = queue.Queue()
    engine.call_soon(lambda: seen.put(threading.current_thread().name))
    assert seen.get(timeout=5) == "flower-engine"


def test_what_fails_does_not_stop_the_rest(engine: Engine) -> None:
    async def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        engine.submit(fail()).result(5)
    assert engine.alive
    assert engine.submit(_thread()).result(5)


def test_stopping_cancels_what_still_runs_and_waits_for_its_end() -> None:
    engine = Engine()
    engine.start()
    begun, ended = threading.Event(), threading.Event()

    async def work() -> None:
        begun.set()
        try:
            await asyncio.sleep(600)
        finally:
            await asyncio.sleep(0.05)
            ended.set()

    engine.submit(work())
    assert begun.wait(5)
    assert engine.stop(5.0)
    assert ended.is_set()
    assert not engine.alive


def test_an_engine_that_never_ran_can_be_stopped() -> None:
    engine = Engine()
    assert not engine.alive
    assert engine.stop(0.1)
    engine.call_soon(lambda: None)
    assert engine.stop(0.1), "and stopped again"
