"""What of the world around it an agent gets to see: variables, settings, tools, and nothing a prompt pulls in."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flower_core import AgentSpec, HumanChannel, Runtime, clarify, coordinator, judge, oracle, worker
from tests.e2e.conftest import MakeStage
from tests.e2e.stage import QUICK, Screen, agent, play

pytestmark = pytest.mark.e2e
#: What the agent program and the shell add by themselves.
_PROGRAMS_OWN = (
    *("CLAUDE", "AI_AGENT", "COREPACK_ENABLE_AUTO_PIN", "GIT_EDITOR", "NoDefaultCurrentDirectoryInExePath"),
    *("LOGNAME", "OLDPWD", "PWD", "SHELL", "SHLVL", "_"),
)
_OURS = (
    *("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "BASH_", "DISABLE_", "ENABLE_TOOL_SEARCH", "MCP_TOOL_TIMEOUT"),
    *("HOME", "LC_", "PATH", "TRACE"),
)


@pytest.mark.parametrize("role", ["main thread", "worker"])
def test_commands_see_no_variable_outside_the_list(
    staged: MakeStage, role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden-one")
    monkeypatch.setenv("DATABASE_URL", "hidden-two")
    monkeypatch.setenv("LD_PRELOAD_NOT", "hidden-three")
    look = [{"tools": [["Bash", {"command": "env > seen.txt"}]]}, {"text": "Seen."}]
    dispatch = {"subagent_type": "coder", "description": "Look", "prompt": "Look."}
    stage = staged(
        {
            "agent": look,
            "worker/coder": look,
            "coordinator": [{"tools": [["Agent", dispatch]]}, {"text": "Seen."}],
        }
    )
    lead = coordinator("Lead", "", {"coder": worker("Looks.", "", tools=("Bash",))}, lang="en", env=QUICK)
    spec = agent("Bash") if role == "main thread" else lead
    environ = stage.environ(FLOWER_TOKEN="hidden-four", GITHUB_TOKEN="hidden-five", LC_ALL="C.UTF-8")
    assert play(stage.runtime(environ=environ).run(spec, "Look")).ok
    seen = (stage.workspace / "seen.txt").read_text()
    assert "hidden-" not in seen
    names = {line.partition("=")[0] for line in seen.splitlines()}
    assert {"PATH", "HOME", "LC_ALL"} <= names
    assert {name for name in names if not name.startswith((*_PROGRAMS_OWN, *_OURS))} == set()


def test_the_specs_own_variables_arrive(staged: MakeStage) -> None:
    stage = staged({"agent": [{"tools": [["Bash", {"command": "echo $PAINT"}]]}, {"text": "Seen."}]})
    screen = Screen()
    play(stage.runtime().run(agent("Bash", env={"PAINT": "blue"}), "Look", on_event=screen))
    assert screen.of("tool_result")[0].text == "blue"


@pytest.mark.parametrize(
    "prompt", ["Read @/etc/hostname please", "/help", "/clear", "@secret.txt", "!echo hi", "# note"]
)
def test_what_reads_like_a_command_in_a_prompt_is_text(staged: MakeStage, prompt: str) -> None:
    stage = staged({"agent": [{"text": "Read."}]})
    (stage.workspace / "secret.txt").write_text("not for the model")
    result = play(stage.runtime().run(agent("Read"), prompt))
    assert (result.ok, result.text) == (True, "Read.")
    (request,) = stage.requests
    assert request.talk.prompts == [prompt]
    sent = str(request.body["messages"])
    assert "not for the model" not in sent
    assert Path("/etc/hostname").read_text().strip() not in sent.replace(prompt, "")


def tools_seen(runtime: Runtime, spec: AgentSpec, requests: Any) -> list[set[str]]:
    """The tools each request of a step offered."""
    play(runtime.run(replace(spec, env=QUICK), "Go"))
    return [{tool["name"] for tool in request.body.get("tools", [])} for request in requests()]


CHANNEL = HumanChannel(lang="en")
LOOKING = {"Read", "Glob", "Grep"}
ASK = CHANNEL.tool_name


@pytest.mark.parametrize(
    ("spec", "offered"),
    [
        (clarify("Clarifier", CHANNEL, lang="en"), {ASK, *LOOKING, "WebFetch", "WebSearch"}),
        (judge("Judge", CHANNEL, can_run=True, lang="en"), {ASK, *LOOKING, "Bash"}),
        (oracle("Oracle", lang="en"), LOOKING),
        (agent(), set()),
    ],
    ids=lambda value: value.name if isinstance(value, AgentSpec) else "",
)
def test_a_role_is_offered_exactly_its_closed_list(staged: MakeStage, spec: AgentSpec, offered: set[str]) -> None:
    stage = staged({"default": [{"text": "-"}]})
    assert tools_seen(stage.runtime(), spec, lambda: stage.requests) == [offered]


def test_the_coordinator_is_offered_its_own_and_its_workers_tools_and_a_worker_only_its_own(
    staged: MakeStage,
) -> None:
    dispatch = {"subagent_type": "coder", "description": "Work", "prompt": "Work."}
    stage = staged(
        {"coordinator": [{"tools": [["Agent", dispatch]]}, {"text": "-"}], "worker/coder": [{"text": "Done."}]}
    )
    channel = HumanChannel(lang="en")
    hands = {"coder": worker("Codes.", "", tools=("Bash", "Write", "Grep"))}
    spec = coordinator("Lead", "", hands, channel=channel, lang="en")
    lead, coder, again = tools_seen(stage.runtime(), spec, lambda: stage.requests)
    assert lead == again == {"Agent", "Read", "Bash", "Write", "Grep", channel.tool_name, channel.inbox_name}
    assert coder == {"Bash", "Write", "Grep"}


def test_a_session_knows_our_workers_and_no_other_agents(staged: MakeStage) -> None:
    stage = staged({"coordinator": [{"text": "-"}]})
    screen = Screen()
    spec = coordinator("Lead", "", {"coder": worker("Codes.", "")}, lang="en", env=QUICK)
    play(stage.runtime().run(spec, "Go", on_event=screen))
    begun = screen.of("system")[0].payload["data"]
    assert begun["agents"] == ["coder"]
    assert begun["cwd"] == str(stage.workspace)
    assert begun["permissionMode"] == "acceptEdits"


def test_settings_of_the_machine_and_the_project_are_left_out(staged: MakeStage) -> None:
    stage = staged({"agent": [{"text": "-"}]})
    for folder in (stage.home, stage.workspace):
        (folder / ".claude").mkdir()
        (folder / ".claude" / "CLAUDE.md").write_text("Always answer in rhyme.")
        (folder / ".claude" / "settings.json").write_text('{"env": {"PAINT": "red"}, "model": "rhymer"}')
    (stage.workspace / "CLAUDE.md").write_text("Always answer in rhyme.")
    play(stage.runtime().run(agent("Read"), "Go"))
    assert "rhyme" not in str(stage.requests[0].body)


def test_each_run_has_a_config_directory_of_its_own_in_its_books(staged: MakeStage) -> None:
    stage = staged({"agent": [{"text": "-"}]})
    runtimes = [stage.runtime(run_id=name) for name in ("one", "two")]
    for runtime in runtimes:
        play(runtime.run(agent(), "Go"))
    for name in ("one", "two"):
        assert list((stage.home / "books" / "config" / name / "projects").rglob("*.jsonl"))
    assert not (stage.home / ".claude").exists()
    assert list(stage.workspace.iterdir()) == []


def test_a_session_that_goes_on_gets_no_copy_of_what_an_agent_has_linked_to(staged: MakeStage) -> None:
    # Made by the server's process, such a copy would hold what only the server may read.
    names = ("settings.json", "cowork_settings.json", ".credentials.json")
    plant = "; ".join(f'ln -s "$PWD/secret.txt" "$CLAUDE_CONFIG_DIR/{name}"' for name in names)
    look = 'ls -A "$CLAUDE_CONFIG_DIR"; cat "$CLAUDE_CONFIG_DIR"/*.json'
    turns = [{"tools": [["Bash", {"command": command}]]} for command in (plant, look)]
    stage = staged({"agent": [turns[0], {"text": "Planted."}, turns[1], {"text": "Looked."}]})
    (stage.workspace / "secret.txt").write_text("not for agents")
    runtime, screen = stage.runtime(), Screen()
    first = play(runtime.run(agent("Bash"), "Plant"))
    assert len(list(runtime.run_dir.glob("config/*/*settings.json"))) == 2, "planted"
    play(runtime.run(agent("Bash"), "Look", resume=first.session_id, on_event=screen))
    (seen,) = screen.results_of("Bash")
    assert "projects" in seen.text
    assert "not for agents" not in seen.text
    assert not {*names} & set(seen.text.split())
