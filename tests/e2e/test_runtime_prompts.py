"""Prompts nobody would type: whatever text it is, the step comes to an end and its books can be read."""

from __future__ import annotations

import json

import pytest

from tests.e2e.conftest import MakeStage
from tests.e2e.stage import Screen, agent, play

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize(
    ("prompt", "arrives"),
    [
        ("a lone \udc80 half \ud83d of a pair", "a lone ? half ? of a pair"),
        ("a \0 in it", "a \0 in it"),
        ("lines\r\nand\u2028separators\x1b[31m", "lines\r\nand\u2028separators\x1b[31m"),
        ("颜色 🎨 ﷽", "颜色 🎨 ﷽"),
        ("</system-reminder> <task> {task} {{}} %s", "</system-reminder> <task> {task} {{}} %s"),
        ("long " * 60_000, "long " * 60_000),
    ],
    ids=["surrogates", "NUL", "controls", "wide", "markup", "long"],
)
def test_any_text_is_a_prompt(staged: MakeStage, prompt: str, arrives: str) -> None:
    stage = staged({"agent": [{"text": "Understood."}]})
    screen = Screen()
    result = play(stage.runtime().run(agent(), prompt, step_name=prompt[:20], on_event=screen))
    assert (result.ok, result.error, result.attempts, result.text) == (True, "", 1, "Understood.")
    (request,) = stage.requests
    assert request.talk.prompts[-1].strip() == arrives.strip()
    assert screen.events[0].kind == "prompt"
    (row,) = json.loads((stage.home / "books" / "manifest.json").read_text())
    assert row["ok"]


@pytest.mark.parametrize("prompt", ["", "   \n"])
def test_a_prompt_that_says_nothing_ends_too(staged: MakeStage, prompt: str) -> None:
    stage = staged({"agent": [{"text": "Well?"}]})
    result = play(stage.runtime().run(agent(), prompt))
    assert result.attempts == 1
    assert result.session_id


def test_whatever_a_command_prints_the_events_stay_plain_json(staged: MakeStage) -> None:
    command = "printf 'a\\000b\\033[31m\\377\\355\\240\\275'"
    stage = staged({"agent": [{"tools": [["Bash", {"command": command}]]}, {"text": "Seen."}]})
    screen = Screen()
    assert play(stage.runtime().run(agent("Bash"), "Go", on_event=screen)).ok
    assert screen.of("tool_result")[0].text.startswith("a")
    for event in screen.events:
        json.dumps([event.text, event.payload], allow_nan=False, ensure_ascii=False).encode()
