"""What people do to runs: answers that are kept, said once, and never lost between two processes."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.http.event_tools import disk_refusing
from tests.http.gated_flow import SCENES, Scene, scene
from tests.http.run_world import RunWorld, refused
from tests.support import eventually


def asking(world: RunWorld, workspace: str = "a", **more: object) -> tuple[str, Scene]:
    """A run whose question waits."""
    view, here = world.begun(workspace, "ask", **more)
    world.asks(view.id)
    return view.id, here


def test_an_answer_is_kept_told_and_shown_as_one(world: RunWorld) -> None:
    run, here = asking(world)
    ask, replayed = world.manager.answer(run, "q1", option=2, by="me")
    assert (ask.state, ask.answer, ask.answered_by, replayed) == ("answered", "that", "me", False)
    world.reaches(run, "succeeded")
    assert here.told == ["answered: that"]
    log = world.book.get(run)
    assert log is not None
    assert log.conversation.answers()["q1"]["answer"] == "that"


def test_the_same_answer_again_is_as_good_as_the_first_any_other_comes_too_late(world: RunWorld) -> None:
    run, _ = asking(world)
    world.manager.answer(run, "q1", text="this", by="me")
    assert world.manager.answer(run, "q1", option=1, by="me")[1]
    for late in ({"text": "that", "by": "me"}, {"text": "this", "by": "somebody else"}):
        problem = refused(lambda late=late: world.manager.answer(run, "q1", **late))  # type: ignore[misc]
        assert (problem.status, problem.slug, problem.extra["ok"]) == (409, "ask-settled", False)
        assert problem.extra["ask"]["answer"] == "this"
        assert problem.extra["ask"]["answered_by"] == "me"
    assert refused(lambda: world.manager.decline(run, "q1", reason="", by="me")).slug == "ask-settled"


def test_of_many_answers_at_once_exactly_one_is_taken(world: RunWorld) -> None:
    run, here = asking(world)
    start = threading.Barrier(8)
    taken: list[str] = []

    def answer(words: str) -> None:
        start.wait()
        try:
            world.manager.answer(run, "q1", text=words, by=words)
        except Exception:
            return
        taken.append(words)

    threads = [threading.Thread(target=answer, args=(f"no. {n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    world.reaches(run, "succeeded")
    assert here.told == [f"answered: {taken[0]}"]
    assert len(taken) == 1


def test_declining_tells_the_agent_and_is_repeatable(world: RunWorld) -> None:
    run, here = asking(world)
    assert world.manager.decline(run, "q1", reason="your call", by="me")[0].state == "declined"
    assert world.manager.decline(run, "q1", reason="your call", by="me")[1]
    world.reaches(run, "succeeded")
    assert here.told == ["declined: your call"]


def test_unknown_questions_and_options_are_refused_by_name(world: RunWorld) -> None:
    run, _ = asking(world)
    assert refused(lambda: world.manager.answer(run, "q9", text="x", by="me")).slug == "unknown-ask"
    problem = refused(lambda: world.manager.answer(run, "q1", option=3, by="me"))
    assert (problem.status, list(problem.extra["errors"])) == (422, ["option"])


def test_an_answer_that_cannot_be_kept_is_refused_and_the_question_waits_on(world: RunWorld, tmp_path: Path) -> None:
    run, here = asking(world)
    with disk_refusing(tmp_path / "journal.db"):
        problem = refused(lambda: world.manager.answer(run, "q1", text="this", by="me"))
        assert (problem.status, problem.slug) == (503, "journal-unavailable")
        assert here.told == []
    assert [ask.id for ask in world.manager.asks(run, "waiting")] == ["q1"]
    eventually(lambda: world.journal.healthy, 15)
    world.manager.answer(run, "q1", text="that", by="me")
    world.reaches(run, "succeeded")
    assert here.told == ["answered: that"]


def test_a_question_left_by_a_dead_process_can_be_answered_once_while_the_run_is_interrupted(world: RunWorld) -> None:
    run, _ = asking(world)
    world.crash()
    world.boot(resume=False)
    world.reaches(run, "interrupted")
    assert world.manager.answer(run, "q1", text="that", by="me")[0].state == "answered"
    assert world.manager.answer(run, "q1", text="that", by="me")[1]
    assert refused(lambda: world.manager.answer(run, "q1", text="this", by="me")).slug == "ask-settled"
    SCENES.clear()
    world.manager.resume(run)
    world.reaches(run, "succeeded")
    assert scene("a").told == ["answered: that"], "the same words asked again are answered from the books"
    assert [(ask.id, ask.state, ask.replayed) for ask in world.manager.asks(run, "all")] == [
        ("q1", "answered", False),
        ("q2", "answered", True),
    ]


def outcomes(world: RunWorld, run: str, ask_id: str = "q1") -> list[str]:
    """What the events say of one question, in order."""
    return [event["payload"]["state"] for event in world.events(run) if event["payload"].get("id") == ask_id]


@pytest.mark.parametrize("how", ["crash", "shut_down"])
def test_a_question_asked_again_after_a_restart_is_the_same_question(world: RunWorld, how: str) -> None:
    run, _ = asking(world)
    getattr(world, how)()
    SCENES.clear()
    world.boot()
    eventually(lambda: outcomes(world, run) == ["asked", "asked"])
    assert [(ask.id, ask.state) for ask in world.manager.asks(run, "all")] == [("q1", "asked")]
    assert not world.manager.answer(run, "q1", text="this", by="me")[1]
    world.reaches(run, "succeeded")
    assert scene("a").told == ["answered: this"]


def test_a_question_that_is_not_asked_again_is_declined_when_its_step_is_over(world: RunWorld) -> None:
    run, _ = asking(world, "b")
    world.crash()
    SCENES.clear()
    scene("b").forget = True
    world.boot()
    assert eventually(scene("b").begun.is_set)
    assert [ask.id for ask in world.manager.asks(run, "waiting")] == ["q1"]
    assert world.manager.get(run).state == "waiting"
    scene("b").go.set()
    world.reaches(run, "succeeded")
    assert outcomes(world, run) == ["asked", "declined"]
    assert world.told(run)[-1] == "run.finished"


def test_an_answer_given_before_the_agent_asks_again_is_there_when_it_does(world: RunWorld) -> None:
    run, _ = asking(world, "c")
    world.crash()
    SCENES.clear()
    scene("c").pause = True
    world.boot()
    assert eventually(scene("c").begun.is_set)
    assert not world.manager.answer(run, "q1", text="that", by="me")[1]
    assert world.manager.answer(run, "q1", text="that", by="me")[1]
    scene("c").go.set()
    world.reaches(run, "succeeded")
    assert scene("c").told == ["answered: that"]
    assert outcomes(world, run) == ["asked", "answered"]


def test_an_open_question_whose_answer_cannot_be_kept_waits_on(world: RunWorld, tmp_path: Path) -> None:
    run, _ = asking(world, "d")
    world.crash()
    SCENES.clear()
    scene("d").pause = True
    world.boot()
    assert eventually(scene("d").begun.is_set)
    with disk_refusing(tmp_path / "journal.db"):
        assert refused(lambda: world.manager.answer(run, "q1", text="this", by="me")).status == 503
    eventually(lambda: world.journal.healthy, 15)
    scene("d").go.set()
    eventually(lambda: outcomes(world, run) == ["asked", "asked"], 10)
    world.manager.answer(run, "q1", text="that", by="me")
    world.reaches(run, "succeeded")
    assert scene("d").told == ["answered: that"]


def test_an_answer_and_a_resumption_at_once_agree_on_one_outcome(world: RunWorld) -> None:
    for number in range(8):
        SCENES.clear()
        run, _ = asking(world, f"w{number}")
        world.crash()
        SCENES.clear()
        world.boot(resume=False)
        world.reaches(run, "interrupted")
        start = threading.Barrier(2)
        accepted: list[bool] = []

        def answer(run: str = run, start: threading.Barrier = start, accepted: list[bool] = accepted) -> None:
            start.wait()
            accepted.append(not world.manager.answer(run, "q1", text="that", by="me")[1])

        answering = threading.Thread(target=answer)
        answering.start()
        start.wait()
        world.manager.resume(run)
        answering.join(10)
        assert accepted == [True]
        world.reaches(run, "succeeded")
        assert scene(f"w{number}").told == ["answered: that"]
        # Asked again at the very moment it was answered, the question is seen to wait and to be answered once more.
        assert set(outcomes(world, run)) == {"asked", "answered"}
        assert outcomes(world, run)[-1] == "answered"


def test_what_is_said_reaches_the_inbox_of_a_run_that_has_only_just_begun(world: RunWorld) -> None:
    view = world.start("wait", "a")
    mail = world.manager.send(view.id, "be quick")
    assert (mail.id, mail.state, mail.text) == ("m1", "queued", "be quick")
    assert [item.text for item in world.manager.inbox(view.id)] == ["be quick"]


def test_mail_nobody_took_is_told_to_the_resumed_run_and_numbers_go_on(world: RunWorld) -> None:
    view, _ = world.begun("a")
    world.manager.send(view.id, "be quick")
    world.crash()
    SCENES.clear()
    world.boot()
    world.reaches(view.id, "running")
    eventually(lambda: scene("a").openings, 10)
    assert "be quick" in scene("a").openings[-1]
    eventually(lambda: [(item.id, item.state) for item in world.manager.inbox(view.id)] == [("m1", "delivered")])
    assert world.manager.send(view.id, "and careful").id == "m2"


def test_nothing_can_be_said_to_a_run_that_waits_for_its_turn_is_interrupted_or_over(world: RunWorld) -> None:
    world.begun("a")
    world.begun("b")
    queued = world.start("wait", "c")
    for act in (lambda: world.manager.send(queued.id, "x"), lambda: world.manager.interrupt(queued.id, "x")):
        assert refused(act).slug == "not-running"
    world.manager.cancel(queued.id)
    assert refused(lambda: world.manager.send(queued.id, "x")).slug == "not-running"
    assert refused(lambda: world.manager.interrupt(queued.id, "x")).slug == "not-running"


def test_there_is_nothing_to_interrupt_while_no_agent_is_at_work(world: RunWorld) -> None:
    view, _ = world.begun("a")
    assert refused(lambda: world.manager.interrupt(view.id, "stop")).slug == "not-running"


def test_a_blank_message_is_refused(world: RunWorld) -> None:
    view, _ = world.begun("a")
    assert refused(lambda: world.manager.send(view.id, " \n")).status == 422


def test_words_repeated_under_one_key_are_said_once_also_over_a_crash(world: RunWorld) -> None:
    view, here = world.begun("a")
    first = world.manager.send(view.id, "be quick", key="k1")
    assert world.manager.send(view.id, "be quick", key="k1") == first
    assert world.manager.send(view.id, "be quick", key="k2").id == "m2"
    assert world.manager.send(view.id, "be quick").id == "m3"
    world.crash()
    here.begun.clear()
    world.boot(resume=False)
    again = world.manager.send(view.id, "be quick", key="k1")  # while the run stands still, and once it goes on
    assert (again.id, again.text) == ("m1", "be quick")
    world.manager.resume(view.id)
    assert here.begun.wait(10)
    eventually(lambda: world.manager.inbox(view.id)[0].state == "delivered")
    assert world.manager.send(view.id, "be quick", key="k1").id == "m1"
    assert [mail.id for mail in world.manager.inbox(view.id)] == ["m1", "m2", "m3"]
    assert here.openings[-1].count("be quick") == 3
    here.go.set()
    world.reaches(view.id, "succeeded")
    assert world.manager.send(view.id, "be quick", key="k1").id == "m1"


def test_words_that_could_not_be_kept_in_time_are_not_said_again_by_the_next_try(world: RunWorld) -> None:
    view, here = world.begun("a")
    with disk_refusing(world.home / "journal.db"):
        problem = refused(lambda: world.manager.send(view.id, "be quick", key="k1"))
        assert problem.slug == "journal-unavailable"
    assert world.manager.send(view.id, "be quick", key="k1").id == "m1"
    assert len(world.manager.inbox(view.id)) == len(here.channels[-1].mail) == 1
