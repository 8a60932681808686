"""What isolated workers need of a git repository: their worktrees lie in it, and nobody should trip over them.

The agent program makes the worktree of a worker at ``<workspace>/.claude/worktrees/agent-<id>``, on a branch of its own
from the last commit of the main checkout.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from flower_core.files import append_text, read_text
from flower_core.git_program import ask_git
from flower_core.rights import awaits_owners

#: The directory of all worktrees, relative to the workspace.
WORKTREES = ".claude/worktrees"
_BEGIN = "run git init, then commit"


def check_repository(workspace: Path) -> Path:
    """The ``.git`` directory of ``workspace`` (resolved) when workers can be isolated there.

    The workspace must be the top of the main checkout of a repository: elsewhere the worktrees would lie outside it,
    where no file tool reaches. Of a workspace that is to be handed over to agents of another user, and is not yet, only
    the beginning is looked at: git is to run as that user, who has no way in. Raises ValueError, saying what is wrong
    and what to do.
    """
    if shutil.which("git") is None:
        raise ValueError("isolate needs git, and there is no git program on the path")
    if awaits_owners(workspace):
        if not (workspace / ".git").is_dir():
            raise ValueError(f"isolate needs the top of a git repository, and {workspace} is none; {_BEGIN}")
        return workspace / ".git"
    top = directory = ""
    if workspace.is_dir():
        top = ask_git(workspace, "rev-parse", "--show-toplevel")
        directory = ask_git(workspace, "rev-parse", "--git-common-dir")
    if not top:
        raise ValueError(f"isolate needs a git repository, and {workspace} is not in one; {_BEGIN}")
    if Path(top).resolve() != workspace:
        raise ValueError(f"isolate needs the top of a git repository, and {workspace} is a directory within {top}")
    git_dir = (workspace / directory).resolve()
    if git_dir != workspace / ".git":
        raise ValueError(f"isolate needs the main checkout of a git repository, and {workspace} belongs to {git_dir}")
    if not ask_git(workspace, "rev-parse", "--verify", "--quiet", "HEAD^{commit}"):
        raise ValueError(f"isolate needs a commit to start from, and the repository {workspace} has none; commit there")
    return git_dir


def prepare_repository(workspace: Path) -> None:
    """Check as :func:`check_repository`, then keep the worktrees out of what git shows as untracked.

    Adds a line to ``.git/info/exclude``, which is never committed; once. Raises ValueError, and OSError.
    """
    exclude = check_repository(workspace) / "info" / "exclude"
    line = f"/{WORKTREES}/"
    try:
        present = read_text(exclude)
    except FileNotFoundError:
        present = ""
    if line not in present.splitlines():
        append_text(exclude, ("" if not present or present.endswith("\n") else "\n") + line + "\n")
