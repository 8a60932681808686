"""The five roles: rule text, tools and what the guards enforce, each put together by one function.

What a role must not do is never left to its rule text: the tool list is closed, and ``delegate_only`` and the
list itself decide which guards are installed. To vary a result further, use :func:`dataclasses.replace`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypedDict, Unpack

from flower_core.agent import READ_TOOLS, AgentSpec, CompactPolicy, Effort, PermissionMode, Worker
from flower_core.human import HumanChannel
from flower_core.texts import DEFAULT_LANG, texts_for

WEB_TOOLS: tuple[str, ...] = ("WebFetch", "WebSearch")

#: What a tool call that waits for a person gets on top of the person's own time, in seconds: the channel must be
#: the one that ends the wait, for only it can tell the agent what to do without an answer.
_TOOL_TIMEOUT_MARGIN_S = 300.0


class SpecOptions(TypedDict, total=False):
    """What every role hands on to :class:`AgentSpec` unchanged."""

    model: str | None
    effort: Effort | None
    max_turns: int | None
    max_budget_usd: float | None
    disallowed_tools: Sequence[str]
    compact: CompactPolicy | None
    env: Mapping[str, str]
    hooks: Mapping[str, list[Any]] | None
    dirs: tuple[str, ...]


def coordinator(
    name: str,
    instructions: str,
    workers: Mapping[str, Worker],
    *,
    channel: HumanChannel | None = None,
    can_read: bool = True,
    glance: bool = True,
    lang: str = DEFAULT_LANG,
    permission_mode: PermissionMode = "acceptEdits",
    **options: Unpack[SpecOptions],
) -> AgentSpec:
    """An agent that reaches its goal by dispatching ``workers``, and never does the work itself.

    ``workers`` by the name it dispatches them under. ``can_read``: it may read files. ``glance``: it may run
    commands that only look. With a ``channel`` it can ask a person and look into the inbox. Raises ValueError
    without any worker, or for a worker's name that is empty or not one line.
    """
    if not workers:
        raise ValueError("a coordinator does no work itself; give it at least one worker")
    tools = ["Agent", *(["Read"] if can_read else []), *(["Bash"] if glance else [])]
    if channel is not None:
        tools += [channel.tool_name, channel.inbox_name]
    rules = ["coordinator_human" if channel is not None else "coordinator_alone"]
    if any(hand.isolate for hand in workers.values()):
        rules.append("coordinator_isolated")
    return AgentSpec(
        name,
        _instructions("coordinator", lang, instructions, *(texts_for(lang)(f"roles.{rule}") for rule in rules)),
        allowed_tools=tuple(tools),
        agents={worker_name: _named(worker_name, hand) for worker_name, hand in workers.items()},
        glance=glance,
        workbench=True,
        delegate_only=True,
        permission_mode=permission_mode,
        lang=lang,
        **_with_channel(channel),
        **_plain(options),
    )


def worker(
    description: str,
    prompt: str,
    *,
    tools: Sequence[str] = Worker.tools,
    model: str = "inherit",
    isolate: bool = False,
    discipline: bool = True,
    effort: Effort | None = None,
    max_turns: int | None = None,
    lang: str = DEFAULT_LANG,
) -> Worker:
    """A pair of hands for a coordinator: ``description`` is for the one who dispatches, ``prompt`` for the worker.

    ``discipline`` puts the rules of reporting before ``prompt``. ``max_turns`` counts its model turns. It gets no
    workbench index; the brief it is dispatched with says where the workbench is. ``isolate`` has it work in a git
    worktree of its own; what it commits there reaches the main checkout through an :func:`integrator`.
    """
    rules = "\n\n".join(
        texts_for(lang)(f"roles.{rule}") for rule in ("worker", *(("worker_isolated",) if isolate else ()))
    )
    return Worker(
        description,
        f"{rules}\n\n{prompt}".strip() if discipline else prompt,
        tools=tuple(tools),
        model=model,
        effort=effort,
        max_turns=max_turns,
        isolate=isolate,
    )


def integrator(*, model: str = "inherit", effort: Effort | None = None, lang: str = DEFAULT_LANG) -> Worker:
    """The worker that merges what isolated workers have committed into the main checkout, where it works itself."""
    texts = texts_for(lang)
    tools = ("Read", "Write", "Edit", "Bash", "Glob", "Grep")
    return worker(
        texts("roles.integrator_for"), texts("roles.integrator"), tools=tools, model=model, effort=effort, lang=lang
    )


def clarify(
    name: str,
    channel: HumanChannel,
    *,
    can_read: bool = True,
    instructions: str = "",
    lang: str = DEFAULT_LANG,
    **options: Unpack[SpecOptions],
) -> AgentSpec:
    """An agent that asks until it is clear what is wanted and writes the brief's four sections; it never works.

    ``can_read``: it may look at files and at the web, which saves questions.
    """
    return AgentSpec(
        name,
        _instructions("clarify", lang, instructions),
        allowed_tools=(channel.tool_name, *((*READ_TOOLS, *WEB_TOOLS) if can_read else ())),
        workbench=False,
        lang=lang,
        **_with_channel(channel),
        **_plain(options),
    )


def judge(
    name: str,
    channel: HumanChannel | None,
    *,
    can_run: bool = False,
    instructions: str = "",
    lang: str = DEFAULT_LANG,
    **options: Unpack[SpecOptions],
) -> AgentSpec:
    """An agent that sets the goal, or judges a round of work by what is there; it changes nothing.

    ``can_run``: it may run commands to see for itself. Without a ``channel`` it cannot ask.
    """
    asking = () if channel is None else (channel.tool_name,)
    hands = "judge_can_run" if can_run else "judge_cannot_run"
    return AgentSpec(
        name,
        _instructions("judge", lang, instructions, texts_for(lang)(f"roles.{hands}")),
        allowed_tools=(*asking, *READ_TOOLS, *(("Bash",) if can_run else ())),
        workbench=False,
        lang=lang,
        **_with_channel(channel),
        **_plain(options),
    )


def oracle(
    name: str,
    *,
    max_turns: int = 12,
    max_budget_usd: float = 0.5,
    model: str | None = None,
    effort: Effort | None = None,
    instructions: str = "",
    lang: str = DEFAULT_LANG,
) -> AgentSpec:
    """An agent that answers a question on the side from what it can read; it asks nobody and changes nothing."""
    return AgentSpec(
        name,
        _instructions("oracle", lang, instructions),
        allowed_tools=READ_TOOLS,
        model=model,
        effort=effort,
        max_turns=max_turns,
        max_budget_usd=max_budget_usd,
        workbench=True,
        lang=lang,
    )


def _instructions(role: str, lang: str, domain: str, *more: str) -> str:
    """The role's line, by which a scripted endpoint knows who is speaking, its rules, then the domain's own words."""
    texts = texts_for(lang)
    parts = [f"{role_line(role)}\n{texts(f'roles.{role}')}", *more]
    if domain.strip():
        parts.append(f"{texts('roles.domain')}\n{domain.strip()}")
    return "\n\n".join(part.strip() for part in parts)


def role_line(role: str) -> str:
    """The line every rule text starts with."""
    return f"flower-role: {role}"


def _named(name: str, hand: Worker) -> Worker:
    if not name.strip() or len(name.splitlines()) > 1:
        raise ValueError(f"{name!r} cannot be a worker's name; use one line of text")
    return replace(hand, prompt=f"{role_line(f'worker/{name}')}\n{hand.prompt}")


def _with_channel(channel: HumanChannel | None) -> dict[str, Any]:
    """The human's MCP server, and a tool timeout that leaves it to the channel to end a wait."""
    if channel is None:
        return {}
    default = AgentSpec.tool_timeout_s
    waits = channel.timeout_s
    longest = None if waits is None or default is None else max(default, waits + _TOOL_TIMEOUT_MARGIN_S)
    return {"mcp_servers": channel.mcp_servers(), "tool_timeout_s": longest}


def _plain(options: SpecOptions) -> dict[str, Any]:
    return dict(options)
