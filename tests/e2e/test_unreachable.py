"""A goal that is judged out of reach, with the real agent program: five answers, five endings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

from flower_core.texts import texts_for
from tests.e2e.serving import FlowerServer, steps_of

pytestmark = pytest.mark.e2e
#: What is answered to the verdict, and to what is asked then; none: nobody is there.
ANSWERS: Mapping[str, tuple[dict[str, Any], ...]] = {
    "accept": ({"option": 1},),
    "change": ({"option": 2}, {"text": "An estimate of 12 degrees will do"}),
    "wrong": ({"option": 3},),
    "words": ({"text": "It hangs behind the boiler"},),
    "nobody": (),
}
#: One of them in another language: nothing may hang on the words of the texts.
LANGS = {"words": "fr"}
REASON = "There is no thermometer on this machine"
ONE_ROUND = ["Clarify", "Set goal", "Work", "Work·verdict#1"]
TWO_ROUNDS = [*ONE_ROUND, "Work#round2", "Work·verdict#2"]


@dataclass(frozen=True)
class Ending:
    """How a run ended, and what it left."""

    run: dict[str, Any]
    events: list[dict[str, Any]]
    asks: list[dict[str, Any]]
    brief: str
    goal: str
    reading: str

    @property
    def second_round(self) -> str:
        """What the session that works was told after the verdict."""
        steps = (event for event in self.events if event["kind"] == "step")
        after = next(step["seq"] for step in steps if step["payload"]["round"] == 2)
        return next(str(event["text"]) for event in self.events if event["kind"] == "prompt" and event["seq"] > after)

    @property
    def judged(self) -> list[str]:
        """What the judge of each round was told."""
        prompts = [event["text"] for event in self.events if event["kind"] == "prompt"]
        return [prompt for prompt in prompts if "flower-turn: verdict" in prompt]


@pytest.fixture(scope="module")
def endings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Ending]]:
    """All five runs, side by side."""
    data = tmp_path_factory.mktemp("unreachable") / "data"
    with FlowerServer(data, "--rehearse=unreachable,pace=0", "--max-runs=5") as server:
        with ThreadPoolExecutor(len(ANSWERS)) as pool:
            found = dict(zip(ANSWERS, pool.map(lambda name: play(server, name), ANSWERS), strict=True))
        yield found


def play(server: FlowerServer, name: str) -> Ending:
    """A run in a workspace ``name`` whose questions are answered as ``ANSWERS`` has it, to its end."""
    timeout_s = 600 if ANSWERS[name] else 0
    run = server.start_run("Read the cellar", workspace=name, lang=LANGS.get(name, "en"), timeout_s=timeout_s)
    for answer in ANSWERS[name]:
        server.post(f"/runs/{run['id']}/answer", ask_id=server.wait_for_ask(run["id"], 120)["id"], **answer)
    ended = server.wait_for(run["id"], "succeeded", "failed", timeout=120)
    brief, goal = (
        server.fetch("GET", f"/runs/{run['id']}/documents/{document}")[2].decode() for document in ("brief", "goal")
    )
    asks = server.get(f"/runs/{run['id']}/asks?state=all")["asks"]
    reading = (server.workspace(run) / "reading.txt").read_text()
    return Ending(ended, server.events(run["id"]), asks, brief, goal, reading)


def test_an_accepted_result_is_a_success_that_hides_nothing(endings: dict[str, Ending]) -> None:
    end = endings["accept"]
    assert (end.run["state"], end.run["verdict"]["state"], end.run["aborted"]) == ("succeeded", "unreachable", None)
    assert REASON in end.run["verdict"]["reason"]
    assert steps_of(end.events) == ONE_ROUND
    assert [ask["state"] for ask in end.asks] == ["answered"]
    assert REASON in end.asks[0]["question"]
    assert end.reading.startswith("None:")


def test_a_changed_goal_is_written_down_worked_on_and_judged_by(endings: dict[str, Ending]) -> None:
    end = endings["change"]
    words = "An estimate of 12 degrees will do"
    assert (end.run["state"], end.run["verdict"]["state"]) == ("succeeded", "achieved")
    assert steps_of(end.events) == TWO_ROUNDS
    assert words in end.goal
    assert words in end.brief
    assert words in end.second_round
    assert end.reading == f"Reading: as was said: {words}\n"
    assert [words in prompt for prompt in end.judged] == [False, True]


def test_a_judge_that_is_told_it_is_wrong_judges_another_round(endings: dict[str, Ending]) -> None:
    end = endings["wrong"]
    assert (end.run["state"], end.run["verdict"]["state"]) == ("succeeded", "achieved")
    assert steps_of(end.events) == TWO_ROUNDS
    wrong = texts_for("en")("workflow.unreachable.wrong")
    assert wrong in end.second_round
    assert wrong in end.brief
    assert wrong not in end.goal


def test_any_other_words_count_as_an_objection_and_reach_who_works_and_who_judges(endings: dict[str, Ending]) -> None:
    end = endings["words"]
    words = "It hangs behind the boiler"
    assert (end.run["state"], end.run["verdict"]["state"]) == ("succeeded", "achieved")
    assert len(steps_of(end.events)) == 6
    assert words in end.second_round
    assert words in end.brief
    assert words not in end.goal
    assert end.reading == f"Reading: as was said: {words}\n"
    assert [words in prompt for prompt in end.judged] == [False, True]


def test_with_nobody_there_the_run_stops_and_says_why(endings: dict[str, Ending]) -> None:
    end = endings["nobody"]
    assert (end.run["state"], end.run["verdict"]["state"]) == ("failed", "unreachable")
    assert steps_of(end.events) == ONE_ROUND
    assert end.run["failed_at"] == "Work"
    assert "nobody answered" in end.run["aborted"]
    assert REASON in end.run["aborted"]
    assert [ask["state"] for ask in end.asks] == ["timeout"]
