"""The guards: what each role is kept from, and what the denial says."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from flower_core.agent import AgentSpec, Worker
from flower_core.guards import ACTING_TOOLS, PATH_FIELDS, delegate, index, isolate, paths, rules_for, whitelist
from flower_core.hook_input import Guard
from flower_core.texts import texts_for
from flower_core.workbench import Workbench
from tests.repositories import git, repository

HERE = Path(__file__).parent


def call(tool: str, *, agent_id: str | None = None, cwd: Path | None = None, **given: Any) -> dict[str, Any]:
    hook: dict[str, Any] = {"hook_event_name": "PreToolUse", "tool_name": tool, "tool_input": given}
    if agent_id is not None:
        hook["agent_id"] = agent_id
    if cwd is not None:
        hook["cwd"] = str(cwd)
    return hook


def reason(answer: dict[str, Any]) -> str:
    """The reason of a denial, checked for its exact shape."""
    assert list(answer) == ["hookSpecificOutput"]
    inner = answer["hookSpecificOutput"]
    assert inner["hookEventName"] == "PreToolUse"
    assert inner["permissionDecision"] == "deny"
    assert set(inner) == {"hookEventName", "permissionDecision", "permissionDecisionReason"}
    assert isinstance(inner["permissionDecisionReason"], str)
    return inner["permissionDecisionReason"]


# whitelist


def test_whitelist_denies_acting_tools_that_are_not_listed() -> None:
    guard = whitelist(["Read", "Bash"], "en")
    assert guard(call("Bash", command="rm x")) == {}
    for tool in ("Write", "Edit", "NotebookEdit"):
        assert tool in reason(guard(call(tool, file_path="x")))


def test_whitelist_says_that_it_is_intended_and_where_the_result_goes() -> None:
    said = reason(whitelist([], "en")(call("Write")))
    assert "intended" in said
    assert "reply" in said
    assert "有意" in reason(whitelist([], "zh")(call("Write")))


def test_whitelist_has_no_opinion_on_other_tools_and_other_threads() -> None:
    guard = whitelist([], "en")
    assert [guard(call(tool)) for tool in ("Read", "Agent", "Grep", "mcp__human__ask")] == [{}] * 4
    assert guard(call("Write", agent_id="a1")) == {}
    assert guard({}) == {}


def test_whitelist_takes_a_tool_with_a_pattern_as_listed() -> None:
    assert whitelist(["Bash(git:*)"], "en")(call("Bash", command="git push")) == {}


# delegate


def test_delegate_denies_every_acting_tool_of_the_main_thread() -> None:
    guard = delegate(False, HERE, "en")
    for tool in ACTING_TOOLS:
        assert "Agent" in reason(guard(call(tool, command="git status")))
        assert guard(call(tool, agent_id="a1", command="rm x")) == {}
    assert guard(call("Agent", prompt="do it")) == {}


def test_delegate_with_glance_lets_looks_pass_and_nothing_else() -> None:
    guard = delegate(True, HERE, "en")
    assert passed(guard(call("Bash", command="cat a.py | head -5"))) == "cat a.py | head -5"
    assert "intended" in reason(guard(call("Bash", command="git commit -m x")))
    assert reason(guard(call("Write", file_path="x")))
    assert guard(call("Bash", command="git commit", agent_id="a1")) == {}


def passed(answer: dict[str, Any]) -> str:
    """The command that is run in place of the one that was asked for."""
    inner = answer["hookSpecificOutput"]
    assert set(inner) == {"hookEventName", "updatedInput"}
    return str(inner["updatedInput"]["command"])


def test_a_git_that_looks_is_kept_from_starting_programs(tmp_path: Path) -> None:
    guard = delegate(True, tmp_path, "en")
    command = passed(guard(call("Bash", command="ls && git diff HEAD | wc -l")))
    assert command.startswith("ls && GIT_OPTIONAL_LOCKS=0 ")
    assert command.endswith(" git diff --no-ext-diff --no-textconv --ignore-submodules=dirty HEAD | wc -l")


def test_the_filters_of_the_repository_the_call_is_made_in_are_switched_off(tmp_path: Path) -> None:
    inner = repository(tmp_path / "inner")
    git(inner, "config", "filter.od=d.x.clean", "rm -rf .")
    guard = delegate(True, tmp_path, "en")
    assert "filter.od=d.x.clean" in passed(guard(call("Bash", cwd=inner, command="git status")))
    assert "filter" not in passed(guard(call("Bash", command="git status")))
    assert "filter" not in passed(guard(call("Bash", cwd=tmp_path / "gone", command="git status")))


@pytest.mark.parametrize(
    ("asked", "given"), [(None, 60_000), (5_000, 5_000), (600_000, 60_000), (0, 60_000), ("long", 60_000)]
)
def test_a_look_has_a_minute_at_most(asked: object, given: int) -> None:
    answer = delegate(True, HERE, "en")(call("Bash", command="cat pipe", description="Look", timeout=asked))
    expected = {"command": "cat pipe", "description": "Look", "timeout": given}
    assert answer["hookSpecificOutput"]["updatedInput"] == expected


@pytest.mark.parametrize(
    "given", [{}, {"command": None}, {"command": ["ls"]}, {"command": "ls", "run_in_background": True}]
)
def test_glance_refuses_what_it_cannot_judge(given: dict[str, Any]) -> None:
    assert reason(delegate(True, HERE, "en")(call("Bash", **given)))


# paths


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A workspace with links in it, next to a directory that is none of its business."""
    for name in ("ws/src", "ws/.flower", "other", "ws2"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "other/secret.txt").write_text("secret")
    (tmp_path / "ws/src/a.py").write_text("pass")
    (tmp_path / "ws/out").symlink_to(tmp_path / "other")
    (tmp_path / "ws/out.txt").symlink_to(tmp_path / "other/secret.txt")
    (tmp_path / "ws/in").symlink_to("src")
    (tmp_path / "ws/loop").symlink_to("loop")
    return tmp_path


