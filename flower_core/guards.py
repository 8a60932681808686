"""The guards: pure functions from hook input to hook output that hold an agent to its role.

A prompt is a suggestion, a hook is a wall. Each guard takes what the agent program says about a tool call and
returns ``{}`` (no opinion) or a denial that tells the model that this is intended and what to do instead. They know
nothing of the SDK; :mod:`flower_core.claude.hooks` installs them, so that a guard that breaks refuses.

The main thread is recognised by the absence of ``agent_id``. None of this confines what a program started by Bash
does: an agent that has Bash can do whatever its user may.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flower_core.agent import AgentSpec, Worker
from flower_core.hook_input import Guard, given, is_main_thread
from flower_core.output_files import OutputFiles
from flower_core.quiet_git import quiet
from flower_core.shell import is_ephemeral
from flower_core.spill import SPILLED_TOOLS, spill
from flower_core.texts import DEFAULT_LANG, texts_for
from flower_core.workbench import Workbench

#: The longest a look may take, in milliseconds: what it reads may turn out to be a pipe that nobody writes to.
LOOK_MS = 60_000
#: The tools by which an agent changes something itself.
ACTING_TOOLS = ("Bash", "Write", "Edit", "NotebookEdit")
#: The tools that name a file or directory, with the field that does; left out, the working directory is meant.
PATH_FIELDS = {
    "Read": "file_path",
    "Write": "file_path",
    "Edit": "file_path",
    "NotebookEdit": "notebook_path",
    "Grep": "path",
    "Glob": "path",
}
#: The tool that dispatches a worker.
DISPATCH = "Agent"
# Behind the first wildcard of a pattern: "..", an alternative made of dots ("{.,x}."), an alternative that is absolute.
_LEADS_OUT = re.compile(r"[/{,(|]\.\.(?=[/},)|]|$)|[{,]\.+(?=[,}/])|[{,(|]\s*[/~]")
_WRITERS = ("Write", "Edit", "NotebookEdit")


@dataclass(frozen=True)
class GuardRule:
    """A guard, the hook event it belongs to, and the tools it is asked about (``A|B``; None: every tool)."""

    event: str
    matcher: str | None
    guard: Guard


def rules_for(
    spec: AgentSpec,
    *,
    workspace: Path,
    workbench: Workbench | None,
    roots: Sequence[Path] = (),
    spill_threshold: int | None = None,
    environ: Mapping[str, str] | None = None,
) -> list[GuardRule]:
    """The guards of a session opened with ``spec``.

    Its file tools are held to ``workspace``, the workbench, the directories the spec names, and ``roots``. With a
    workbench, outputs of ``spill_threshold`` characters and more go into a file there; None or 0: none do. ``environ``
    are the variables its commands have, by default those of this process.
    """
    acting = (
        delegate(spec.glance, workspace, spec.lang, environ)
        if spec.delegate_only
        else whitelist(spec.allowed_tools, spec.lang)
    )
    bench = [] if workbench is None else [workbench.root]
    inside = [workspace, *bench, *(workspace / directory for directory in spec.dirs), *roots]
    rules = [
        GuardRule("PreToolUse", "|".join(ACTING_TOOLS), acting),
        GuardRule("PreToolUse", "|".join(PATH_FIELDS), paths(inside, workspace, spec.lang)),
    ]
    if spec.agents:
        rules.append(GuardRule("PreToolUse", DISPATCH, isolate(spec.agents, spec.lang)))
    if workbench is not None:
        rules.append(GuardRule("PostToolUse", "|".join(_WRITERS), index(workbench)))
        if spill_threshold:
            outputs = OutputFiles(workbench.spill, spec.lang)
            rules.append(GuardRule("PostToolUse", "|".join(SPILLED_TOOLS), spill(outputs, spill_threshold, spec.lang)))
    return rules


def whitelist(allowed: Iterable[str], lang: str = DEFAULT_LANG) -> Guard:
    """Deny the main thread every acting tool that is not in ``allowed`` (``Bash(git:*)`` counts as Bash)."""
    names = {name.partition("(")[0] for name in allowed}
    denied = {tool: deny(texts_for(lang)("guards.whitelist", tool=tool)) for tool in ACTING_TOOLS if tool not in names}

    def guard(hook: Mapping[str, Any]) -> dict[str, Any]:
        return denied.get(str(hook.get("tool_name")), {}) if is_main_thread(hook) else {}

    return guard


def delegate(glance: bool, cwd: Path, lang: str = DEFAULT_LANG, environ: Mapping[str, str] | None = None) -> Guard:
    """Deny the main thread every acting tool; with ``glance``, a Bash command that only looks passes.

    It runs so that git starts no program of the repository's own, and for :data:`LOOK_MS` at most; in the ``cwd`` of
    the hook input, else in ``cwd``, which is the workspace; with the variables ``environ``.
    """
    text = texts_for(lang)

    def guard(hook: Mapping[str, Any]) -> dict[str, Any]:
        tool = hook.get("tool_name")
        if tool not in ACTING_TOOLS or not is_main_thread(hook):
            return {}
        if tool != "Bash" or not glance:
            return deny(text("guards.delegate", tool=tool))
        call = given(hook)
        command = call.get("command")
        if isinstance(command, str) and not call.get("run_in_background") and is_ephemeral(command):
            look = quiet(command, _cwd(hook, cwd), workspace=cwd.absolute(), environ=environ)
            return _instead({**call, "command": look, "timeout": _look_time(call)})
        return deny(text("guards.glance"))

    return guard


def paths(roots: Sequence[Path], cwd: Path, lang: str = DEFAULT_LANG) -> Guard:
    """Hold the file tools of every thread to ``roots``, symlinks resolved.

    Relative paths are taken from the ``cwd`` of the hook input, else from ``cwd``. The roots are resolved now, so
    that none of them can be turned into a link to somewhere else later. A link that is made between this look and
    the tool's own is not seen; only somebody with Bash can make one. What the agent program has put aside of long
    outputs may be read back, too, but not written.
    """
    resolved = tuple(dict.fromkeys(os.path.realpath(root) for root in roots))
    text = texts_for(lang)

    def guard(hook: Mapping[str, Any]) -> dict[str, Any]:
        tool = hook.get("tool_name")
        if tool not in PATH_FIELDS:
            return {}
        base = _cwd(hook, cwd)
        allowed = resolved if tool in _WRITERS else (*resolved, *_saved_outputs(hook))
        for path in _named(str(tool), given(hook), base):
            if path is None or not all(_within(real, allowed) for real in _readings(path, base)):
                shown = "?" if path is None else path
                return deny(text("guards.paths", path=shown[:300], roots=", ".join(resolved)))
        return {}

    return guard


def isolate(workers: Mapping[str, Worker], lang: str = DEFAULT_LANG) -> Guard:
    """Have every worker marked ``isolate`` dispatched into a git worktree of its own, and no other one.

    Whatever the model wrote: a worker that brings branches together does it in the main checkout, or nobody sees it.
    A name that is not spelled exactly is refused: the agent program would take ``Coder`` for ``coder``.
    """
    text = texts_for(lang)

    def guard(hook: Mapping[str, Any]) -> dict[str, Any]:
        if hook.get("tool_name") != DISPATCH:
            return {}
        call = given(hook)
        name = call.get("subagent_type")
        worker = workers.get(name) if isinstance(name, str) else None
        if worker is None:
            return deny(text("guards.isolate", name=str(name)[:100], names=", ".join(workers)))
        kept = {field: value for field, value in call.items() if field != "isolation"}
        wanted = {**kept, "isolation": "worktree"} if worker.isolate else kept
        return {} if wanted == call else _instead(wanted)

    return guard


def index(workbench: Workbench) -> Guard:
    """After a file was written inside the workbench, bring its index up to date. Raises OSError."""

    def guard(hook: Mapping[str, Any]) -> dict[str, Any]:
        tool = hook.get("tool_name")
        path = given(hook).get(PATH_FIELDS[tool]) if tool in _WRITERS else None
        if isinstance(path, str) and workbench.owns(os.path.join(str(hook.get("cwd") or ""), path)):
            workbench.refresh()
        return {}

    return guard


def deny(reason: str) -> dict[str, Any]:
    """The hook output that refuses a tool call and tells the model why."""
    return {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": reason.strip(),
        }
    }


def _cwd(hook: Mapping[str, Any], default: Path) -> str:
    """The directory a call is made in."""
    told = hook.get("cwd")
    return told if isinstance(told, str) and os.path.isabs(told) else str(default.absolute())


def _look_time(call: Mapping[str, Any]) -> int:
    asked = call.get("timeout")
    return min(int(asked), LOOK_MS) if isinstance(asked, int | float) and asked > 0 else LOOK_MS


def _instead(call: Mapping[str, Any]) -> dict[str, Any]:
    """The hook output that has ``call`` made in place of what the model wrote."""
    return {"hookSpecificOutput": {"hookEventName": "PreToolUse", "updatedInput": dict(call)}}


def _named(tool: str, call: Mapping[str, Any], base: str) -> Iterator[str | None]:
    """Every path a call names; None for one that cannot be understood and is refused."""
    start = call.get(PATH_FIELDS[tool])
    if start is None:
        start = base
    yield start if _is_plain(start) else None
    if tool == "Glob" and "pattern" in call and _is_plain(start):
        pattern = call["pattern"]
        if _is_plain(pattern):
            yield from _globbed(pattern, start)
        else:
            yield None


def _saved_outputs(hook: Mapping[str, Any]) -> tuple[str, ...]:
    """The directory beside the session's transcript where outputs above 30,000 characters lie whole."""
    transcript = hook.get("transcript_path")
    if not isinstance(transcript, str) or not os.path.isabs(transcript) or not transcript.endswith(".jsonl"):
        return ()
    folder = os.path.join(os.path.realpath(transcript.removesuffix(".jsonl")), "tool-results")
    return () if os.path.islink(folder) else (folder,)


