"""What an agent is, as data: the specification of a session and of the workers it may dispatch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

PermissionMode = Literal["default", "acceptEdits", "bypassPermissions", "plan", "dontAsk"]
Effort = Literal["low", "medium", "high", "xhigh", "max"]
CompactMode = Literal["auto", "no_summary", "off"]

READ_TOOLS: tuple[str, ...] = ("Read", "Glob", "Grep")


@dataclass(frozen=True)
class CompactPolicy:
    """How the agent program itself may shrink a long conversation.

    ``mode``: ``auto`` lets it, ``no_summary`` only drops old tool results, ``off`` forbids both.
    ``window`` is the context size in tokens it should assume; None leaves that to the model.
    Raises ValueError for an unknown mode or a window below 1000.
    """

    mode: CompactMode = "auto"
    window: int | None = None

    def __post_init__(self) -> None:
        if self.mode not in ("auto", "no_summary", "off"):
            raise ValueError(f"unknown compact mode {self.mode!r}; use auto, no_summary or off")
        if self.window is not None and self.window < 1000:
            raise ValueError(f"a window of {self.window} tokens is too small; use at least 1000")


@dataclass(frozen=True)
class HandoffPolicy:
    """When a session whose context fills up hands over to a fresh one.

    Tokens: ``window`` is the model's context window; None asks the agent program, and where that does not know either
    takes :data:`UNKNOWN_WINDOW`. ``headroom`` of it is kept free, for the answer and for writing the handoff.
    ``max_generations`` is how often one step may hand over. Raises ValueError for a window below 10,000, a negative
    headroom, and fewer than 1 generation.
    """

    enabled: bool = True
    window: int | None = None
    headroom: int = 50_000
    max_generations: int = 8

    def __post_init__(self) -> None:
        for name, lowest in (("window", 10_000), ("headroom", 0), ("max_generations", 1)):
            value = getattr(self, name)
            if value is None and name == "window":
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < lowest:
                raise ValueError(f"{name} must be a whole number from {lowest}, not {value!r}")

    @property
    def at(self) -> int:
        """The context level, in tokens, at which a session hands over."""
        return max(10_000, (self.window or UNKNOWN_WINDOW) - self.headroom)

    @property
    def warn_at(self) -> int:
        """The context level, in tokens, at which the handoff is announced."""
        return max(1_000, self.at - 20_000)


#: The context window of a model nobody knows, in tokens: that of the smallest models in use. Too small a guess hands
#: over early; too large a one runs into the model's refusal, where the session cannot even write its handoff.
UNKNOWN_WINDOW = 200_000


@dataclass(frozen=True)
class Worker:
    """A subagent the session may dispatch: what the coordinator reads (description) and what it is told (prompt).

    ``tools`` is everything it may use; ``model`` is an alias, a full id or ``inherit``; ``isolate`` has it
    work in a git worktree of its own, on a branch from the last commit.
    """

    description: str
    prompt: str
    tools: tuple[str, ...] = ("Read", "Write", "Edit", "Bash", "Glob", "Grep", "WebFetch", "WebSearch")
    model: str = "inherit"
    effort: Effort | None = None
    max_turns: int | None = None
    isolate: bool = False


@dataclass(frozen=True)
class AgentSpec:
    """One session's specification. Immutable: use :func:`dataclasses.replace` to vary it.

    Every tool the session may use is in ``allowed_tools`` (or in a worker's ``tools``); what is in neither
    does not exist for it. ``max_turns`` counts model turns of the main thread, ``max_budget_usd`` is US
    dollars per process. ``dirs`` are further directories (absolute) its file tools may touch. ``glance``
    lets a delegate-only agent run read-only looks; ``workbench`` puts the workbench index in its system
    prompt. ``hooks`` is the SDK's own mapping of event name to matchers, added after ours.
    """

    name: str
    instructions: str = ""
    allowed_tools: tuple[str, ...] | list[str] = READ_TOOLS
    disallowed_tools: tuple[str, ...] | list[str] = ()
    model: str | None = None
    effort: Effort | None = None
    max_turns: int | None = None
    max_budget_usd: float | None = None
    permission_mode: PermissionMode = "dontAsk"
    agents: Mapping[str, Worker] | None = None
    mcp_servers: Mapping[str, Any] = field(default_factory=dict)
    hooks: Mapping[str, list[Any]] | None = None
    compact: CompactPolicy | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    glance: bool = False
    workbench: bool = True
    delegate_only: bool = False
    dirs: tuple[str, ...] = ()
    lang: str = "zh"
    tool_timeout_s: float | None = 86_400.0

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("an agent needs a name")
        for label, value in (("max_turns", self.max_turns), ("max_budget_usd", self.max_budget_usd)):
            if value is not None and value <= 0:
                raise ValueError(f"{label} must be above 0, not {value}; leave it None for no limit")

    def every_tool(self) -> list[str]:
        """The closed tool list of the session: its own tools, then those of its workers, without repetition."""
        tools = dict.fromkeys(self.allowed_tools)
        for worker in (self.agents or {}).values():
            tools.update(dict.fromkeys(worker.tools))
        return [tool for tool in tools if tool not in self.disallowed_tools]
