"""What scripts lean on: JSON everywhere, lines at once, and a pipe whose reader leaves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest
from click.testing import CliRunner, Result
from flower_client.cli import main
from flower_client.exits import Exit

from tests.client.scripted_run import ScriptedRun
from tests.client.scripted_server import Answer, ScriptedServer, html, refusal
from tests.support import eventually


class Script:
    """Calls flower-client as a script does."""

    def __init__(self, server: ScriptedServer, home: Path) -> None:
        self.env = {"FLOWER_URL": server.url, "XDG_CONFIG_HOME": str(home)}

    def __call__(self, *args: str) -> Result:
        return CliRunner().invoke(main, args, env={**self.env, "FLOWER_TOKEN": None})

    @contextmanager
    def piped(self, *args: str) -> Iterator[subprocess.Popen[str]]:
        """A process of its own, whose output is a pipe."""
        environ = {"PATH": os.environ["PATH"], **self.env}
        command = [sys.executable, "-m", "flower_client", *args]
        with subprocess.Popen(
            command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            yield process
            process.kill()


@pytest.fixture
def script(server: ScriptedServer, tmp_path: Path) -> Script:
    return Script(server, tmp_path)


def out(process: subprocess.Popen[str]) -> IO[str]:
    assert process.stdout is not None
    return process.stdout


def said(process: subprocess.Popen[str]) -> tuple[int, str]:
    """The exit code, and what was written to standard error."""
    assert process.stderr is not None
    return process.wait(10), process.stderr.read()


def told(result: Result) -> dict[str, Any]:
    *_, last = result.stderr.splitlines()
    found: dict[str, Any] = json.loads(last)
    return found


#: A call of every command.
CALLS = [
    ["start", "bake"],
    ["once", "what?"],
    ["runs"],
    ["show", "r1"],
    ["steps", "r1"],
    ["docs", "r1"],
    ["docs", "r1", "brief"],
    ["files", "r1"],
    ["events", "r1", "--limit", "1"],
    ["watch", "r1", "--exit-on-ask", "--tail", "1"],
    ["asks", "r1"],
    ["answer", "r1", "q1", "yes"],
    ["decline", "r1", "q1"],
    ["say", "r1", "hello"],
    ["interrupt", "r1"],
    ["oracle", "r1", "why?"],
    ["cancel", "r1"],
    ["resume", "r1"],
    ["delete", "r1"],
    ["completion", "bash"],
    ["doctor"],
]
#: Those that print the same when they are called again.
LOOKING = {"runs", "show", "steps", "docs", "files", "events", "watch", "asks", "interrupt", "completion", "doctor"}


@pytest.mark.parametrize("args", CALLS, ids=lambda args: args[0] + "".join(args[2:3]))
def test_every_command_prints_json_with_the_flag_before_or_behind_it(
    script: Script, server: ScriptedServer, run: ScriptedRun, args: list[str]
) -> None:
    def answered(answer: Answer) -> Answer:
        run.tell_oracle("because")
        return answer

    run.documents["brief"] = "# Brief"
    run.ask("q1", "Rye?")
    run.state = {"resume": "interrupted", "delete": "succeeded"}.get(args[0], run.state)
    server.faults.extend([answered] if args[0] == "oracle" else [])  # once it has been asked
    behind = script(*args, "--json")
    assert behind.stdout, behind.stderr
    for line in behind.stdout.splitlines():
        json.loads(line)
    if args[0] in LOOKING:
        assert script("--json", *args).stdout == behind.stdout


def test_no_command_is_left_out() -> None:
    assert {args[0] for args in CALLS} == set(main.list_commands(main.make_context("flower-client", ["runs"])))


@pytest.mark.parametrize(
    ("args", "error", "code"),
    [
        (["show", "r9"], "refused", Exit.REFUSED),
        (["show"], "usage", Exit.USAGE),
        (["prophet"], "usage", Exit.USAGE),
        (["answer", "r1", "q1"], "usage", Exit.USAGE),
        (["--url", "nonsense", "runs"], "usage", Exit.USAGE),
        (["--url", "http://127.0.0.1:9", "runs"], "unreachable", Exit.UNREACHABLE),
    ],
)
def test_with_json_an_error_is_the_last_line_of_standard_error(
    script: Script, run: ScriptedRun, args: list[str], error: str, code: int
) -> None:
    result = script("--json", *args)
    assert (result.exit_code, result.stdout) == (code, "")
    problem = told(result)
    assert (problem["error"], problem["exit"]) == (error, code)
    assert problem["message"]
    assert ("problem" in problem) == (error == "refused")


def test_the_document_of_a_refusal_comes_whole(script: Script, server: ScriptedServer) -> None:
    server.faults.append(refusal(403, "scope-too-small"))
    problem = told(script("--json", "runs"))
    assert (problem["error"], problem["exit"]) == ("not-allowed", Exit.NOT_ALLOWED)
    assert problem["problem"]["type"] == "scope-too-small"
    assert "larger scope" in problem["hint"]


def test_an_outage_is_told_as_json_too_and_the_events_are_whole(
    script: Script, server: ScriptedServer, run: ScriptedRun
) -> None:
    run.finish()
    server.faults.extend([html(), refusal(503, "not-ready", "0"), html()])
    result = script("events", "r1", "--json")
    assert [json.loads(line)["seq"] for line in result.stdout.splitlines()] == [1, 2]
    assert [json.loads(line)["notice"] for line in result.stderr.splitlines()] == ["outage", "outage", "back"]


def test_events_come_line_by_line_while_the_run_goes_on(script: Script, run: ScriptedRun) -> None:
    with script.piped("events", "r1", "--follow") as follower:
        assert json.loads(out(follower).readline())["text"] == "run.created"
        run.say("at once")
        assert json.loads(out(follower).readline())["text"] == "at once"
        run.finish()
        assert json.loads(out(follower).readline())["text"] == "run.finished"
        assert said(follower) == (0, "")


@pytest.mark.parametrize(
    "args", [["events", "r1", "--follow"], ["watch", "r1", "--from-start"]], ids=lambda args: args[0]
)
def test_who_follows_ends_when_nobody_reads_any_more_though_nothing_happens(
    script: Script, server: ScriptedServer, run: ScriptedRun, args: list[str]
) -> None:
    with script.piped(*args) as follower:
        assert "created" in out(follower).readline()
        eventually(lambda: len(server.asked_for("events")) > 1)  # it waits for what comes next
        out(follower).close()
        code, errors = said(follower)
        assert code == Exit.PIPE_CLOSED
        assert "Traceback" not in errors
        assert "Broken pipe" not in errors


@pytest.mark.parametrize("args", [["start"], ["watch", "r1", "--on-ask", "prompt"]], ids=lambda args: args[0])
def test_streams_that_are_closed_are_as_good_as_empty(script: Script, run: ScriptedRun, args: list[str]) -> None:
    run.finish()
    command = [sys.executable, "-m", "flower_client", *args]
    shell = ["sh", "-c", 'exec "$@" <&- >&-', "sh", *command]
    done = subprocess.run(shell, env={"PATH": os.environ["PATH"], **script.env}, capture_output=True, text=True)
    assert "Traceback" not in done.stderr
    assert done.returncode == (Exit.USAGE if args == ["start"] else Exit.DONE), done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
@pytest.mark.parametrize("args", [["runs"], ["events", "r1"], ["watch", "r1"]], ids=lambda args: args[0])
def test_a_full_disk_is_one_line_and_not_the_runs_failure(script: Script, run: ScriptedRun, args: list[str]) -> None:
    run.finish()
    command = [sys.executable, "-m", "flower_client", *args]
    environ = {"PATH": os.environ["PATH"], **script.env}
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, env=environ, stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, "Traceback" in done.stderr) == (Exit.USAGE, False), done.stderr
    said = "flower-client: the output cannot be written: No space left on device. Make room, or put it elsewhere."
    assert done.stderr.splitlines()[-1] == said


def test_a_task_that_is_no_text_is_taken_as_far_as_it_is(script: Script, server: ScriptedServer) -> None:
    result = CliRunner().invoke(
        main, ["start", "-"], input=b"bake \xff bread\n", env={**script.env, "FLOWER_TOKEN": None}
    )
    assert result.exit_code == 0, result.output
    assert server.seen[-1].body == {"task": "bake \ufffd bread"}


def test_a_command_whose_output_nobody_reads_has_done_its_work_and_ends_quietly(
    script: Script, run: ScriptedRun
) -> None:
    with script.piped("say", "r1", "hello") as process:
        out(process).close()
        assert said(process) == (Exit.PIPE_CLOSED, "")
    assert run.mail == ["hello"]
