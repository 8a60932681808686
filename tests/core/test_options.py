"""From a specification to the SDK's options: how every session is opened."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import HookMatcher

from flower_core import AgentSpec, CompactPolicy, HumanChannel, Workbench, clarify, coordinator, judge, oracle, worker
from flower_core.claude.options import Opening, Surroundings, aside, build_options


def around(tmp_path: Path, **more: Any) -> Surroundings:
    given: dict[str, Any] = {
        "workspace": tmp_path,
        "config_dir": tmp_path / "config",
        "launcher": tmp_path / "agent",
        "environ": {"ANTHROPIC_API_KEY": "key"},
        "store": object(),
        **more,
    }
    return Surroundings(**given)


def system_prompt(options: Any) -> dict[str, Any]:
    prompt: dict[str, Any] = options.system_prompt
    return prompt


def test_the_tool_list_is_closed_and_the_same_as_what_is_allowed(tmp_path: Path) -> None:
    options = build_options(AgentSpec("Agent", allowed_tools=("Read", "Bash")), around(tmp_path))
    assert options.tools == options.allowed_tools == ["Read", "Bash"]
    assert build_options(AgentSpec("Agent", allowed_tools=()), around(tmp_path)).tools == []


def test_tools_of_the_workers_are_on_the_list_once(tmp_path: Path) -> None:
    hands = {"a": worker("A.", "", tools=("Read", "Write")), "b": worker("B.", "", tools=("Write", "Bash"))}
    options = build_options(coordinator("Lead", "", hands, glance=False), around(tmp_path))
    assert options.tools == ["Agent", "Read", "Write", "Bash"]
    agents = options.agents or {}
    assert {name: agents[name].tools for name in agents} == {"a": ["Read", "Write"], "b": ["Write", "Bash"]}


def test_mcp_tools_are_allowed_but_no_built_in_tools(tmp_path: Path) -> None:
    options = build_options(judge("Judge", HumanChannel()), around(tmp_path))
    assert options.tools == ["Read", "Glob", "Grep"]
    assert "mcp__human__ask" in options.allowed_tools
    assert options.strict_mcp_config


def test_of_the_humans_tools_only_those_on_the_list_exist(tmp_path: Path) -> None:
    channel = HumanChannel()
    assert build_options(clarify("Clarifier", channel), around(tmp_path)).disallowed_tools == ["mcp__human__inbox"]
    hands = {"coder": worker("Codes.", "")}
    assert build_options(coordinator("Lead", "", hands, channel=channel), around(tmp_path)).disallowed_tools == []
    assert build_options(oracle("Oracle"), around(tmp_path)).disallowed_tools == []


def test_a_disallowed_tool_is_on_no_list(tmp_path: Path) -> None:
    spec = AgentSpec("Agent", allowed_tools=("Read", "Bash"), disallowed_tools=("Bash",))
    options = build_options(spec, around(tmp_path))
    assert (options.tools, options.disallowed_tools) == (["Read"], ["Bash"])


def test_instructions_are_appended_to_the_programs_own_prompt_and_never_frozen(tmp_path: Path) -> None:
    options = build_options(AgentSpec("Agent", "Be brief."), around(tmp_path))
    assert system_prompt(options) == {
        "type": "preset",
        "preset": "claude_code",
        "append": "Be brief.",
        "snapshot": False,
    }


@pytest.mark.parametrize("told", [True, False])
def test_the_workbench_index_is_for_those_the_spec_says(tmp_path: Path, told: bool) -> None:
    bench = Workbench(tmp_path).ensure()
    spec = AgentSpec("Agent", "Be brief.", workbench=told)
    append = system_prompt(build_options(spec, around(tmp_path, workbench=bench)))["append"]
    assert (bench.prompt_block() in append) == told


def test_a_workbench_outside_the_workspace_is_opened_to_the_agents(tmp_path: Path) -> None:
    inside, outside = Workbench(tmp_path), Workbench(tmp_path, home=tmp_path.parent / "elsewhere")
    assert build_options(AgentSpec("Agent"), around(tmp_path, workbench=inside)).add_dirs == []
    assert build_options(AgentSpec("Agent"), around(tmp_path, workbench=outside)).add_dirs == [outside.root]
    assert build_options(AgentSpec("Agent", dirs=("/data",)), around(tmp_path)).add_dirs == [Path("/data")]


def test_text_in_a_prompt_is_text_and_a_large_line_ends_no_session(tmp_path: Path) -> None:
    options = build_options(AgentSpec("Agent"), around(tmp_path))
    assert options.verbatim_prompts
    assert options.forward_subagent_text
    assert options.max_buffer_size == 64 << 20
    assert options.session_store_flush == "eager"


@pytest.mark.parametrize(("portable", "sources"), [(True, []), (False, None)])
def test_settings_of_the_machine_stay_out_of_a_portable_runtime(
    tmp_path: Path, portable: bool, sources: list[str] | None
) -> None:
    assert build_options(AgentSpec("Agent"), around(tmp_path, portable=portable)).setting_sources == sources


def test_a_new_session_has_the_id_we_chose(tmp_path: Path) -> None:
    options = build_options(AgentSpec("Agent"), around(tmp_path), Opening("id-1"))
    assert (options.session_id, options.resume, options.fork_session) == ("id-1", None, False)


def test_a_continued_session_has_no_id_of_its_own(tmp_path: Path) -> None:
    options = build_options(AgentSpec("Agent"), around(tmp_path), Opening("id-1", "id-0", True, "entry-9"))
    assert (options.session_id, options.resume, options.fork_session) == (None, "id-0", True)
    assert options.resume_session_at == "entry-9"


def test_what_is_left_of_a_budget_beats_the_whole_of_it(tmp_path: Path) -> None:
    spec = AgentSpec("Agent", max_budget_usd=2.0, max_turns=7)
    assert build_options(spec, around(tmp_path)).max_budget_usd == 2.0
    assert build_options(spec, around(tmp_path), Opening(budget_usd=0.5)).max_budget_usd == 0.5
    assert build_options(spec, around(tmp_path)).max_turns == 7


def test_the_specs_model_beats_that_of_the_environment(tmp_path: Path) -> None:
    place = around(tmp_path, environ={"ANTHROPIC_MODEL": "theirs"})
    assert build_options(AgentSpec("Agent", model="ours"), place).model == "ours"
    assert build_options(AgentSpec("Agent"), place).model == "theirs"
    assert build_options(AgentSpec("Agent"), around(tmp_path)).model is None


@pytest.mark.parametrize(
    ("compact", "chosen"),
    [
        (None, {}),
        (CompactPolicy(), {}),
        (CompactPolicy("no_summary"), {"DISABLE_AUTO_COMPACT": "1"}),
        (CompactPolicy("off"), {"DISABLE_AUTO_COMPACT": "1", "DISABLE_COMPACT": "1"}),
        (CompactPolicy(window=100_000), {"CLAUDE_CODE_AUTO_COMPACT_WINDOW": "100000"}),
    ],
)
def test_how_a_conversation_may_shrink_is_in_the_environment(
    tmp_path: Path, compact: CompactPolicy | None, chosen: dict[str, str]
) -> None:
    env = build_options(AgentSpec("Agent", compact=compact), around(tmp_path)).env
    assert {name: value for name, value in env.items() if "COMPACT" in name} == chosen


@pytest.mark.parametrize(
    ("compact", "chosen"), [(None, {"DISABLE_AUTO_COMPACT": "1"}), (CompactPolicy(), {})], ids=["ours", "its own"]
)
def test_where_sessions_hand_over_nothing_is_compacted_unless_the_spec_says_so(
    tmp_path: Path, compact: CompactPolicy | None, chosen: dict[str, str]
) -> None:
    env = build_options(AgentSpec("Agent", compact=compact), around(tmp_path, handoff=True)).env
    assert {name: value for name, value in env.items() if "COMPACT" in name} == chosen


def test_a_turn_aside_differs_in_what_it_may_do_and_in_nothing_the_model_is_told(tmp_path: Path) -> None:
    spec = AgentSpec("Agent", "Do it.", allowed_tools=("Bash",), max_budget_usd=1.0, max_turns=90)
    options = build_options(spec, around(tmp_path), Opening("s1", budget_usd=0.5))
    beside = aside(options, "s1", refusal="Not now.", replies=3, stderr=print)
    assert (beside.resume, beside.fork_session, beside.session_id) == ("s1", True, None)
    assert (beside.max_budget_usd, beside.max_turns) == (None, 3)
    for told in ("system_prompt", "tools", "model", "mcp_servers", "agents"):
        assert getattr(beside, told) == getattr(options, told)
    assert {name for name, value in beside.env.items() if value != options.env[name]} == {"CLAUDE_CONFIG_DIR"}
    (matcher,) = (beside.hooks or {})["PreToolUse"]
    assert (matcher.matcher, matcher.on_failure) == (None, "block")


def test_of_the_config_directory_in_which_agents_have_worked_nothing_is_taken_over(tmp_path: Path) -> None:
    place = around(tmp_path)
    resumed = build_options(AgentSpec("Agent"), place, Opening(resume="s1"))
    beside = aside(build_options(AgentSpec("Agent"), place), "s1", refusal="Not now.", replies=3, stderr=print)
    named = {Path(options.env["CLAUDE_CONFIG_DIR"]) for options in (resumed, beside)}
    assert len(named) == 2
    assert all(path.parent == place.config_dir and not path.exists() for path in named)


def test_a_guard_before_a_call_refuses_when_it_breaks_and_the_specs_own_hooks_come_after(tmp_path: Path) -> None:
    own = HookMatcher(matcher="Read", hooks=[])
    spec = AgentSpec("Agent", hooks={"PreToolUse": [own], "Stop": [HookMatcher(hooks=[])]})
    hooks = build_options(spec, around(tmp_path)).hooks or {}
    *ours, last = hooks["PreToolUse"]
    assert last is own
    assert ours
    assert {matcher.on_failure for matcher in ours} == {"block"}
    assert set(hooks) == {"PreToolUse", "Stop"}


def test_every_session_starts_through_the_launcher_in_the_workspace(tmp_path: Path) -> None:
    place = around(tmp_path)
    options = build_options(replace(AgentSpec("Agent"), env={"PAINT": "blue"}), place)
    assert (options.cli_path, options.cwd) == (place.launcher, tmp_path)
    assert options.env["PAINT"] == "blue"
    assert options.env["CLAUDE_CONFIG_DIR"] == str(place.config_dir)
    assert options.env["CLAUDE_CODE_DISABLE_BACKGROUND_TASKS"] == "1"