@pytest.fixture
def guard(place: Path) -> Guard:
    return paths([place / "ws"], place / "ws", "en")


@pytest.mark.parametrize(
    "path",
    ["src/a.py", "{ws}/src/a.py", "{ws}", ".", "src/../src/a.py", "in/a.py", "new/deep/file.txt", "..x", "{ws}/", ""],
)
@pytest.mark.parametrize("tool", sorted(PATH_FIELDS))
def test_paths_inside_pass(place: Path, guard: Guard, tool: str, path: str) -> None:
    assert guard(call(tool, cwd=place / "ws", **{PATH_FIELDS[tool]: path.format(ws=place / "ws")})) == {}


OUTSIDE = [
    "/etc/passwd",
    "{ws}/../other/secret.txt",
    "../other/secret.txt",
    "..",
    "src/../../other",
    "{ws}2/x",
    "{ws}2",
    "out/secret.txt",
    "out.txt",
    "out/new.txt",
    "out/new/deep.txt",
    "in/../../other/x",
    "out/../ws/src/a.py/../../../other/x",
    "out/../src/a.py",
    "~/x",
    "~",
    "~root/x",
    " /etc/passwd",
    "/etc/passwd ",
    "\ufeff/etc/passwd",
    "\n/etc/passwd",
    "/proc/self/cwd/src",
    "src/a.py\0",
    "//etc/passwd",
    "/",
]


@pytest.mark.parametrize("path", OUTSIDE)
@pytest.mark.parametrize("tool", sorted(PATH_FIELDS))
def test_paths_outside_are_denied(
    place: Path, guard: Guard, tool: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(place / "other"))
    answer = guard(call(tool, cwd=place / "ws", **{PATH_FIELDS[tool]: path.format(ws=place / "ws")}))
    assert "intended" in reason(answer)
    assert str(place / "ws") in reason(answer)


def test_a_home_directory_inside_is_inside(place: Path, guard: Guard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(place / "ws"))
    assert guard(call("Read", cwd=place / "ws", file_path="~/src/a.py")) == {}


def test_a_path_that_means_another_thing_to_another_process_is_denied(
    place: Path, guard: Guard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place / "ws")
    for path in ("/proc/self/cwd/src/a.py", "//proc/self/cwd/src/a.py", "/tmp/../proc/self/cwd/src/a.py"):
        assert reason(guard(call("Read", cwd=place / "ws", file_path=path)))


def test_a_name_is_judged_with_its_accents_composed_too(place: Path, guard: Guard) -> None:
    (place / "ws/caf\u00e9").symlink_to(place / "other")
    for path in ("caf\u00e9/secret.txt", "cafe\u0301/secret.txt"):
        assert reason(guard(call("Read", cwd=place / "ws", file_path=path)))
        assert reason(guard(call("Glob", cwd=place / "ws", path=path, pattern="*")))
    assert guard(call("Write", cwd=place / "ws", file_path="the\u0301.txt")) == {}


