"""A session whose context is full hands over to a fresh one, and the step goes on as if nothing had been."""

from __future__ import annotations

import pytest

from flower_core import Handoff, Workbench, coordinator, worker
from flower_core.documents import frozen_handoffs
from tests.e2e.conftest import MakeStage
from tests.e2e.handoff_play import DOCUMENT, SMALL, TAKES_OVER, WRITES, done, fills, phases, stopped_at, used
from tests.e2e.stage import QUICK, Screen, agent, play

pytestmark = pytest.mark.e2e
ONE = {"agent": [TAKES_OVER, stopped_at(1), fills(60_000)], "agent/handoff": [WRITES]}


def test_a_fresh_session_goes_on_with_the_task_and_the_handoff(staged: MakeStage) -> None:
    stage, screen, known = staged(ONE), Screen(), list[tuple[str, str]]()
    bench = Workbench(stage.workspace, lang="en").ensure()
    runtime = stage.runtime(handoff=SMALL, workbench=bench)
    runtime.on_session = lambda step, session: known.append((step, session))
    result = play(runtime.run(agent("Bash"), "Paint the wall", on_event=screen))
    assert (result.ok, result.attempts, result.errors) == (True, 1, [])
    assert result.text == "I paint.\n\nThe second coat is on."
    assert known == [("Agent", result.retired[0]), ("Agent", result.session_id)]
    assert [request.rejected for request in stage.requests if request.rejected] == []

    (prompt,) = stage.requests[-1].talk.prompts
    handoff = Handoff.parse(DOCUMENT, lang="en")
    assert prompt.startswith("<task>\nPaint the wall\n</task>")
    assert handoff.prompt_block() in prompt
    assert ".flower/notes/handoff-Agent.md" in prompt
    assert Handoff.load(bench.notes / "handoff-Agent.md", lang="en") == handoff
    assert "handoff-Agent.md" in bench.index_path.read_text()

    assert phases(screen) == ["near", "writing", "done"]
    assert [event.payload["context"] for event in screen.of("handoff")] == [60_000] * 3
    told = done(screen)
    assert (told["step"], told["window"], told["degraded"]) == ("Agent", 100_000, False)
    assert (told["path"], told["sections"]) == (".flower/notes/handoff-Agent.md", list(handoff.sections()))


def test_the_turn_that_writes_is_seen_by_nobody_but_paid_for(staged: MakeStage) -> None:
    """Its words are in no event but the next prompt; the figures of results and handoffs add up to the step's."""
    stage, screen = staged(ONE), Screen()
    runtime = stage.runtime(handoff=SMALL)
    result = play(runtime.run(agent("Bash"), "Paint the wall", on_event=screen))
    shown = [event for event in screen.events if "Red ran out" in f"{event.text}{event.payload}"]
    assert [event.kind for event in shown] == ["prompt"]
    assert not any("flower-turn" in event.text for event in screen.events)
    bills = [event.payload for event in screen.events if "cost_usd" in event.payload]
    assert len(bills) == 3
    assert all(bill["cost_usd"] > 0 for bill in bills)
    assert result.cost_usd == pytest.approx(sum(bill["cost_usd"] for bill in bills), abs=1e-5)
    assert result.num_turns == sum(bill["num_turns"] for bill in bills)
    assert not any(runtime.has_session(request.session) for request in stage.requests if "handoff" in request.speaker)


def test_a_subagent_with_a_larger_context_is_none_of_its_business_and_loses_no_work(staged: MakeStage) -> None:
    """The main thread is full while two subagents work: both finish, then it hands over."""
    dispatch = {"subagent_type": "coder", "description": "Paint"}
    both = [["Agent", {**dispatch, "prompt": f"Paint the {side}."}] for side in ("front", "back")]
    paints = {"when": {"turn": 0}, **fills(400_000, "mkdir -p done; echo $PPID > done/$RANDOM-$$")}
    stage = staged(
        {
            "coordinator": [
                TAKES_OVER,
                stopped_at(2),
                {"when": {"turn": 0}, "tools": both[:1], **used(20_000)},
                {"tools": both, **used(60_000)},
            ],
            "coordinator/handoff": [WRITES],
            "worker/coder": [paints, {"text": "Painted.", **used(400_000)}],
        }
    )
    screen = Screen()
    spec = coordinator("Lead", "", {"coder": worker("Paints.", "", tools=("Bash",))}, lang="en", env=QUICK)
    result = play(stage.runtime(handoff=SMALL).run(spec, "Paint both", on_event=screen))
    assert (result.ok, result.text, len(result.retired)) == (True, "The second coat is on.", 1)
    assert len(list((stage.workspace / "done").iterdir())) == 3
    (asked,) = (request.talk for request in stage.requests if request.speaker == "coordinator/handoff")
    assert ["Painted." in report for report in asked.results("Agent")] == [True] * 3
    assert phases(screen) == ["near", "writing", "done"]
    assert screen.of("handoff")[0].payload["context"] == 60_000


