"""Every setting of the server: its flag, its FLOWER_* variable, its default and what it may hold.

This is the only module that reads the environment, and env_files.py has the files behind it. A flag beats a variable,
a variable beats the files. Only secrecy.py ever changes the environment.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import platformdirs

from flower_core.texts import LANGUAGES
from flower_http import parsing
from flower_http.env_files import ENVIRONMENT, NAMED_BY, gather, masked, user_file
from flower_http.errors import SettingsError

#: Bodies above this are refused with 413; a task is text for a model, not an upload. In bytes.
MAX_BODY_BYTES = 1024 * 1024
#: Roughly what one run takes at its height, the commands of its agents not counted. In bytes; measured at 250-480 MB.
MEMORY_PER_RUN = 768 * 1024 * 1024

#: What a container may use, in bytes: control groups version 2 and 1, as seen from inside.
_MEMORY_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))

CREDENTIALS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")
#: Whatever opens the model's endpoint.
MODEL_SECRETS = (*CREDENTIALS, "ANTHROPIC_CUSTOM_HEADERS")
#: Variables that no agent's command may get to see.
SECRETS = (*MODEL_SECRETS, "FLOWER_TOKEN")
_OTHER_CLOUDS = ("CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY")
_MODEL_PREFIXES = ("ANTHROPIC_", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_SUBAGENT_MODEL")
#: Variables with our prefix that are no settings of a server: the client's, what a token reaches, the one that names
#: the file, what agents are known by.
_NOT_OURS = ("FLOWER_URL", "FLOWER_JSON", "FLOWER_SCOPE", NAMED_BY, "FLOWER_MARK")
#: The client's commands whose options have variables, such as FLOWER_WATCH_SHOW.
_CLIENT_COMMANDS = ("ANSWER", "ASKS", "EVENTS", "FILES", "ONCE", "RUNS", "START", "WATCH")
_THE_CLIENTS = tuple(f"FLOWER_{name}_" for name in _CLIENT_COMMANDS)


@dataclass(frozen=True)
class Setting:
    """One row of the table: the field of :class:`Settings` it fills, and how text becomes its value.

    ``flag`` is empty for what must not be seen in a process list. ``parse`` raises ValueError with what is wrong.
    """

    name: str
    parse: Callable[[str], Any]
    help: str
    flag: str = ""
    default: str = ""

    @property
    def variable(self) -> str:
        """The environment variable."""
        return f"FLOWER_{self.name.upper()}"


TABLE: tuple[Setting, ...] = (
    Setting("host", parsing.host, "address to listen on; any but loopback needs a token", "--host", "127.0.0.1"),
    Setting("port", parsing.between(0, 65535), "TCP port, 0 to 65535; 0 takes any free one", "--port", "8420"),
    Setting("data_dir", parsing.directory, "directory for everything the server keeps", "--data-dir", "the platform's"),
    Setting(
        "workspace_root",
        parsing.directory,
        "directory below which runs work",
        "--workspace-root",
        "`workspaces` in the data dir",
    ),
    Setting(
        "threads",
        parsing.between(1, 64),
        "threads that answer requests, 1 to 64; waiting readers take none",
        "--threads",
        "4",
    ),
    Setting(
        "max_runs", parsing.between(1, 1000), "runs at the same time, 1 to 1000", "--max-runs", "by memory, at least 1"
    ),
    Setting("queue", parsing.between(0, 100_000), "runs that may wait for their turn; 0 for none", "--queue", "100"),
    Setting(
        "ring",
        parsing.between(1, 1_000_000),
        "newest events per run kept in memory, at most 16 MiB; older ones come from the disk",
        "--ring",
        "2000",
    ),
    Setting(
        "keep_events",
        parsing.between(1, 1_000_000_000),
        "newest events kept of a run: at least so many, and up to an eighth more",
        "--keep-events",
        "all",
    ),
    Setting(
        "keep_days",
        parsing.between(1, 36_500),
        "days after which a run that has ended is deleted, with everything but its workspace",
        "--keep-days",
        "for ever",
    ),
    Setting(
        "lang", parsing.one_of(LANGUAGES), f"language of runs that name none: {', '.join(LANGUAGES)}", "--lang", "en"
    ),
    Setting(
        "flow",
        parsing.flows,
        "a flow clients may name: NAME=file.py:attr or NAME=module:attr; repeatable, in the variable separated by `;`",
        "--flow",
        "none",
    ),
    Setting(
        "agent_user",
        parsing.user_name,
        "system user that agents run as; the server has to be root",
        "--agent-user",
        "the server's",
    ),
    Setting("allow_bypass", parsing.boolean, "let `once` runs ask for bypassPermissions", "--allow-bypass", "off"),
    Setting("no_resume", parsing.boolean, "leave interrupted runs alone at start", "--no-resume", "off"),
    Setting(
        "rehearse",
        parsing.rehearse,
        "a scripted model in place of a real one; PLAY is the name of a play (without one: starter) or its file, "
        "perhaps with parameters: --rehearse=long,tasks=12,pace=0",
        "--rehearse",
        "off",
    ),
    Setting(
        "log_format", parsing.one_of(("text", "json")), "form of the log lines: text or json", "--log-format", "text"
    ),
    Setting("token", parsing.token, "one token with every scope, called env; below 16 characters it is warned about"),
)


@dataclass(frozen=True)
class Settings:
    """The settings in force, validated. Secrets stay out of ``repr``.

    ``keep_events`` and ``keep_days`` are None for no bound, ``flow`` maps names to import targets, ``rehearse`` is the
    name or path of a play or empty, ``model_env`` holds what the environment says about the model, credentials
    included, ``model_origin`` where each of that comes from, ``base_env`` the rest of it without anything of ours, and
    ``warnings`` what the operator should hear.
    """

    data_dir: Path
    workspace_root: Path
    host: str = "127.0.0.1"
    port: int = 8420
    threads: int = 4
    max_runs: int = 1
    queue: int = 100
    ring: int = 2000
    keep_events: int | None = None
    keep_days: int | None = None
    lang: str = "en"
    flow: Mapping[str, str] = field(default_factory=dict)
    agent_user: str = ""
    allow_bypass: bool = False
    no_resume: bool = False
    rehearse: str = ""
    log_format: str = "text"
    token: str = field(default="", repr=False)
    model_env: Mapping[str, str] = field(default_factory=dict, repr=False)
    model_origin: Mapping[str, str] = field(default_factory=dict)
    base_env: Mapping[str, str] = field(default_factory=dict, repr=False)
    warnings: tuple[str, ...] = ()

    @classmethod
    def load(cls, flags: Mapping[str, str | None] | None = None, environ: Mapping[str, str] | None = None) -> Settings:
        """The settings from ``flags`` (by field name, None = not given), ``environ`` (the process's own) and files.

        Raises :class:`SettingsError` naming flag and variable of whatever cannot be used.
        """
        process = os.environ if environ is None else environ
        found = gather(process, SECRETS)
        merged = found.values
        values = {row.name: _value(row, (flags or {}).get(row.name), merged) for row in TABLE}
        given = {name: value for name, value in values.items() if value is not None}
        data_dir = given.setdefault("data_dir", Path(platformdirs.user_data_dir("flower", appauthor=False)))
        given.setdefault("workspace_root", data_dir / "workspaces")
        given.setdefault("max_runs", default_max_runs())
        model_env = {key: value for key, value in merged.items() if key.startswith(_MODEL_PREFIXES)}
        cloud = next((key for key in _OTHER_CLOUDS if merged.get(key, "") not in ("", "0", "false")), None)
        if cloud:
            raise SettingsError(f"{cloud}: only the Messages API is supported so far; unset it")
        base_env = {key: value for key, value in process.items() if not key.startswith("FLOWER_")}
        return cls(
            **given,
            model_env=model_env,
            model_origin={key: found.origin[key] for key in model_env},
            base_env=base_env,
            warnings=(*found.warnings, *_warnings(merged)),
        )

    @property
    def tokens_path(self) -> Path:
        """The file that ``flower-server token`` keeps."""
        return self.data_dir / "tokens.json"

    @property
    def on_loopback(self) -> bool:
        """Whether only this machine can reach the address the server listens on."""
        return is_loopback(self.host)

    def require_credentials(self) -> str:
        """Which credentials there are and where they come from, masked; "" in a rehearsal, which needs none.

        Raises :class:`SettingsError` unless something lets the agent program reach a model.
        """
        if self.rehearse:
            return ""
        found = [name for name in CREDENTIALS if name in self.model_env]
        if not found:
            names = f"{', '.join(CREDENTIALS[:-1])} or {CREDENTIALS[-1]}"
            where = f"in the environment, ./.env or {user_file()}"
            raise SettingsError(f"no credentials: set {names} {where}, or try it out with --rehearse")
        return ", ".join(
            f"{name} {masked(self.model_env[name])} from {self.model_origin.get(name, ENVIRONMENT)}" for name in found
        )


def is_loopback(host: str) -> bool:
    """Whether ``host`` is a loopback address, or the name that stands for one."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def default_max_runs(limits: Iterable[Path] = _MEMORY_LIMITS) -> int:
    """How many runs the memory carries, at least 1: the machine's, or what a container's ``limits`` leave of it."""
    try:
        sizes = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    except (ValueError, OSError, AttributeError):
        return 1
    for file in limits:
        try:
            sizes.append(int(file.read_text()))
        except (OSError, ValueError):  # no such control group, or "max"
            continue
    return max(1, min(sizes) // MEMORY_PER_RUN)


def _value(row: Setting, flag: str | None, environ: Mapping[str, str]) -> Any:
    text, source = (flag, row.flag) if flag is not None else (environ.get(row.variable, ""), row.variable)
    if flag is None and not text:
        return None  # an empty variable is how shells and .env files say "not set"
    try:
        return row.parse(text)
    except ValueError as error:
        other = f" ({row.variable})" if source == row.flag else f" ({row.flag})" if row.flag else ""
        raise SettingsError(f"{source}{other}: {error}") from error


def _warnings(environ: Mapping[str, str]) -> tuple[str, ...]:
    known = {row.variable for row in TABLE} | set(_NOT_OURS)
    unknown = sorted(key for key in environ if key.startswith("FLOWER_") and key not in known)
    unknown = [key for key in unknown if not key.startswith(_THE_CLIENTS)]
    lines = [f"{key} is no setting of this server and has no effect" for key in unknown]
    if 0 < len(environ.get("FLOWER_TOKEN", "")) < 16:
        lines.append("FLOWER_TOKEN is short enough to be guessed; `flower-server token add` makes a better one")
    return tuple(lines)