def test_relative_paths_count_from_the_directory_of_the_call(place: Path, guard: Guard) -> None:
    assert guard(call("Read", cwd=place / "ws/src", file_path="../src/a.py")) == {}
    assert reason(guard(call("Read", cwd=place / "other", file_path="secret.txt")))
    assert guard(call("Read", file_path="src/a.py")) == {}
    assert reason(guard(call("Read", file_path="../other/secret.txt")))


@pytest.mark.parametrize("tool", ["Glob", "Grep"])
def test_without_a_path_the_working_directory_is_meant(place: Path, guard: Guard, tool: str) -> None:
    assert guard(call(tool, cwd=place / "ws/src", pattern="x")) == {}
    assert reason(guard(call(tool, cwd=place / "other", pattern="x")))
    assert guard(call(tool, pattern="x", path=None)) == {}


@pytest.mark.parametrize(
    "pattern",
    [
        "**/*.py",
        "src/*.{py,pyi}",
        "{ws}/**",
        "*",
        "**/.{env,envrc}",
        "app/\\[id\\]/*.ts",
        "a..b/*",
        "in/*.py",
        "src/[ab].py",
    ],
)
def test_glob_patterns_inside_pass(place: Path, guard: Guard, pattern: str) -> None:
    assert guard(call("Glob", cwd=place / "ws", pattern=pattern.replace("{ws}", str(place / "ws")))) == {}


@pytest.mark.parametrize(
    "pattern",
    [
        "/etc/*",
        "/etc/passwd",
        "../*",
        "../other/**/*",
        "*/../../other/*",
        "src/*/../../../other/*",
        "{..,src}/other/*",
        "{src,..}/other/*",
        "{/etc,src}/*",
        "{src,/etc}/*",
        ".{.,x}/other/*",
        "src/{a,.}./../x",
        "~/*",
        "out/*",
        "out/**",
        "**/..",
        "\\../other/*",
        "\\.\\./other/*",
        " /etc/*",
        "*\0",
    ],
)
def test_glob_patterns_that_lead_outside_are_denied(place: Path, guard: Guard, pattern: str) -> None:
    assert reason(guard(call("Glob", cwd=place / "ws", pattern=pattern)))


def test_a_glob_pattern_counts_from_its_path(place: Path, guard: Guard) -> None:
    assert guard(call("Glob", cwd=place / "ws", path="src", pattern="../*")) == {}
    assert reason(guard(call("Glob", cwd=place / "ws", path="src", pattern="../../*")))
    assert reason(guard(call("Glob", cwd=place / "ws", path="out", pattern="*")))


@pytest.mark.parametrize("odd", [5, ["src"], {"a": 1}, True, b"src"])
def test_a_path_that_is_no_text_is_denied(place: Path, guard: Guard, odd: object) -> None:
    assert reason(guard(call("Read", cwd=place / "ws", file_path=odd)))
    assert reason(guard(call("Glob", cwd=place / "ws", pattern=odd)))


def test_paths_hold_subagents_too_and_leave_other_tools_alone(guard: Guard) -> None:
    assert reason(guard(call("Write", agent_id="a1", file_path="/etc/x")))
    assert guard(call("Bash", command="cat /etc/passwd")) == {}
    assert guard(call("WebFetch", url="https://example.org")) == {}


def test_long_outputs_that_were_put_aside_can_be_read_back_and_not_written(place: Path, guard: Guard) -> None:
    session = place.parent / "config" / "projects" / "p" / "0000-session"
    saved, other = str(session / "tool-results" / "b1.txt"), str(session / "memory")
    about = {"transcript_path": f"{session}.jsonl"}

    def asked(tool: str, path: str, **more: str) -> dict[str, Any]:
        given: dict[str, Any] = {PATH_FIELDS[tool]: path}
        return guard({**call(tool, **given), **more})

    for tool in ("Read", "Grep", "Glob"):
        assert asked(tool, saved, **about) == {}
        assert reason(asked(tool, other, **about))
        assert reason(asked(tool, saved))
    for tool in ("Write", "Edit", "NotebookEdit"):
        assert reason(asked(tool, saved, **about))


