"""The command as scripts use it: exit codes, standard output, one clear line on standard error."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from flower_client.cli import main
from flower_client.exits import Exit

from tests.client.scripted_run import ScriptedRun
from tests.client.scripted_server import ScriptedServer, edited, html
from tests.support import eventually


class Command:
    """Runs flower-client in this process, with a configuration directory of its own."""

    def __init__(self, server: ScriptedServer, home: Path) -> None:
        self.env = {"FLOWER_URL": server.url, "XDG_CONFIG_HOME": str(home), "FLOWER_TOKEN": None}

    def __call__(self, *args: str, **env: str) -> Result:
        return CliRunner().invoke(main, args, env={**self.env, **env}, prog_name="flower-client")


@pytest.fixture
def command(server: ScriptedServer, tmp_path: Path) -> Command:
    return Command(server, tmp_path)


def lines(result: Result) -> list[Any]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_start_prints_the_run_id_and_nothing_else(command: Command, server: ScriptedServer) -> None:
    result = command("start", "bake bread", "--no-goal", "--asks", "2", "--label", "a=b=c", "--new")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "r1\n", "")
    assert server.seen[-1].body == {
        "task": "bake bread",
        "goal": False,
        "max_asks": 2,
        "labels": {"a": "b=c"},
        "new": True,
    }


def test_a_misspelt_command_comes_with_those_that_are_near(command: Command) -> None:
    misspelt = command("shwo", "r1")
    assert (misspelt.exit_code, misspelt.stdout) == (Exit.USAGE, "")
    assert "No such command 'shwo'. Did you mean 'show'?" in misspelt.stderr
    assert json.loads(command("--json", "watc").stderr)["message"] == "No such command 'watc'. Did you mean 'watch'?"
    assert "Did you mean" not in command("xyzzy").stderr


def test_white_space_around_the_address_is_none_of_it_and_within_it_is_refused(
    command: Command, server: ScriptedServer, run: ScriptedRun
) -> None:
    assert command("show", run.id, FLOWER_URL=f" {server.url}/\n").exit_code == 0
    for address in ("http://127.0.0.1:84\n20", "http://flower.\texample.org", "http://flower example.org"):
        assert command("--url", address, "runs").exit_code == Exit.USAGE


def test_start_names_a_flow_of_the_server_and_tells_it_its_parameters(command: Command, server: ScriptedServer) -> None:
    result = command("start", "look", "--flow", "fix", "--param", "topic=a=b", "--param", "depth=")
    assert result.exit_code == 0
    assert server.seen[-1].body == {"task": "look", "flow": "fix", "params": {"topic": "a=b", "depth": ""}}


def test_once_sends_its_own_fields(command: Command, server: ScriptedServer) -> None:
    result = command("once", "what?", "-i", "be brief", "-t", "Read, Bash", "-p", "plan", "-b", "0.5", "--resume", "s1")
    assert result.exit_code == 0
    assert server.seen[-1].body == {
        "flow": "once",
        "task": "what?",
        "instructions": "be brief",
        "tools": ["Read", "Bash"],
        "permission_mode": "plan",
        "budget_usd": 0.5,
        "resume": "s1",
    }


def test_every_flag_has_a_variable_and_the_flag_beats_it(command: Command, server: ScriptedServer) -> None:
    assert command("start", "x", "--rounds", "2", FLOWER_START_ROUNDS="5", FLOWER_START_LANG="zh").exit_code == 0
    assert server.seen[-1].body == {"task": "x", "rounds": 2, "lang": "zh"}


def test_of_options_that_exclude_each_other_a_flag_beats_a_variable(command: Command, run: ScriptedRun) -> None:
    run.say(*(f"line {number}" for number in range(9)))
    run.ask("q1", "Rye?", ["yes", "no"])
    assert command("answer", "r1", "q1", "sourdough", FLOWER_ANSWER_OPTION="2").exit_code == 0
    assert run.asks["q1"]["answer"] == "sourdough"
    run.ask("q2", "Salt?")
    assert command("watch", "r1", "--exit-on-ask", FLOWER_WATCH_ON_ASK="first").exit_code == Exit.AT_ASK
    run.settle("q2", "declined")
    run.finish()
    assert "line 0\n" in command("watch", "r1", "--from-start", FLOWER_WATCH_TAIL="2").stdout
    assert "line 0\n" not in command("watch", "r1", "--tail", "2", FLOWER_WATCH_FROM_START="1").stdout
    both = command("watch", "r1", FLOWER_WATCH_TAIL="2", FLOWER_WATCH_FROM_START="1")
    assert (both.exit_code, "exclude each other" in both.stderr) == (Exit.USAGE, True)


def test_start_without_a_task_needs_something_to_wake(command: Command, server: ScriptedServer) -> None:
    assert command("start").exit_code == Exit.USAGE
    assert command("start", "--workspace", "w").exit_code == 0
    assert server.seen[-1].body == {"task": "", "workspace": "w"}


def test_a_start_that_may_have_happened_says_how_to_repeat_it(command: Command, server: ScriptedServer) -> None:
    server.faults.extend([html()] * 4)
    result = command("start", "bake", "--idempotency-key", "k1")
    assert result.exit_code == Exit.UNREACHABLE
    assert "--idempotency-key k1" in result.stderr
    assert command("start", "bake", "--idempotency-key", "k1").stdout == "r1\n"
    assert len(server.runs) == 1


def test_watch_ends_with_the_verdict_the_cost_the_time_and_the_manifest(command: Command, run: ScriptedRun) -> None:
    run.append("step", "Work", {"index": 3, "total": 3, "resumed": True})
    run.append("tool_call", "ls -la", tool="Bash")
    run.append("text", "done \x1b[31mhere\x07")
    run.append("hologram", "never seen before")
    run.append("step", "Work·verdict#1")
    verdict = {"state": "achieved", "reason": "all there", "failed": []}
    run.finish(verdict=verdict, cost_usd=0.4242, num_turns=7)
    result = command("watch", "r1", "--from-start")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "· run created",
        "",
        "── 3/3 Work (resumed) ──",
        "  [Bash] ls -la",
        "done here",
        "",
        "·· Work·verdict#1",
        "",
        "verdict   achieved  all there",
        "run       succeeded",
        "cost      $0.42 in 7 turns",
        "time      4 min 05 s",
        "manifest  flower-client steps r1",
    ]


def test_watch_starts_with_the_last_fifty_events(command: Command, run: ScriptedRun) -> None:
    run.say(*(f"line {number}" for number in range(100)))
    run.finish()
    shown = command("watch", "r1").stdout
    assert "line 50\n" not in shown
    assert "line 51\n" in shown
    assert "line 0\n" in command("watch", "r1", "--from-start").stdout
    assert "line 97\n" not in command("watch", "r1", "--tail", "2").stdout
    assert "line 98\n" in command("watch", "r1", "--after", "99").stdout


@pytest.mark.parametrize(("state", "code"), [("succeeded", 0), ("failed", 1), ("cancelled", 1)])
def test_the_exit_code_says_how_the_run_ended(command: Command, run: ScriptedRun, state: str, code: int) -> None:
    run.finish(state)
    assert command("watch", "r1").exit_code == code


def test_lost_events_are_the_exit_code_at_the_end(command: Command, run: ScriptedRun) -> None:
    run.say("a", "b", "c")
    run.finish()
    run.forget_before(3)
    result = command("watch", "r1", "--from-start")
    assert result.exit_code == Exit.LOST
    assert "b\nc\n" in result.stdout
    assert "events 1 to 2 are lost" in result.stdout
    assert command("events", "r1").exit_code == Exit.LOST


def test_exit_on_ask_leaves_at_a_question_asked_long_before(command: Command, run: ScriptedRun) -> None:
    run.ask("q1", "Rye?", ["yes", "no"])
    run.say(*(["…"] * 60))
    result = command("watch", "r1", "--exit-on-ask")
    assert result.exit_code == Exit.AT_ASK
    assert "flower-client answer r1 q1 TEXT" in result.stderr


def test_exit_on_ask_passes_questions_that_are_settled(command: Command, run: ScriptedRun) -> None:
    run.ask("q1", "Rye?")
    run.settle("q1", "answered", "yes", "somebody")
    run.finish()
    assert command("watch", "r1", "--exit-on-ask").exit_code == 0


def test_on_ask_first_takes_the_first_option_and_declines_where_there_is_none(
    command: Command, run: ScriptedRun
) -> None:
    run.ask("q1", "Rye?", ["yes", "no"])
    run.ask("q2", "How long?")
    with finishing(run, when=lambda: run.asks["q2"]["state"] != "asked"):
        result = command("watch", "r1", "--on-ask", "first")
    assert result.exit_code == 0
    assert {ask["id"]: (ask["state"], ask["answer"]) for ask in run.asks.values()} == {
        "q1": ("answered", "yes"),
        "q2": ("declined", ""),
    }


def test_on_ask_decline_declines(command: Command, run: ScriptedRun) -> None:
    run.ask("q1", "Rye?", ["yes", "no"])
    with finishing(run, when=lambda: run.asks["q1"]["state"] != "asked"):
        assert command("watch", "r1", "--on-ask", "decline").exit_code == 0
    assert run.asks["q1"]["state"] == "declined"


def test_on_ask_first_without_the_right_to_answer_ends(
    command: Command, server: ScriptedServer, run: ScriptedRun
) -> None:
    server.token, server.scopes = "t", {"read"}
    run.ask("q1", "Rye?", ["yes"])
    result = command("watch", "r1", "--on-ask", "first", FLOWER_TOKEN="t")
    assert result.exit_code == Exit.NOT_ALLOWED
    assert "--scope steer" in result.stderr


def test_watch_as_json_is_the_events_and_then_the_run(command: Command, run: ScriptedRun) -> None:
    run.say("hello")
    run.finish()
    result = command("--json", "watch", "r1", "--from-start")
    assert lines(result) == [*run.events, run.to_json()]


def test_events_are_one_json_object_a_line(command: Command, run: ScriptedRun) -> None:
    run.say("a", "b\nc", "d\x1b[31m\x9b")
    result = command("events", "r1")
    assert result.exit_code == 0
    assert lines(result) == run.events
    assert "\x9b" not in result.stdout
    assert [event["seq"] for event in lines(command("events", "r1", "--after", "1", "--limit", "2"))] == [2, 3]


def test_events_can_be_followed_to_the_end(command: Command, server: ScriptedServer, run: ScriptedRun) -> None:
    run.say("a")
    with finishing(run, when=lambda: len(server.asked_for("events")) == 2):
        followed = lines(command("events", "r1", "--follow"))
    assert [event["text"] for event in followed] == ["run.created", "a", "run.finished"]


def test_json_prints_the_objects_of_the_api(command: Command, run: ScriptedRun) -> None:
    run.ask("q1", "Rye?")
    assert lines(command("--json", "show", "r1")) == [run.to_json()]
    assert lines(command("--json", "runs")) == [{"runs": [run.to_json()], "next_cursor": None}]
    assert lines(command("--json", "asks", "r1")) == [{"asks": [run.asks["q1"]]}]
    assert lines(command("--json", "answer", "r1", "q1", "yes"))[0]["ask"]["answer"] == "yes"
    assert lines(command("runs", FLOWER_JSON="1"))[0]["runs"][0]["id"] == "r1"


def test_looking_in_words(command: Command, run: ScriptedRun) -> None:
    run.ask("q1", "Rye?", ["yes", "no"])
    assert "r1   waiting  3/3 Work" in command("runs").stdout
    assert "state:             waiting\n" in command("show", "r1").stdout
    assert command("asks", "r1").stdout == "q1  asked  Rye?\n    1) yes\n    2) no\n"
    assert "Work  yes  $0.50" in command("steps", "r1").stdout


def test_a_number_is_passed_on_as_the_words_of_an_answer_and_whoever_meant_an_option_is_told(
    command: Command, run: ScriptedRun
) -> None:
    run.ask("q1", "Rye?", ["yes", "no"])
    told = command("answer", "r1", "q1", "9")
    assert (told.exit_code, told.stdout) == (0, "q1: answered\n")
    assert told.stderr == "flower-client: 9 was passed on as it is; --option N picks one of the 2 options\n"
    run.ask("q2", "How many?", ["20", "2"])
    run.ask("q3", "How many?")
    run.ask("q4", "Rye?", ["yes", "no"])
    silent = [command("answer", "r1", *words).stderr for words in (("q2", "2"), ("q3", "9"), ("q4", "--option", "2"))]
    assert silent == ["", "", ""]
    assert [ask["answer"] for ask in run.asks.values()] == ["9", "2", "9", "no"]


def test_a_question_that_was_settled_or_never_asked_comes_with_where_to_look(
    command: Command, run: ScriptedRun
) -> None:
    run.ask("q1", "Rye?")
    run.settle("q1", "answered", "yes")
    assert "`flower-client asks RUN_ID --all` shows how it was settled" in command("answer", "r1", "q1", "no").stderr
    assert "`flower-client asks RUN_ID` shows what waits" in command("answer", "r1", "q7", "no").stderr


def test_a_message_that_may_have_arrived_is_not_said_to_have_failed(
    command: Command, server: ScriptedServer, run: ScriptedRun
) -> None:
    server.faults.extend([html()] * 3)
    assert "It may have been carried out all the same." in command("say", "r1", "more salt").stderr
    assert run.mail == ["more salt"]
    server.stop()
    assert "carried out" not in command("say", "r1", "less salt").stderr


def test_steering_in_words(command: Command, run: ScriptedRun) -> None:
    run.ask("q1", "Rye?", ["yes", "no"])
    run.ask("q2", "Salt?")
    assert command("answer", "r1", "q1", "--option", "2").stdout == "q1: answered\n"
    assert command("decline", "r1", "q2", "no idea").stdout == "q2: declined\n"
    assert [ask["answer"] for ask in run.asks.values()] == ["no", "no idea"]
    assert command("say", "r1", "hello").stdout == "m1 is in the inbox\n"
    assert "half-done work" in command("interrupt", "r1", "stop").stdout
    assert run.interrupts == ["stop"]
    run.state = "interrupted"
    assert command("resume", "r1").stdout == "r1: running\n"
    assert command("cancel", "r1").stdout == "r1: cancelled\n"


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["show", "r9"], Exit.REFUSED, "flower-client: there is no run r9. `flower-client runs` lists them."),
        (["answer", "r1", "q1", "again"], Exit.REFUSED, "q1 was answered already"),
        (["resume", "r1"], Exit.REFUSED, "only an interrupted run"),
        (["start", "x", "--isolate"], Exit.REFUSED, "isolate: isolate needs a git repository"),
        (["answer", "r1", "q1"], Exit.USAGE, "either a TEXT or --option"),
        (["watch", "r1", "--tail", "3", "--after", "1"], Exit.USAGE, "exclude each other"),
        (["watch", "r1", "--show", "texts"], Exit.USAGE, "there is no 'texts'"),
        (["watch", "r1", "--exit-on-ask", "--on-ask", "first"], Exit.USAGE, "--exit-on-ask leaves"),
        (["start", "x", "--label", "oops"], Exit.USAGE, "key=value"),
        (["start", "x", "--label", "a=b", "--label", "a=c"], Exit.USAGE, "'a' is given twice"),
        (["start", "x", "--param", "=oops"], Exit.USAGE, "--param: '=oops' is not of the form key=value"),
        (["--url", "nonsense", "runs"], Exit.USAGE, "is not an http or https address"),
        (["prophet", "r1", "why?"], Exit.USAGE, "No such command"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_a_code(
    command: Command, run: ScriptedRun, args: list[str], code: int, words: str
) -> None:
    run.ask("q1", "Rye?")
    run.settle("q1", "answered", "yes")
    result = command(*args)
    assert result.exit_code == code
    assert words in result.stderr
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    if code == Exit.REFUSED:
        assert len(result.stderr.splitlines()) == 1


def test_without_a_server_the_code_is_three(command: Command, server: ScriptedServer) -> None:
    server.stop()
    for args in (["runs"], ["watch", "r1"]):
        result = command(*args)
        assert result.exit_code == Exit.UNREACHABLE
        assert "Connection refused. Is flower-server running there?" in result.stderr


def test_without_the_right_token_the_code_is_four_and_the_token_is_not_shown(
    command: Command, server: ScriptedServer, tmp_path: Path
) -> None:
    server.token = "s3cret"
    wrong = command("runs", FLOWER_TOKEN="wr0ng")
    assert (wrong.exit_code, "wr0ng" in wrong.output) == (Exit.NOT_ALLOWED, False)
    assert command("runs", FLOWER_TOKEN="s3cret").exit_code == 0
    stored = tmp_path / "flower" / "client.toml"
    stored.parent.mkdir()
    stored.write_text(f'url = "{server.url}"\ntoken = "s3cret"\n')
    stored.chmod(0o600)
    assert command("runs").exit_code == 0
    stored.chmod(0o644)
    refused = command("runs")
    assert refused.exit_code == Exit.USAGE
    assert "chmod 600" in refused.stderr
    assert "s3cret" not in refused.output


def test_a_hostile_refusal_cannot_touch_the_terminal(command: Command, server: ScriptedServer) -> None:
    def hostile(document: dict[str, Any]) -> None:
        document.update(type="x", detail="bad\x1b]0;owned\x07\n\x9b2J")

    server.faults.append(edited(hostile))
    result = command("show", "r9")
    assert result.stderr == "flower-client: bad\n"


def test_help_needs_no_server_and_names_every_variable(command: Command) -> None:
    context = main.make_context("flower-client", ["runs"])
    names = main.list_commands(context)
    assert "watch" in names
    for name in names:
        shown = command(name, "--help", FLOWER_URL="nonsense")
        assert shown.exit_code == 0
        assert "--help" in shown.stdout
        below = main.get_command(context, name)
        assert below is not None
        for option in (parameter for parameter in below.params if isinstance(parameter, click.Option)):
            variable = f"FLOWER_{name}_{option.opts[-1].removeprefix('--')}".upper().replace("-", "_")
            assert variable in "".join(shown.stdout.split()), "named after its flag"


@contextlib.contextmanager
def finishing(run: ScriptedRun, when: Callable[[], object]) -> Iterator[None]:
    """Let the run succeed as soon as ``when()`` is true."""

    def finish() -> None:
        eventually(when)
        run.finish()

    thread = threading.Thread(target=finish)
    thread.start()
    yield
    thread.join()