def _is_plain(path: object) -> bool:
    """Whether ``path`` is text that means the same to us and to the tool, which trims blanks and cannot take NUL."""
    return isinstance(path, str) and "\0" not in path and path == path.strip().strip("\ufeff")


def _globbed(pattern: str, start: str) -> Iterator[str | None]:
    """The path of a glob pattern as if its wildcards were names, with backslashes and without; None leads out."""
    for form in sorted({pattern, re.sub(r"\\(.)", r"\1", pattern)}):
        wildcard = re.search(r"[*?\[{(]", form)
        rest = form[wildcard.start() :] if wildcard else ""
        yield None if _LEADS_OUT.search(rest) else form if form.startswith("~") else os.path.join(start, form)


def _readings(path: str, base: str) -> set[str]:
    """Every file ``path`` may mean, symlinks resolved.

    Programs differ on whether ``link/..`` is the link's directory or its target's, on whether ``~`` is a home
    directory, and on whether accents are composed first (Unicode NFC), so each reading has to be inside.
    """
    spelled = {path, os.path.expanduser(path)}
    spelled |= {unicodedata.normalize("NFC", name) for name in spelled}
    full = {os.path.join(base, name) for name in spelled}
    return {_resolved(way) for name in full for way in (name, os.path.normpath(name))}


def _resolved(path: str) -> str:
    # What /proc/self/cwd means depends on the process that asks, so such a path stays what it is: outside.
    return path if re.match(r"/+proc(/|$)", path) else os.path.realpath(path)


def _within(path: str, roots: Sequence[str]) -> bool:
    return any(Path(path).is_relative_to(root) for root in roots)
