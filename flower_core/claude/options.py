"""From an :class:`~flower_core.agent.AgentSpec` to the SDK's options: how every session is opened."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from claude_agent_sdk import AgentDefinition, ClaudeAgentOptions
from claude_agent_sdk.types import SystemPromptPreset

from flower_core.agent import AgentSpec, Worker
from flower_core.claude.environment import CONFIG_DIR, session_environment
from flower_core.claude.hooks import compile_hooks
from flower_core.guards import GuardRule, deny, rules_for
from flower_core.human import HumanChannel
from flower_core.workbench import Workbench

#: Above the largest message line met; at the SDK's own 1 MiB one large image ends a session for good.
MAX_BUFFER_BYTES = 64 << 20


@dataclass(frozen=True)
class Surroundings:
    """What all sessions of a runtime have in common."""

    workspace: Path
    config_dir: Path
    launcher: Path
    environ: Mapping[str, str]
    store: Any
    workbench: Workbench | None = None
    portable: bool = True
    spill_threshold: int | None = None
    handoff: bool = False


@dataclass(frozen=True)
class Opening:
    """How one session begins: new under ``session_id``, or as the continuation of ``resume``.

    ``fork`` gives the continuation an id of its own; ``resume_at`` cuts the history after the entry with that
    uuid. ``budget_usd`` is what this process may still spend; the agent program counts per process.
    """

    session_id: str = ""
    resume: str | None = None
    fork: bool = False
    resume_at: str | None = None
    budget_usd: float | None = None


def build_options(
    spec: AgentSpec,
    around: Surroundings,
    opening: Opening | None = None,
    *,
    stderr: Callable[[str], None] | None = None,
) -> ClaudeAgentOptions:
    """Compile ``spec`` into the SDK's options.

    The tool list is closed: what is neither the spec's own nor a worker's does not exist for the session.
    """
    opening = opening or Opening()
    tools = spec.every_tool()
    environ = _environment(spec, around, opening)
    rules = rules_for(
        spec,
        workspace=around.workspace,
        workbench=around.workbench,
        spill_threshold=around.spill_threshold,
        environ=environ,
    )
    return ClaudeAgentOptions(
        tools=[tool for tool in tools if not tool.startswith("mcp__")],
        allowed_tools=tools,
        disallowed_tools=[*spec.disallowed_tools, *_unlisted(spec, tools)],
        system_prompt=_system_prompt(spec, around),
        mcp_servers=dict(spec.mcp_servers),
        strict_mcp_config=True,
        permission_mode=spec.permission_mode,
        model=spec.model or around.environ.get("ANTHROPIC_MODEL") or None,
        effort=spec.effort,
        max_turns=spec.max_turns,
        max_budget_usd=opening.budget_usd if opening.budget_usd is not None else spec.max_budget_usd,
        agents={name: _definition(worker) for name, worker in (spec.agents or {}).items()} or None,
        hooks=compile_hooks(rules, spec.hooks) or None,
        cwd=around.workspace,
        add_dirs=_further_dirs(spec, around),
        cli_path=around.launcher,
        env=environ,
        setting_sources=[] if around.portable else None,
        verbatim_prompts=True,
        forward_subagent_text=True,
        max_buffer_size=MAX_BUFFER_BYTES,
        session_store=around.store,
        session_store_flush="eager",
        stderr=stderr,
        **_session(opening),
    )


def aside(
    options: ClaudeAgentOptions, session_id: str, *, refusal: str, replies: int, stderr: Callable[[str], None]
) -> ClaudeAgentOptions:
    """Options for a turn beside ``session_id``: on a copy of it that may only speak, without its budget.

    The session itself stays as it is. Everything the model is given before the new prompt is that of ``options`` to
    the letter, so that its prompt cache still holds. ``refusal`` is what the model is told when it calls a tool,
    ``replies`` how many replies it has in all.
    """
    sealed = compile_hooks([GuardRule("PreToolUse", None, lambda _hook: deny(refusal))])
    return replace(
        options,
        env={**options.env, CONFIG_DIR: str(_unmade(Path(options.env[CONFIG_DIR])))},
        session_id=None,
        resume=session_id,
        fork_session=True,
        resume_session_at=None,
        hooks=sealed,
        max_budget_usd=None,
        max_turns=replies,
        stderr=stderr,
    )


def _unmade(config_dir: Path) -> Path:
    """A place in ``config_dir`` that nobody knows: the config directory of a session that goes on, as we name it.

    The SDK lays such a session out in a directory of its own. Settings and credentials it copies from the one it is
    told of, with our rights and through links: from one that agents have worked in that could be any file of ours.
    """
    return config_dir / uuid.uuid4().hex


def _unlisted(spec: AgentSpec, tools: list[str]) -> list[str]:
    """The human's tools that are not on the list; a server's tools are all offered unless refused by name."""
    if "human" not in spec.mcp_servers:
        return []
    return [name for name in (HumanChannel.tool_name, HumanChannel.inbox_name) if name not in tools]


def _session(opening: Opening) -> dict[str, Any]:
    """Which session it is, as the SDK's options name it."""
    if opening.resume is None:
        return {"session_id": opening.session_id or None}
    return {"resume": opening.resume, "fork_session": opening.fork, "resume_session_at": opening.resume_at}


def _environment(spec: AgentSpec, around: Surroundings, opening: Opening) -> dict[str, str]:
    return session_environment(
        around.environ,
        config_dir=around.config_dir if opening.resume is None else _unmade(around.config_dir),
        extra={**_compaction(spec, around.handoff), **spec.env},
        tool_timeout_s=spec.tool_timeout_s,
    )


def _system_prompt(spec: AgentSpec, around: Surroundings) -> SystemPromptPreset:
    """The program's own prompt, with the instructions and the workbench's index behind it."""
    index = around.workbench.prompt_block() if around.workbench is not None and spec.workbench else ""
    return {
        "type": "preset",
        "preset": "claude_code",
        "append": "\n\n".join(filter(None, (spec.instructions, index))),
        # A resumed session would otherwise keep the first request's prompt, workbench index and all.
        "snapshot": False,
    }


def _definition(worker: Worker) -> AgentDefinition:
    return AgentDefinition(
        description=worker.description,
        prompt=worker.prompt,
        tools=list(worker.tools),
        model=worker.model,
        effort=worker.effort,
        maxTurns=worker.max_turns,
    )


def _further_dirs(spec: AgentSpec, around: Surroundings) -> list[str | Path]:
    dirs: list[str | Path] = [Path(path) for path in spec.dirs]
    if around.workbench is not None and around.workbench.external:
        dirs.append(around.workbench.root)
    return dirs


def _compaction(spec: AgentSpec, handoff: bool) -> dict[str, str]:
    if spec.compact is None:
        # A conversation that is compacted behind our back never reaches the level at which it would be handed over.
        return {"DISABLE_AUTO_COMPACT": "1"} if handoff else {}
    chosen: dict[str, str] = {}
    if spec.compact.mode != "auto":
        chosen["DISABLE_AUTO_COMPACT"] = "1"
    if spec.compact.mode == "off":
        chosen["DISABLE_COMPACT"] = "1"
    if spec.compact.window is not None:
        chosen["CLAUDE_CODE_AUTO_COMPACT_WINDOW"] = str(spec.compact.window)
    return chosen
