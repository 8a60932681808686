"""Pulling questions: each goes to exactly one consumer, and none is lost when a consumer goes away."""

from __future__ import annotations

import asyncio
import threading

import pytest

from flower_core.human import Ask, HumanChannel
from tests.core.people import Agents, waiting


async def pull(channel: HumanChannel, into: list[Ask]) -> None:
    while True:
        ask = await channel.next_ask()
        assert ask is not None
        into.append(ask)
        channel.answer(ask.id, f"to {ask.question}")


def test_with_several_consumers_on_several_loops_each_question_goes_to_exactly_one() -> None:
    channel = HumanChannel()
    pulled: list[Ask] = []
    with Agents() as one, Agents() as two:
        for agents in (one, two, one, two):
            agents.start(pull(channel, pulled))
        calls = [(one, two)[n % 2].start(channel.ask(str(n))) for n in range(60)]
        assert [call.result(5).answer for call in calls] == [f"to {n}" for n in range(60)]
    assert sorted(ask.id for ask in pulled) == sorted(f"q{n}" for n in range(1, 61))


def test_it_waits_until_there_is_a_question() -> None:
    channel = HumanChannel()
    with Agents() as one, Agents() as two:
        consumer = one.start(channel.next_ask())
        one.do(lambda: None)
        assert not consumer.done()
        two.start(channel.ask("now"))
        found = consumer.result(5)
        assert found is not None
        assert found.question == "now"


@pytest.mark.parametrize("timeout", [0, 0.01])
def test_it_gives_up_after_its_timeout_and_then_takes_nothing_with_it(timeout: float) -> None:
    channel = HumanChannel()
    with Agents() as agents:
        assert agents.start(channel.next_ask(timeout)).result(5) is None
        agents.start(channel.ask("later"))
        waiting(channel)
        found = agents.start(channel.next_ask(0)).result(5)
        assert found is not None
        assert found.question == "later"
        assert agents.start(channel.next_ask(0)).result(5) is None


def test_a_cancelled_consumer_leaves_the_question_to_another() -> None:
    channel = HumanChannel()
    with Agents() as agents:

        async def cancelled_on_waking() -> bool:
            first = asyncio.ensure_future(channel.next_ask())
            await asyncio.sleep(0)
            call = asyncio.ensure_future(channel.ask("whose?"))
            await asyncio.sleep(0)  # the question is announced, and the first consumer about to wake
            first.cancel()
            found = await channel.next_ask(5)
            assert found is not None
            channel.answer(found.id, "mine")
            assert (await call).answer == "mine"
            return first.cancelled()

        assert agents.start(cancelled_on_waking()).result(10)


def test_a_question_that_was_settled_meanwhile_is_passed_over() -> None:
    channel = HumanChannel()
    with Agents() as agents:
        for question in ("a", "b", "c"):
            agents.start(channel.ask(question))
        waiting(channel, 3)
        channel.answer("q1", "done")
        channel.decline("q2")
        found = agents.start(channel.next_ask(5)).result(5)
        assert found is not None
        assert found.id == "q3"


def test_a_question_whose_answer_could_not_be_kept_is_handed_out_again_to_those_who_missed_it() -> None:
    claimed, go_on = threading.Event(), threading.Event()

    def failing(_ask: Ask) -> None:
        claimed.set()
        assert go_on.wait(5)
        raise OSError("disk full")

    channel = HumanChannel(on_settle=failing)
    with Agents() as agents:
        agents.start(channel.ask("?"))
        waiting(channel)
        errors: list[OSError] = []

        def person() -> None:
            try:
                channel.answer("q1", "yes")
            except OSError as error:
                errors.append(error)

        thread = threading.Thread(target=person)
        thread.start()
        assert claimed.wait(5)
        assert agents.start(channel.next_ask(0)).result(5) is None
        consumer = agents.start(channel.next_ask())
        agents.do(lambda: None)  # it has found the question claimed, and sleeps
        go_on.set()
        found = consumer.result(5)
        thread.join(5)
        assert len(errors) == 1
        assert found is not None
        assert found.id == "q1"


def test_a_consumer_whose_loop_was_closed_does_not_disturb_the_others() -> None:
    channel = HumanChannel()
    dead = asyncio.new_event_loop()
    dead.set_exception_handler(lambda _loop, _context: None)
    task = dead.create_task(channel.next_ask())
    dead.run_until_complete(asyncio.sleep(0))
    dead.close()
    with Agents() as agents:
        consumer = agents.start(channel.next_ask())
        agents.do(lambda: None)
        call = agents.start(channel.ask("?"))
        found = consumer.result(5)
        assert found is not None
        assert found.id == "q1"
        channel.answer("q1", "fine")
        assert call.result(5).answer == "fine"
    del task
