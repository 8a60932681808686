"""What a repository must be like for workers to be isolated in it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flower_core.worktrees import check_repository, prepare_repository
from tests.repositories import git, repository


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return repository(tmp_path / "repo").resolve()


def test_the_top_of_a_repository_with_a_commit_will_do(repo: Path) -> None:
    assert check_repository(repo) == repo / ".git"
    git(repo, "checkout", "-q", "--detach")
    assert check_repository(repo) == repo / ".git"


def test_what_is_no_repository_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"needs a git repository.* is not in one; run git init"):
        check_repository(tmp_path)


def test_a_repository_without_a_commit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="needs a commit to start from"):
        check_repository(repository(tmp_path / "empty", commit=False))


def test_a_directory_within_a_repository_is_refused(repo: Path) -> None:
    (repo / "part").mkdir()
    with pytest.raises(ValueError, match=r"needs the top of a git repository.* is a directory within"):
        check_repository(repo / "part")


def test_a_linked_worktree_and_a_separate_git_directory_are_refused(repo: Path, tmp_path: Path) -> None:
    git(repo, "worktree", "add", "-q", "../linked")
    git(tmp_path, "init", "-q", "--separate-git-dir", "elsewhere.git", "apart")
    for other in (repo.parent / "linked", tmp_path.resolve() / "apart"):
        with pytest.raises(ValueError, match="needs the main checkout"):
            check_repository(other)


def test_a_bare_repository_is_refused(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--bare", "bare.git")
    with pytest.raises(ValueError, match="needs a git repository"):
        check_repository(tmp_path.resolve() / "bare.git")


def test_asking_fetches_nothing_by_a_program_that_the_repository_names(repo: Path, tmp_path: Path) -> None:
    sprung, head = tmp_path / "sprung", git(repo, "rev-parse", "HEAD").strip()
    for key, value in {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": str(tmp_path),
        "remote.origin.uploadpack": f"touch '{sprung}'; git-upload-pack",
    }.items():
        git(repo, "config", key, value)
    (repo / ".git/objects" / head[:2] / head[2:]).unlink()
    with pytest.raises(ValueError, match="needs a commit to start from"):
        check_repository(repo)
    assert not sprung.exists()


def test_without_a_git_program_it_says_so(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(repo))
    with pytest.raises(ValueError, match="no git program on the path"):
        check_repository(repo)


def test_variables_that_point_git_elsewhere_count_for_nothing(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", str(repo / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(tmp_path))
    with pytest.raises(ValueError, match="is not in one"):
        check_repository(tmp_path.resolve())


def test_no_program_of_the_repositorys_configuration_is_run(repo: Path) -> None:
    trap = repo.parent / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {repo.parent}/sprung\n")
    trap.chmod(0o755)
    for name in ("core.fsmonitor", "core.pager", "core.sshCommand", "alias.rev-parse"):
        git(repo, "config", name, str(trap))
    check_repository(repo)
    assert not (repo.parent / "sprung").exists()


def test_the_line_that_hides_worktrees_is_added_once_and_nothing_else_is_changed(repo: Path) -> None:
    exclude = repo / ".git/info/exclude"
    exclude.write_text("*.log")
    for _ in range(2):
        prepare_repository(repo)
    assert exclude.read_text() == "*.log\n/.claude/worktrees/\n"
    os.remove(exclude)
    os.rmdir(exclude.parent)
    prepare_repository(repo)
    assert exclude.read_text() == "/.claude/worktrees/\n"
    assert git(repo, "status", "--short") == ""
