"""What each role may use, what its text says first, and that the texts fit the parsers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from flower_core.agent import AgentSpec
from flower_core.documents import Goal, Verdict
from flower_core.guards import rules_for
from flower_core.human import HumanChannel
from flower_core.roles import clarify, coordinator, integrator, judge, oracle, worker
from flower_core.texts import LANGUAGES, texts_for

ASK, INBOX = HumanChannel.tool_name, HumanChannel.inbox_name

Make = Callable[[str, str], AgentSpec]


def make_coordinator(lang: str, instructions: str) -> AgentSpec:
    hands = {"coder": worker("writes code", "Write code.", lang=lang)}
    return coordinator("boss", instructions, hands, channel=HumanChannel(lang=lang), lang=lang)


def make_clarify(lang: str, instructions: str) -> AgentSpec:
    return clarify("asker", HumanChannel(lang=lang), instructions=instructions, lang=lang)


def make_judge(lang: str, instructions: str) -> AgentSpec:
    return judge("judge", HumanChannel(lang=lang), instructions=instructions, lang=lang)


def make_oracle(lang: str, instructions: str) -> AgentSpec:
    return oracle("oracle", instructions=instructions, lang=lang)


ROLES: dict[str, Make] = {
    "coordinator": make_coordinator,
    "clarify": make_clarify,
    "judge": make_judge,
    "oracle": make_oracle,
}


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("role", ROLES)
def test_a_role_says_first_who_it_is_then_its_rules_then_what_the_domain_adds(role: str, lang: str) -> None:
    lines = ROLES[role](lang, "Mind the {gap}.\n").instructions.splitlines()
    assert lines[0] == f"flower-role: {role}"
    assert lines[-2:] == [texts_for(lang)("roles.domain"), "Mind the {gap}."]
    assert texts_for(lang)(f"roles.{role}").splitlines()[0] == lines[1]
    assert ROLES[role](lang, " ").lang == lang
    assert texts_for(lang)("roles.domain") not in ROLES[role](lang, " ").instructions


def test_the_coordinator_dispatches_asks_and_looks_and_its_hands_are_its_workers() -> None:
    spec = make_coordinator("en", "")
    assert spec.allowed_tools == ("Agent", "Read", "Bash", ASK, INBOX)
    assert (spec.delegate_only, spec.glance, spec.workbench, spec.permission_mode) == (True, True, True, "acceptEdits")
    hands = {"Glob", "Grep", "Write", "Edit", "WebFetch", "WebSearch"}
    assert set(spec.every_tool()) == set(spec.allowed_tools) | hands
    assert set(spec.mcp_servers) == {"human"}


def test_what_the_coordinator_is_not_given_it_does_not_have() -> None:
    hands = {"coder": worker("d", "p", tools=["Bash"])}
    spec = coordinator("boss", "", hands, can_read=False, glance=False, lang="en")
    assert (spec.allowed_tools, spec.glance, spec.mcp_servers) == (("Agent",), False, {})
    assert spec.every_tool() == ["Agent", "Bash"]
    assert texts_for("en")("roles.coordinator_alone") in spec.instructions
    assert texts_for("en")("roles.coordinator_human") not in spec.instructions


@pytest.mark.parametrize("glance", [True, False])
def test_the_delegate_guard_stands_for_every_coordinator(glance: bool, tmp_path: Path) -> None:
    spec = coordinator("boss", "", {"coder": worker("d", "p")}, glance=glance)
    [rule] = [r for r in rules_for(spec, workspace=tmp_path, workbench=None) if r.matcher and "Bash" in r.matcher]
    call = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "rm -r src"}}
    assert rule.guard(call)["hookSpecificOutput"]["permissionDecision"] == "deny"


def test_a_worker_gets_its_name_from_the_coordinator() -> None:
    hand = worker("writes code", "Write code.", lang="en", effort="high", max_turns=5)
    assert "flower-role" not in hand.prompt
    spec = coordinator("boss", "", {"coder": hand, "审校": hand}, lang="en")
    assert spec.agents is not None
    assert list(spec.agents) == ["coder", "审校"]
    assert [w.prompt.splitlines()[0] for w in spec.agents.values()] == [
        "flower-role: worker/coder",
        "flower-role: worker/审校",
    ]
    coder = spec.agents["coder"]
    assert (coder.description, coder.effort, coder.max_turns, coder.model) == ("writes code", "high", 5, "inherit")
    assert coder.prompt.endswith("Write code.")
    assert texts_for("en")("roles.worker").splitlines()[0] in coder.prompt


def test_a_worker_can_do_without_the_rules_of_reporting_and_keeps_its_mark_of_isolation() -> None:
    hand = worker("d", "Only this.", discipline=False, isolate=True)
    assert hand.prompt == "Only this."
    spec = coordinator("boss", "", {"a": hand})
    assert spec.agents is not None
    assert spec.agents["a"].isolate is True


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_rules_of_isolated_work_are_told_to_those_it_concerns(lang: str) -> None:
    text = texts_for(lang)
    hands = {"coder": worker("d", "p", isolate=True, lang=lang), "integrator": integrator(lang=lang)}
    spec = coordinator("boss", "", hands, lang=lang)
    assert spec.agents is not None
    assert text("roles.coordinator_isolated").strip() in spec.instructions
    assert text("roles.worker_isolated").strip() in spec.agents["coder"].prompt
    assert text("roles.worker_isolated").strip() not in spec.agents["integrator"].prompt
    assert text("roles.integrator").strip() in spec.agents["integrator"].prompt
    assert (spec.agents["integrator"].isolate, "Bash" in spec.agents["integrator"].tools) == (False, True)
    assert "integrator" in text("roles.coordinator_isolated")


def test_without_isolated_workers_there_are_no_such_rules() -> None:
    spec = coordinator("boss", "", {"coder": worker("d", "p", lang="en")}, lang="en")
    assert "worktree" not in spec.instructions


@pytest.mark.parametrize("name", ["", " ", "two\nlines"])
def test_a_worker_needs_a_name_of_one_line(name: str) -> None:
    with pytest.raises(ValueError, match="worker's name"):
        coordinator("boss", "", {name: worker("d", "p")})


def test_a_coordinator_without_workers_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one worker"):
        coordinator("boss", "", {})


def test_the_clarifier_can_ask_and_read_and_nothing_else() -> None:
    spec = make_clarify("en", "")
    assert spec.every_tool() == [ASK, "Read", "Glob", "Grep", "WebFetch", "WebSearch"]
    assert clarify("asker", HumanChannel(), can_read=False).every_tool() == [ASK]
    assert (spec.permission_mode, spec.workbench, spec.delegate_only) == ("dontAsk", False, False)


def test_the_judge_runs_commands_only_when_it_may_and_asks_only_where_somebody_listens() -> None:
    channel = HumanChannel(lang="en")
    assert judge("j", channel).every_tool() == [ASK, "Read", "Glob", "Grep"]
    assert judge("j", channel, can_run=True).every_tool() == [ASK, "Read", "Glob", "Grep", "Bash"]
    alone = judge("j", None, lang="en")
    assert (alone.every_tool(), alone.mcp_servers) == (["Read", "Glob", "Grep"], {})
    assert texts_for("en")("roles.judge_cannot_run") in alone.instructions
    assert texts_for("en")("roles.judge_can_run") in judge("j", channel, can_run=True, lang="en").instructions


def test_the_oracle_reads_has_brakes_and_cannot_ask() -> None:
    spec = oracle("o")
    assert spec.every_tool() == ["Read", "Glob", "Grep"]
    assert (spec.max_turns, spec.max_budget_usd, spec.workbench, spec.mcp_servers) == (12, 0.5, True, {})


def test_options_of_a_specification_are_handed_on() -> None:
    spec = clarify("asker", HumanChannel(), model="opus", max_turns=3, max_budget_usd=1.5, env={"A": "1"})
    assert (spec.model, spec.max_turns, spec.max_budget_usd, spec.env) == ("opus", 3, 1.5, {"A": "1"})


@pytest.mark.parametrize(("waits", "least"), [(1800.0, 86_400.0), (86_400.0, 86_401.0), (200_000.0, 200_001.0)])
def test_the_channel_gives_up_before_the_tool_call_does(waits: float, least: float) -> None:
    timeout = clarify("asker", HumanChannel(timeout_s=waits)).tool_timeout_s
    assert timeout is not None
    assert timeout >= least


def test_a_channel_that_waits_for_ever_gets_a_tool_call_without_a_limit() -> None:
    assert clarify("asker", HumanChannel(timeout_s=None)).tool_timeout_s is None


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_clarifier_is_told_exactly_the_four_headings_the_brief_has(lang: str) -> None:
    texts = texts_for(lang)
    headings = [line[3:] for line in make_clarify(lang, "").instructions.splitlines() if line.startswith("## ")]
    assert headings == [texts(f"documents.brief.{key}") for key in ("goal", "accept", "bounds", "unknowns")]
    assert headings[-1] in texts("roles.clarify").split("## ", 1)[0]


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_mark_and_the_conclusions_the_judge_is_told_are_the_ones_that_are_read(lang: str) -> None:
    rule = texts_for(lang)("roles.judge")
    mark = rule[rule.index("[") : rule.index("]") + 1]
    assert len(Goal(statement="x", checks=[f"It flies. {mark}", "It runs."], lang=lang).unverifiable) == 1
    for state in ("not_yet", "unreachable"):
        word = texts_for(lang)(f"documents.verdict.{state}")
        assert word.lower() in rule.lower()
        assert Verdict.parse(f"## {texts_for(lang)('documents.verdict.state')}\n{word}").state == state


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_worker_is_told_the_mark_by_which_the_workbench_describes_scripts(lang: str) -> None:
    assert "# desc:" in texts_for(lang)("roles.worker")
    assert "30" in texts_for(lang)("roles.worker")