@pytest.mark.parametrize("transcript", ["", "s.jsonl", "/etc/hostname", "/.jsonl/../x", 5, None])
def test_a_transcript_that_is_none_opens_nothing(guard: Guard, transcript: object) -> None:
    assert reason(guard(call("Read", file_path="/tool-results/x") | {"transcript_path": transcript}))


def test_a_link_in_place_of_the_outputs_opens_nothing(place: Path, guard: Guard) -> None:
    session = place.parent / "session"
    session.mkdir()
    (session / "tool-results").symlink_to("/etc")
    about = {"transcript_path": f"{session}.jsonl"}
    assert reason(guard(call("Read", file_path=str(session / "tool-results" / "hostname")) | about))
    assert reason(guard(call("Read", file_path="/etc/hostname") | about))


def test_every_named_root_is_open(place: Path) -> None:
    guard = paths([place / "ws", place / "other"], place / "ws", "en")
    assert guard(call("Read", file_path=str(place / "other/secret.txt"))) == {}
    assert guard(call("Read", file_path=str(place / "ws/out/secret.txt"))) == {}


def test_a_root_behind_a_link_is_what_it_points_to_when_the_guard_is_made(place: Path) -> None:
    (place / "link").symlink_to(place / "ws")
    guard = paths([place / "link"], place / "link", "en")
    assert guard(call("Read", cwd=place / "link", file_path="src/a.py")) == {}
    assert guard(call("Read", file_path=str(place / "ws/src/a.py"))) == {}
    os.unlink(place / "link")
    (place / "link").symlink_to(place / "other")
    assert reason(guard(call("Read", file_path=str(place / "link/secret.txt"))))


# index


def test_index_is_refreshed_by_a_write_inside_the_workbench_only(place: Path) -> None:
    bench = Workbench(place / "ws", lang="en").ensure()
    guard = index(bench)
    (bench.notes / "brief.md").write_text("x")
    (place / "ws/src/b.py").write_text("x")
    assert guard(call("Write", cwd=place / "ws", file_path="src/b.py")) == {}
    assert guard(call("Read", cwd=place / "ws", file_path=".flower/notes/brief.md")) == {}
    assert "brief.md" not in bench.index_path.read_text()
    assert guard(call("Write", cwd=place / "ws", file_path=".flower/notes/brief.md")) == {}
    assert "brief.md" in bench.index_path.read_text()


def test_index_understands_absolute_paths_and_every_thread(place: Path) -> None:
    bench = Workbench(place / "ws", home=place / "bench", lang="en").ensure()
    (bench.scripts / "s.sh").write_text("# desc: counts\n")
    index(bench)(call("Edit", agent_id="a1", cwd=place / "ws", file_path=str(bench.scripts / "s.sh")))
    assert "counts" in bench.index_path.read_text()


def test_a_path_of_a_worktree_that_looks_like_the_workbenchs_is_none(place: Path) -> None:
    bench = Workbench(place / "ws", lang="en").ensure()
    (bench.notes / "brief.md").write_text("x")
    tree = place / "ws/.claude/worktrees/agent-1"
    index(bench)(call("Write", agent_id="a1", cwd=tree, file_path=".flower/notes/brief.md"))
    assert "brief.md" not in bench.index_path.read_text()


# isolate

TEAM = {"coder": Worker("Codes.", "", isolate=True), "integrator": Worker("Merges.", "")}


def dispatched(**given: Any) -> dict[str, Any]:
    """What the guard makes of a dispatch; checked for its exact shape."""
    answer = isolate(TEAM, "en")(call("Agent", **given))
    if answer:
        assert list(answer) == ["hookSpecificOutput"]
        inner = dict(answer["hookSpecificOutput"])
        assert inner.pop("hookEventName") == "PreToolUse"
        return inner
    return answer


@pytest.mark.parametrize("written", [{}, {"isolation": "remote"}, {"isolation": None}, {"isolation": ["worktree"]}])
def test_a_worker_marked_isolate_gets_a_worktree_whatever_the_model_wrote(written: dict[str, Any]) -> None:
    given = {"subagent_type": "coder", "prompt": "Do it.", **written}
    assert dispatched(**given) == {"updatedInput": {**given, "isolation": "worktree"}}


def test_a_worker_that_is_not_marked_never_gets_one() -> None:
    given = {"subagent_type": "integrator", "prompt": "Do it."}
    assert dispatched(**given, isolation="worktree") == {"updatedInput": given}
    assert dispatched(**given) == {}
    assert dispatched(subagent_type="coder", isolation="worktree") == {}


