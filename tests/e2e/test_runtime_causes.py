"""Everything the model's end can do to a turn, with the real agent program: what of it is tried again, what stops."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from flower_core import Resilience, StepResult
from flower_core.rehearsal import RehearsalServer
from tests.e2e.stage import PATIENCE_S, Screen, Stage, agent

pytestmark = pytest.mark.e2e
#: Two attempts, and a short patience with a network that is gone.
TWICE = Resilience(max_attempts=2, base_delay=0.02, max_delay=0.02, probe_interval=0.1, max_offline_wait=0.3)
#: So many agent programs at once.
AT_ONCE = 3
LIMITED = "rate_limit_error"
CREDENTIALS, BILLING, MODEL = "Check ANTHROPIC_API_KEY", "Check the balance", "Check the model's name"


@dataclass(frozen=True)
class Cause:
    """What happens to the first request, or to all of them.

    ``attempts`` is how often the step is tried. ``said`` are words of the error of the only attempt, or of the first
    one of two, and ``advice`` the beginning of what a person is told to do. ``error`` and ``status`` are what the agent
    program makes of it.
    """

    reply: dict[str, Any]
    attempts: int
    said: str
    error: str
    status: int | None
    advice: str = ""
    env: dict[str, str] | None = None


CAUSES = {
    "overloaded": Cause({"error": "overloaded"}, 2, "529", "server_error", 529),
    "server error": Cause({"error": "server"}, 2, "Internal server error", "server_error", 500),
    "rate limit": Cause({"error": "rate-limit"}, 2, "429", "rate_limit", 429),
    "rate limit for an hour": Cause(
        {"error": "rate-limit", "headers": {"retry-after": "3600"}}, 2, "429", "rate_limit", 429
    ),
    "rate limit for longer than is waited": Cause(
        {"error": [429, LIMITED, "Slow down (retry-after: 3600 s)"]},
        1,
        "left alone for 3600 s",
        "rate_limit",
        429,
        "Check the network",
    ),
    "cut stream": Cause({"text": "x" * 400, "cut": 5}, 2, "ECONNRESET", "server_error", None),
    "error in the stream": Cause({"sse_error": ["overloaded_error", "Overloaded"]}, 2, "overloaded", "unknown", 529),
    "no answer": Cause(
        {"text": "x", "delay": 20}, 2, "timed out", "server_error", None, env={"API_TIMEOUT_MS": "1000"}
    ),
    "key": Cause({"error": "authentication"}, 1, "401", "authentication_failed", 401, CREDENTIALS),
    "permission": Cause({"error": "permission"}, 1, "403", "authentication_failed", 403, CREDENTIALS),
    "no such model": Cause({"error": "not-found"}, 1, "404", "model_not_found", 404, MODEL),
    "payment": Cause({"error": [402, "billing_error", "Pay"]}, 1, "402", "unknown", 402, BILLING),
    "credit": Cause({"error": "credit"}, 1, "Credit balance", "billing_error", 400, BILLING),
    "bad request": Cause({"error": "invalid-request"}, 1, "400", "unknown", 400),
    "too large": Cause({"error": "too-large"}, 1, "413", "invalid_request", 413, "Give the step less to read"),
    "refusal": Cause({"text": "No.", "stop": "refusal"}, 1, "safeguards", "invalid_request", None),
}
#: Met by every request, since the agent program asks again by itself, in another way.
FOR_EVER = {"bad request", "refusal", "no such model"}


@dataclass
class Story:
    """What came of one cause."""

    result: StepResult
    screen: Screen
    stage: Stage


async def _happen(name: str, home: Path, gate: asyncio.Semaphore) -> Story:
    cause = CAUSES[name]
    once = [{"when": {"request": 0}, **cause.reply}, {"text": "Done."}]
    home.joinpath("space").mkdir(parents=True)
    stage = Stage(RehearsalServer({"agent": [cause.reply] if name in FOR_EVER else once}).start(), home)
    screen = Screen()
    async with gate:
        work = stage.runtime(resilience=TWICE).run(agent(env=cause.env or {}), "Do it", on_event=screen)
        result = await asyncio.wait_for(work, PATIENCE_S)
    return Story(result, screen, stage)


@pytest.fixture(scope="module")
def stories(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Story]]:
    """Every cause, lived through."""
    home = tmp_path_factory.mktemp("causes").resolve()

    async def all_of_them() -> list[Story]:
        gate = asyncio.Semaphore(AT_ONCE)
        return await asyncio.gather(*(_happen(name, home / f"{n}", gate) for n, name in enumerate(CAUSES)))

    lived = dict(zip(CAUSES, asyncio.run(all_of_them()), strict=True))
    yield lived
    for story in lived.values():
        story.stage.close()


@pytest.mark.parametrize("name", CAUSES)
def test_a_cause_is_recognised_and_dealt_with(stories: dict[str, Story], name: str) -> None:
    cause, story = CAUSES[name], stories[name]
    result, screen = story.result, story.screen
    assert (result.ok, result.attempts) == (cause.attempts == 2, cause.attempts)
    assert cause.said.lower() in (result.errors[0] if result.ok else result.error).lower()
    assert cause.advice in result.error
    (told,) = screen.of("error")
    assert told.payload["error"] == cause.error
    assert screen.of("result")[0].raw.api_error_status == cause.status
    assert len(screen.of("retry")) == cause.attempts - 1


@pytest.mark.parametrize("name", [name for name, cause in CAUSES.items() if cause.attempts == 2])
def test_another_attempt_resumes_and_says_nothing_of_the_cause(stories: dict[str, Story], name: str) -> None:
    story = stories[name]
    assert {request.session for request in story.stage.requests} == {story.result.session_id}
    said = story.stage.requests[-1].talk.prompts
    assert said[0].startswith("Do it")
    assert not re.search(r"529|429|50[02]|overload|error|timed", "\n".join(said), re.IGNORECASE)


def test_a_network_that_stays_away_fails_the_step_in_clear_words(tmp_path: Path) -> None:
    (tmp_path / "space").mkdir()
    stage = Stage(RehearsalServer({"agent": [{"text": "Unheard."}]}).start(), tmp_path.resolve())
    stage.server.close()
    screen = Screen()
    result = asyncio.run(stage.runtime(resilience=TWICE).run(agent(), "Do it", on_event=screen))
    assert (result.ok, result.attempts, len(result.errors)) == (False, 1, 1)
    assert f"127.0.0.1:{stage.server.port} could not be reached for" in result.error
    assert "Check the network" in result.error
    assert "cannot be reached" in screen.of("retry")[1].text
    stage.close()


def test_behind_a_proxy_it_is_the_proxy_that_is_waited_for(tmp_path: Path) -> None:
    (tmp_path / "space").mkdir()
    stage = Stage(RehearsalServer({"agent": [{"text": "Unheard."}]}).start(), tmp_path.resolve())
    gone = RehearsalServer({"agent": [{"text": "A port that was free a moment ago."}]}).start()
    gone.close()
    behind = stage.environ(HTTP_PROXY=gone.url)
    result = asyncio.run(stage.runtime(resilience=TWICE, environ=behind).run(agent(), "Do it"))
    assert f"127.0.0.1:{gone.port} could not be reached" in result.error
    assert stage.requests == []
    past = stage.runtime(resilience=TWICE, environ={**behind, "NO_PROXY": "127.0.0.0/8"})
    assert asyncio.run(past.run(agent(), "Do it")).text == "Unheard."
    stage.close()


def test_what_the_endpoint_asks_to_wait_is_waited_by_us_as_well(tmp_path: Path) -> None:
    """The agent program retries once, after a second or more; our own delay alone would be over at once."""
    (tmp_path / "space").mkdir()
    limited = {"when": {"request": [0, 1]}, "error": "rate-limit", "headers": {"retry-after": "1"}}
    stage = Stage(RehearsalServer({"agent": [limited, {"text": "Done."}]}).start(), tmp_path.resolve())
    screen = Screen()
    spec = agent(env={"CLAUDE_CODE_MAX_RETRIES": "1"})
    runtime = stage.runtime(resilience=replace(TWICE, max_offline_wait=60.0))
    result = asyncio.run(runtime.run(spec, "Do it", on_event=screen))
    assert (result.ok, result.attempts) == (True, 2)
    (retry,) = screen.of("retry")
    waited = re.search(r"in ([\d.]+) s", retry.text)
    assert waited is not None
    assert float(waited[1]) >= 1
    stage.close()
