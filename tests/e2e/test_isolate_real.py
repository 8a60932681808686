"""Isolated workers: worktrees of their own, whatever the model writes, and one who brings their branches together."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flower_core import VERDICT_KEY, AgentSpec, Workbench, coordinator, integrator, starter_flow, worker
from flower_core.workbench import beside, workbench_of
from tests.e2e.conftest import MakeStage
from tests.e2e.stage import QUICK, Screen, Stage, play
from tests.repositories import git, repository

pytestmark = pytest.mark.e2e
Tool = tuple[str, dict[str, Any]]
COMMIT = "git -c user.name=x -c user.email=x@localhost commit -q -m"


def dispatch(to: str, **more: Any) -> Tool:
    return ("Agent", {"subagent_type": to, "description": "Work", "prompt": "Do it.", **more})


def acts(*tools: Tool) -> list[dict[str, Any]]:
    return [{"tools": [list(tool) for tool in tools]}, {"text": "Enough."}]


def team() -> AgentSpec:
    """A coordinator with an isolated coder and an integrator that is not."""
    hands = {"coder": worker("Codes.", "", isolate=True, lang="en"), "integrator": integrator(lang="en")}
    return replace(coordinator("Lead", "", hands, lang="en"), env=QUICK)


def performed(stage: Stage, bench: Workbench | None = None) -> Screen:
    screen = Screen()
    result = play(stage.runtime(workbench=bench or False).run(team(), "Go", on_event=screen))
    assert (result.ok, result.error) == (True, "")
    return screen


def shown(screen: Screen, tool: str) -> list[tuple[bool, str]]:
    return [(event.payload["is_error"] is True, event.text) for event in screen.results_of(tool)]


def test_two_workers_change_one_file_and_the_judge_sees_both_changes_in_the_main_checkout(staged: MakeStage) -> None:
    stage = staged("isolate")
    repository(stage.workspace)
    flow = starter_flow(
        "Sing", workspace=stage.workspace, run_dir=stage.home / "books", isolate=True, timeout_s=0, lang="en"
    )
    screen = Screen()
    ctx = play(flow.run(stage.runtime(workbench=flow.workbench), on_event=screen))
    assert "_failed_at" not in ctx
    assert ctx[VERDICT_KEY].ok
    (read,) = [text for _, text in shown(screen, "Read")]
    assert ("First verse" in read, "Second verse" in read) == (True, True)
    assert len(git(stage.workspace, "log", "--merges", "--oneline").splitlines()) == 2
    assert "CONFLICT" in str([text for _, text in shown(screen, "Bash")])
    # Nothing is left behind: no branch, no worktree, nothing git would show.
    assert git(stage.workspace, "branch", "--list").split() == ["*", "main"]
    assert len(git(stage.workspace, "worktree", "list").splitlines()) == 1
    assert git(stage.workspace, "status", "--short") == ""
    assert {path.name for path in beside(stage.workspace).iterdir()} == {"INDEX.md", "artifacts", "notes", "scripts"}


def test_an_isolated_worker_never_works_in_the_main_checkout(staged: MakeStage) -> None:
    # The agent program itself would take the last two for the coder, and then run it in the main checkout.
    written = [{}, {"isolation": "remote"}, {"subagent_type": "Coder"}, {"subagent_type": " coder "}]
    work = acts(("Bash", {"command": "pwd; echo x > made.txt"}))
    lead = acts(*(dispatch("coder", **more) for more in written))
    stage = staged({"coordinator": lead, "worker/coder": work})
    repository(stage.workspace)
    screen = performed(stage)
    assert not (stage.workspace / "made.txt").exists()
    places = [Path(text.strip()).parent for _, text in shown(screen, "Bash")]
    assert places == [stage.workspace / ".claude/worktrees"] * 2
    refused = [text for failed, text in shown(screen, "Agent") if failed]
    assert ["coder, integrator" in text for text in refused] == [True, True]


def test_the_integrator_works_in_the_main_checkout_whatever_the_model_writes(staged: MakeStage) -> None:
    work = acts(("Bash", {"command": "pwd"}))
    lead = acts(dispatch("integrator", isolation="worktree"))
    stage = staged({"coordinator": lead, "worker/integrator": work})
    repository(stage.workspace)
    ((_, where),) = shown(performed(stage), "Bash")
    assert where.strip() == str(stage.workspace)


def test_an_isolated_worker_writes_its_own_tree_and_the_workbench_and_nothing_else(staged: MakeStage) -> None:
    stage = staged({"coordinator": acts(dispatch("coder"))})
    repository(stage.workspace)
    bench = workbench_of(stage.workspace, isolate=True, lang="en").ensure()
    script = {"file_path": str(bench.scripts / "count.py"), "content": "# desc: counts the words\n"}
    writes: list[Tool] = [
        ("Write", {"file_path": "own.txt", "content": "x"}),
        ("Write", script),
        ("Write", {"file_path": str(stage.workspace / "main.txt"), "content": "x"}),
        ("Write", {"file_path": str(stage.home / "out.txt"), "content": "x"}),
        ("Write", {"file_path": "../../../up.txt", "content": "x"}),
    ]
    commit = ("Bash", {"command": f"git add . && {COMMIT} Own && git status --short && ls"})
    stage.replay({"coordinator": acts(dispatch("coder")), "worker/coder": acts(*writes, commit)})
    screen = performed(stage, bench)
    assert [failed for failed, _ in shown(screen, "Write")] == [False, False, True, True, True]
    assert shown(screen, "Bash")[0][1].split()[-2:] == ["README", "own.txt"]
    assert "counts the words" in bench.index_path.read_text()
    assert [path.name for path in stage.workspace.iterdir() if path.name not in (".git", ".claude")] == ["README"]
    (branch,) = git(stage.workspace, "branch", "--list", "worktree-*", "--format=%(refname:short)").split()
    assert git(stage.workspace, "show", f"{branch}:own.txt") == "x"


def test_the_worktrees_are_kept_out_of_what_git_shows_and_the_line_is_written_once(staged: MakeStage) -> None:
    stage = staged({"coordinator": acts(dispatch("coder")), "worker/coder": acts(("Bash", {"command": "touch x"}))})
    repository(stage.workspace)
    (stage.workspace / ".claude").mkdir()
    (stage.workspace / ".claude" / "notes.txt").write_text("the person's own")
    for _ in range(2):
        performed(stage)
    assert len(git(stage.workspace, "worktree", "list").splitlines()) == 3
    assert git(stage.workspace, "status", "--short", "--untracked-files=all") == "?? .claude/notes.txt\n"
    exclude = (stage.workspace / ".git/info/exclude").read_text().splitlines()
    assert exclude.count("/.claude/worktrees/") == 1


def test_a_workspace_that_is_no_repository_is_refused_before_anything_happens(staged: MakeStage) -> None:
    stage = staged({"coordinator": acts(dispatch("coder"))})
    with pytest.raises(ValueError, match="isolate needs a git repository"):
        play(stage.runtime().run(team(), "Go"))
    assert stage.requests == []
