"""A repository whose configuration, attributes, hooks and file names are all set to do harm, and what it looks like."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.repositories import git, repository

#: Every trap, by the settings that name it. ``{}`` is the path of its program.
_SETTINGS = {
    "fsmonitor": {"core.fsmonitor": "{}"},
    "external": {"diff.external": "{}"},
    "driver": {"diff.driver.command": "{}"},
    "textconv": {"diff.words.textconv": "{}"},
    "clean": {"filter.plain.clean": "{}", "filter.plain.smudge": "{}", "filter.plain.required": "true"},
    "process": {"filter.long=odd.x.process": "{}"},
    "gpg": {"gpg.program": "{}", "log.showSignature": "true", "format.pretty": "%h %G? %s", "pretty.signed": "%GS"},
    "fetch": {
        "remote.origin.url": "ext::{} %S",
        "remote.origin.promisor": "true",
        "protocol.ext.allow": "always",
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "origin",
    },
    "hook": {"core.hooksPath": "{}s"},
    "pager": {"core.pager": "{}", "pager.log": "true", "pager.diff": "{}"},
    "alias": {"alias.status": "!{}", "alias.log": "!{}", "alias.st": "!{}"},
    "merge": {"merge.joiner.driver": "{}", "log.diffMerges": "remerge"},
    "others": {"core.sshCommand": "{}", "core.askPass": "{}", "core.editor": "{}", "credential.helper": "{}"},
    "submodule": {"status.submoduleSummary": "true", "diff.submodule": "diff", "diff.autoRefreshIndex": "true"},
}
_ATTRIBUTES = "*.drv diff=driver\n*.wrd diff=words\n*.cln filter=plain\n*.prc filter=long=odd.x\n*.mrg merge=joiner\n"
_HOOKS = ("post-index-change", "post-checkout", "reference-transaction", "pre-auto-gc", "fsmonitor-watchman")
_TRAP = """#!/bin/sh
echo {name} >> "{marks}"
[ {name} = fetch ] || exec cat
"""
#: Names that become flags, values or code to whoever is careless with them.
_ODD_NAMES = (
    "--output=x",
    "-delete",
    "-exec",
    "-f",
    "--pre=x",
    "a\nb",
    "$(id)",
    "; id",
    "[a]",
    "*",
    "-",
    "é ü",
    "{a,b}",
)


@dataclass(frozen=True)
class TrappedRepository:
    """The directory ``home`` with the repository ``home/repo``; what springs a trap leaves its name in ``sprung``."""

    home: Path

    @property
    def repo(self) -> Path:
        return self.home / "repo"

    def run(self, command: str, seconds: float = 20.0) -> int:
        """The exit code of ``command``, run by bash as the agent program runs one: without a terminal or input."""
        environ = {"PATH": os.environ["PATH"], "HOME": str(self.home), "LANG": "C.UTF-8"}
        shell = ["bash", "--noprofile", "--norc", "-c", command]
        done = subprocess.run(
            shell, cwd=self.repo, env=environ, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds
        )
        return done.returncode

    def sprung(self) -> set[str]:
        """The names of the traps that went off, of which nothing is known afterwards."""
        marks = self.home / "sprung"
        found = set(marks.read_text().split()) if marks.exists() else set()
        marks.unlink(missing_ok=True)
        return found

    def snapshot(self) -> dict[str, tuple[object, ...]]:
        """Every name below ``home`` with mode, time and contents; a look may change none of it."""
        found: dict[str, tuple[object, ...]] = {}
        for parent, directories, files in os.walk(self.home):
            for name in (*directories, *files, "."):
                path = os.path.join(parent, name)
                info = os.lstat(path)
                found[path] = (info.st_mode, info.st_mtime_ns, info.st_size, _contents(path))
        return found


def _contents(path: str) -> str:
    if os.path.islink(path):
        return os.readlink(path)
    if os.path.isdir(path):
        return ""
    with open(path, "rb") as file:
        return hashlib.blake2b(file.read()).hexdigest()


def trapped_repository(home: Path) -> TrappedRepository:
    """Make one in ``home``. Every trap is armed; nothing has sprung."""
    repo = repository(home / "repo")
    (repo / ".gitattributes").write_text(_ATTRIBUTES)
    for name in ("a.txt", "b.drv", "c.wrd", "d.cln", "e.prc", "f.mrg", "src/a.py", "src/b.txt"):
        (repo / name).parent.mkdir(exist_ok=True)
        (repo / name).write_text(f"{name}: needle\n")
    inner = repository(home / "inner")
    git(repo, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "sub")
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "More")
    (repo / "a.txt").write_text("once more\n")
    git(repo, "commit", "-q", "-a", "-m", "Again")
    git(repo, "checkout", "-q", "-b", "side")
    for branch in ("side", "main"):
        git(repo, "checkout", "-q", branch)
        (repo / "f.mrg").write_text(f"as {branch} has it\n")
        git(repo, "commit", "-q", "-a", "-m", f"On {branch}")
    git(repo, "merge", "-q", "--strategy", "ours", "-m", "Both", "side")
    _sign(repo)
    lost = git(repo, "rev-parse", "HEAD~3:a.txt").strip()
    (repo / ".git/objects" / lost[:2] / lost[2:]).unlink()  # a partial clone has not got it yet
    for name in _ODD_NAMES:
        (repo / name).write_text("odd\n")
    (repo / "loop").symlink_to(".")
    (repo / "out").symlink_to(home)
    (repo / "gone").symlink_to("nowhere")
    _arm(home, repo)
    return TrappedRepository(home)


def _sign(repo: Path) -> None:
    """Give the last commit something that looks like a signature."""
    commit = git(repo, "cat-file", "commit", "HEAD")
    head, _, message = commit.partition("\n\n")
    seal = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----"
    environ = {"PATH": os.environ["PATH"], "HOME": str(repo)}
    made = subprocess.run(
        ["git", "hash-object", "-t", "commit", "-w", "--stdin"],
        cwd=repo,
        env=environ,
        input=f"{head}\n{seal}\n\n{message}".encode(),
        capture_output=True,
        check=True,
    )
    git(repo, "reset", "-q", "--soft", made.stdout.decode().strip())


def _arm(home: Path, repo: Path) -> None:
    traps = home / "traps"
    (traps / "hooks").mkdir(parents=True)
    for trap in (*_SETTINGS, *(f"hooks/{hook}" for hook in _HOOKS)):
        program = traps / trap
        if not program.is_dir():
            program.write_text(_TRAP.format(name=trap.partition("/")[0], marks=home / "sprung"))
            program.chmod(0o755)
    (traps / "within").write_text((traps / "fsmonitor").read_text().replace("fsmonitor", "within"))
    (traps / "within").chmod(0o755)
    for name in ("core.fsmonitor", "diff.external"):
        git(repo / "sub", "config", name, str(traps / "within"))
    (repo / "sub" / "README").write_text("changed\n")
    git(repo / "sub", "commit", "-q", "-a", "-m", "Inside", "--no-verify")
    (home / "sprung").unlink(missing_ok=True)
    for name in ("b.drv", "c.wrd"):
        (repo / name).write_text("changed\n")
    for name in ("d.cln", "e.prc", "src/a.py"):  # as they were, but git has to look to know
        os.utime(repo / name, (1_600_000_000, 1_600_000_000))
    for trap, settings in _SETTINGS.items():
        for key, value in settings.items():
            _set(repo, key, value.format(traps / trap))
    shutil.copy(repo / ".git/config", home / ".gitconfig")
    _trace(home)


def _set(repo: Path, key: str, value: str) -> None:
    """As ``git config`` does, which would no longer run here."""
    section, _, name = key.rpartition(".")
    head, dot, sub = section.partition(".")
    quoted = sub.replace('"', '\\"')
    with (repo / ".git/config").open("a") as file:
        file.write(f'[{head}{f" {chr(34)}{quoted}{chr(34)}" if dot else ""}]\n\t{name} = "{value}"\n')


def _trace(home: Path) -> None:
    with (home / ".gitconfig").open("a") as file:
        file.write(f"[trace2]\n\tnormalTarget = {home}/trace\n\teventTarget = {home}/trace\n")


#: A look that springs each trap when it is run as it stands.
SPRINGS: Mapping[str, str] = {
    "fsmonitor": "git status",
    "external": "git diff -- b.drv c.wrd",
    "driver": "git diff -- b.drv",
    "textconv": "git log -p -- c.wrd",
    "clean": "git status --short",
    "process": "git status --short",
    "gpg": "git log -1",
    "fetch": "git show HEAD~3:a.txt",
    "merge": "git log -m -p",
    "hooks": "git status",
    "within": "git status",
}