@pytest.mark.parametrize(
    "name", ["Coder", " coder", "coder\n", "co\u200bder", "general-purpose", "", None, 5, ["coder"]]
)
def test_a_worker_by_another_name_is_refused_with_the_names_there_are(name: object) -> None:
    assert "coder, integrator" in dispatched(subagent_type=name)["permissionDecisionReason"]
    assert dispatched(prompt="To nobody.")["permissionDecision"] == "deny"


def test_isolate_has_no_opinion_on_other_tools() -> None:
    assert isolate(TEAM, "en")(call("Bash", command="ls", isolation="worktree")) == {}


# which guards a specification gets


def denied(spec: AgentSpec, place: Path, hook: dict[str, Any], bench: Workbench | None = None) -> bool:
    rules = rules_for(spec, workspace=place / "ws", workbench=bench)
    return any(
        "permissionDecision" in rule.guard(hook).get("hookSpecificOutput", {})
        for rule in rules
        if rule.event == "PreToolUse" and (rule.matcher is None or hook["tool_name"] in rule.matcher.split("|"))
    )


def test_an_ordinary_agent_is_held_to_its_list_and_its_directories(place: Path) -> None:
    spec = AgentSpec("judge", allowed_tools=("Read", "Bash"), lang="en")
    assert denied(spec, place, call("Write", file_path="src/a.py"))
    assert not denied(spec, place, call("Bash", command="make test"))
    assert denied(spec, place, call("Read", file_path="/etc/passwd"))
    assert not denied(spec, place, call("Read", file_path="src/a.py"))


@pytest.mark.parametrize("with_bench", [True, False])
def test_a_coordinator_is_kept_from_acting_with_or_without_a_workbench(place: Path, with_bench: bool) -> None:
    bench = Workbench(place / "ws", lang="en").ensure() if with_bench else None
    spec = AgentSpec("boss", allowed_tools=("Agent", "Bash", "Write"), delegate_only=True, glance=True, lang="en")
    assert denied(spec, place, call("Write", file_path="src/a.py"), bench)
    assert denied(spec, place, call("Bash", command="make"), bench)
    assert not denied(spec, place, call("Bash", command="ls"), bench)
    assert not denied(spec, place, call("Write", agent_id="w", file_path="src/a.py"), bench)


def test_the_workbench_and_the_named_directories_are_open(place: Path) -> None:
    bench = Workbench(place / "ws", home=place / "bench", lang="en").ensure()
    spec = AgentSpec("x", lang="en", dirs=(str(place / "other"),))
    assert not denied(spec, place, call("Read", file_path=str(bench.notes / "a.md")), bench)
    assert denied(spec, place, call("Read", file_path=str(bench.notes / "a.md")))
    assert not denied(spec, place, call("Read", file_path=str(place / "other/secret.txt")))
    rules = rules_for(AgentSpec("x", lang="en"), workspace=place / "ws", workbench=None, roots=[place / "other"])
    assert not any(rule.guard(call("Read", file_path=str(place / "other/secret.txt"))) for rule in rules)


def test_the_index_guard_comes_with_a_workbench_only(place: Path) -> None:
    bench = Workbench(place / "ws", lang="en")
    events = [rule.event for rule in rules_for(AgentSpec("x"), workspace=place / "ws", workbench=bench)]
    assert events == ["PreToolUse", "PreToolUse", "PostToolUse"]
    assert all(rule.event == "PreToolUse" for rule in rules_for(AgentSpec("x"), workspace=place, workbench=None))


def test_both_languages_say_the_same_things() -> None:
    for topic in ("guards.", "workbench."):
        mine = [{key for key in texts_for(lang).flat() if key.startswith(topic)} for lang in ("zh", "en")]
        assert mine[0] == mine[1] != set()


def test_whoever_has_workers_dispatches_them_as_they_are_marked(place: Path) -> None:
    rules = rules_for(AgentSpec("x", lang="en", agents=TEAM), workspace=place / "ws", workbench=None)
    (rule,) = [rule for rule in rules if rule.matcher == "Agent"]
    answer = rule.guard(call("Agent", agent_id="a1", subagent_type="coder"))
    assert answer["hookSpecificOutput"]["updatedInput"]["isolation"] == "worktree"
    alone = rules_for(AgentSpec("x", lang="en"), workspace=place / "ws", workbench=None)
    assert [rule for rule in alone if rule.matcher == "Agent"] == []