def test_every_generation_announces_its_handoff_once(staged: MakeStage) -> None:
    levels = [31_000, 40_000, 49_999, 50_000]
    full = [fills(level) for level in levels]
    second = [{**reply, "when": {"prompts": "First handoff", "turn": turn}} for turn, reply in enumerate(full)]
    third = {"when": {"prompts": "Second handoff"}, "text": "Done."}
    unheard = {"when": {"turn": 4}, "text": "Unheard.", "hang": "for ever"}
    first_one, second_one = (DOCUMENT.replace("Blue.", f"{number} handoff.") for number in ("First", "Second"))
    writes = [{"when": {"prompts": "First handoff"}, "text": second_one}, {"text": first_one}]
    stage = staged({"agent": [third, unheard, *second, *full], "agent/handoff": writes})
    screen = Screen()
    runtime = stage.runtime(handoff=SMALL)
    result = play(runtime.run(agent("Bash"), "Paint the wall", on_event=screen))
    assert (result.ok, len(result.retired), result.text.split()[-1]) == (True, 2, "Done.")
    assert phases(screen) == ["near", "writing", "done"] * 2
    assert [event.payload["context"] for event in screen.of("handoff")] == [31_000, 50_000, 50_000] * 2
    notes = runtime.run_dir / "notes"
    assert frozen_handoffs(notes) == [notes / "archive" / "handoff-Agent-1.md", notes / "handoff-Agent.md"]
    assert stage.requests[-1].talk.prompts[0].count("<task>") == 1


def test_a_turn_that_ends_by_itself_is_let_end(staged: MakeStage) -> None:
    stage, screen = staged({"agent": [{"text": "All done.", **used(99_000)}]}), Screen()
    result = play(stage.runtime(handoff=SMALL).run(agent(), "Paint the wall", on_event=screen))
    assert (result.ok, result.text, result.retired, phases(screen)) == (True, "All done.", [], ["near"])


@pytest.mark.parametrize(
    ("model", "at"),
    [("claude-haiku-4-5[1m]", 950_000), ("a-model-nobody-knows", 150_000)],
)
def test_without_a_window_it_goes_by_the_models_own(staged: MakeStage, model: str, at: int) -> None:
    """An unknown model is taken for one with a small window: early is better than too late."""
    # The question for the window goes out at the first reply; what is full waits for the answer.
    stage = staged({"agent": [TAKES_OVER, fills(at - 10), fills(at)], "agent/handoff": [WRITES]})
    screen = Screen()
    result = play(stage.runtime().run(agent("Bash", model=model), "Paint the wall", on_event=screen))
    assert (result.ok, len(result.retired)) == (True, 1)
    assert [event.payload["window"] for event in screen.of("handoff")] == [at + 50_000] * 3
    assert screen.of("handoff")[1].payload["context"] == at


def test_the_budget_does_not_count_what_handing_over_costs(staged: MakeStage) -> None:
    """Each of the two sessions spends less than half of it, the handoff alone more than all of it."""
    dear = {"text": DOCUMENT, "usage": {"input_tokens": 400_000}}
    stage = staged({"agent": [TAKES_OVER, stopped_at(1), fills(60_000)], "agent/handoff": [dear]})
    screen = Screen()
    result = play(stage.runtime(handoff=SMALL).run(agent("Bash", max_budget_usd=0.2), "Paint", on_event=screen))
    assert (result.ok, result.error, len(result.retired)) == (True, "", 1)
    assert done(screen)["degraded"] is False
    assert done(screen)["cost_usd"] > 0.2
    assert result.cost_usd > 0.2


def test_switched_off_the_level_means_nothing(staged: MakeStage) -> None:
    stage, screen = staged({"agent": [fills(900_000), {"text": "Done."}]}), Screen()
    result = play(stage.runtime(handoff=False).run(agent("Bash"), "Paint the wall", on_event=screen))
    assert (result.ok, result.retired, screen.of("handoff")) == (True, [], [])
