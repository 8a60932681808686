"""Asking about a run on the side, as a library and as a command."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from flower_client import BadReply, FlowerClient, OracleAnswer, Refused
from flower_client.asking import ask_and_wait
from flower_client.cli import main
from flower_client.exits import Exit

from tests.client.scripted_run import ScriptedRun
from tests.client.scripted_server import ScriptedServer, edited, html, refusal
from tests.support import eventually

Oracle = Callable[..., Result]


@pytest.fixture
def oracle(server: ScriptedServer, tmp_path: Path) -> Oracle:
    """Runs ``flower-client [FLAGS] oracle r1 QUESTION``."""
    env = {"FLOWER_URL": server.url, "XDG_CONFIG_HOME": str(tmp_path), "FLOWER_TOKEN": None}
    return lambda question, *flags: CliRunner().invoke(main, [*flags, "oracle", "r1", question], env=env)


@contextmanager
def told(run: ScriptedRun, answer: str = "", error: str = "") -> Iterator[None]:
    """The next question is settled like this, a moment after it was asked."""

    def settle() -> None:
        eventually(lambda: run.questions)
        run.tell_oracle(answer, error)

    settling = threading.Thread(target=settle)
    settling.start()
    yield
    settling.join(10)


def test_the_command_waits_for_the_answer_and_prints_it(oracle: Oracle, run: ScriptedRun) -> None:
    with told(run, "Half way.\nThe oven is hot.\x1b[31m"):
        result = oracle("How far is it?")
    assert (result.exit_code, result.stderr) == (Exit.DONE, "")
    assert result.stdout.startswith("Half way.\nThe oven is hot.")
    assert "\x1b" not in result.stdout
    assert run.questions[0]["question"] == "How far is it?"


def test_no_answer_is_told_with_its_reason_and_a_code_of_its_own(oracle: Oracle, run: ScriptedRun) -> None:
    with told(run, error="the budget is used up"):
        result = oracle("How far is it?")
    assert result.exit_code == Exit.RUN_FAILED
    assert "no answer: the budget is used up" in result.stdout


def test_with_json_it_is_the_servers_own_object(oracle: Oracle, run: ScriptedRun) -> None:
    with told(run, "Half way."):
        result = oracle("How far is it?", "--json")
    assert json.loads(result.stdout) == run.questions[0]


def test_an_oracle_that_is_busy_refuses(oracle: Oracle, run: ScriptedRun) -> None:
    run.ask_oracle("first")
    result = oracle("second")
    assert (result.exit_code, result.stdout) == (Exit.REFUSED, "")
    assert "is being answered" in result.stderr


def test_who_may_only_read_may_not_ask(oracle: Oracle, server: ScriptedServer, run: ScriptedRun) -> None:
    server.faults.append(refusal(403, "scope-too-small"))
    assert oracle("How far is it?").exit_code == Exit.NOT_ALLOWED
    assert run.mail == []


def test_the_library_asks_once_and_looks_until_there_is_an_answer(
    client: FlowerClient, server: ScriptedServer, run: ScriptedRun, sleeps: list[float]
) -> None:
    server.faults.extend([html(), html()])  # a proxy in the way: the question is repeated, and asked once

    def pause(seconds: float) -> None:
        sleeps.append(seconds)
        if len(sleeps) == 12:
            run.tell_oracle("Done.")

    found = ask_and_wait(client, "r1", "How far is it?", pause)
    assert (found.answer, found.state, found.cost_usd) == ("Done.", "answered", 0.02)
    assert len(run.questions) == 1
    looks = sleeps[2:]
    assert looks == sorted(looks)
    assert (looks[0], looks[-1]) == (0.5, 3.0)


def test_a_question_nobody_asked_and_an_answer_that_cannot_be_read(
    client: FlowerClient, server: ScriptedServer, run: ScriptedRun
) -> None:
    with pytest.raises(Refused) as refused:
        client.oracle_answer("r1", "o1")
    assert refused.value.slug == "unknown-question"
    server.faults.append(edited(lambda data: data.pop("state")))
    with pytest.raises(BadReply):
        client.oracle("r1", "Well?")


@pytest.mark.parametrize("cost", [10**400, True, "1", None])
def test_a_cost_that_no_figure_can_hold_is_none(cost: object) -> None:
    assert OracleAnswer.from_json({"id": "o1", "state": "answered", "cost_usd": cost}).cost_usd == 0.0
