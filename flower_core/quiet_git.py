"""Running a look so that git starts no program that a configuration names, writes nothing and asks no network.

A repository can name programs in its configuration and attributes: fsmonitor, external diff, textconv, filters, merge
drivers, checkers of signatures, helpers that fetch what a partial clone lacks. A look is accepted by its text alone, so
before it runs each git in it gets variables that override those settings, and flags where there is no setting to
override. git then shows files as they are stored, submodules by their commit only, and may call a file changed that a
filter would have restored.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path

from flower_core.git_program import NO_FETCH, ask_git
from flower_core.looks import git_subcommand
from flower_core.shell import Simple, parse

_VARIABLES = {
    "GIT_OPTIONAL_LOCKS": "0",  # status would write the index
    "GIT_PAGER": "cat",
    **NO_FETCH,
    # Where to trace to may stand in the person's own configuration.
    "GIT_TRACE2": "0",
    "GIT_TRACE2_EVENT": "0",
    "GIT_TRACE2_PERF": "0",
}
_SETTINGS = {
    "core.fsmonitor": "false",
    "diff.autoRefreshIndex": "false",  # diff would write the index
    "diff.submodule": "short",  # the other forms run git within the submodule, by its configuration
    "status.submoduleSummary": "false",
    "log.diffMerges": "separate",  # "remerge" would merge anew: run merge drivers, write objects
    "log.showSignature": "false",
    # The formats that people give names to can ask for signatures, too.
    "gpg.program": "false",
    "gpg.openpgp.program": "false",
    "gpg.x509.program": "false",
    "gpg.ssh.program": "false",
}
#: What a filter is: settings that start it, and the one that makes it an error not to.
_FILTER = {"clean": "", "smudge": "", "process": "", "required": "false"}
_NO_PROGRAMS = " --no-ext-diff --no-textconv"
_NO_SUBMODULES = " --ignore-submodules=dirty"  # to find out, git would run itself within them
_FLAGS = {
    "diff": _NO_PROGRAMS + _NO_SUBMODULES,
    "log": _NO_PROGRAMS,
    "show": _NO_PROGRAMS,
    "status": _NO_SUBMODULES,
}


def quiet(
    command: str, where: Path | str, *, workspace: Path | None = None, environ: Mapping[str, str] | None = None
) -> str:
    """``command``, a look, as it is to be run in the directory ``where``. Without a git in it, it stays as it is.

    It is to be run by an agent that works in ``workspace``, with the variables ``environ``: both tell which
    configurations count. Raises ValueError when it is no look, and as :func:`~flower_core.git_program.ask_git` does.
    """
    parsed = parse(command)
    calls = [simple for simple in parsed.commands if simple.words[0].text == "git"]
    if not calls:
        return command
    before = _prefix(_filters(where, workspace, environ))
    insertions = [insertion for simple in calls for insertion in _insertions(simple, before)]
    source = parsed.source
    for at, text in sorted(insertions, reverse=True):
        source = source[:at] + text.encode() + source[at:]
    return source.decode()


def _insertions(simple: Simple, before: str) -> list[tuple[int, str]]:
    at = git_subcommand(simple.words)
    return [(simple.spans[0][0], before), (simple.spans[at][1], _FLAGS.get(simple.words[at].text, ""))]


def _filters(where: Path | str, workspace: Path | None, environ: Mapping[str, str] | None) -> list[str]:
    """The names of all filters that are configured, wherever."""
    question = ("config", "--null", "--name-only", "--get-regexp", r"^filter\.")
    try:
        listed = ask_git(where, *question, workspace=workspace, environ=environ)
    except FileNotFoundError:  # no git: the look will say so
        return []
    return sorted({key[len("filter.") :].rpartition(".")[0] for key in listed.split("\0") if key.count(".") > 1})


def _prefix(filters: Iterable[str]) -> str:
    """The assignments before a git. Settings are variables, too: so the name of a filter may hold any character."""
    settings: Mapping[str, str] = {
        **_SETTINGS,
        **{f"filter.{name}.{key}": value for name in filters for key, value in _FILTER.items()},
    }
    variables = {**_VARIABLES, "GIT_CONFIG_COUNT": str(len(settings))}
    for number, (key, value) in enumerate(settings.items()):
        variables[f"GIT_CONFIG_KEY_{number}"] = key
        variables[f"GIT_CONFIG_VALUE_{number}"] = value
    return "".join(f"{name}={shlex.quote(value)} " for name, value in variables.items())
