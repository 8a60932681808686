"""What an agent's process may see of the world: a short list of variables instead of the service's whole environment.

A command an agent runs inherits the agent program's environment, so whatever is passed here can be read by it.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

from flower_core.errors import AgentProgramMissing, CredentialsMissing
from flower_core.files import atomic_write

#: Says whose an agent's process is; see :mod:`flower_core.claude.orphans`.
MARK = "FLOWER_MARK"
#: ``UID:GID`` as which the launcher runs the agent program; see :mod:`flower_core.claude.agent_user`.
RUN_AS = "FLOWER_RUN_AS"
#: Where the agent program keeps what is the session's own.
CONFIG_DIR = "CLAUDE_CONFIG_DIR"
CREDENTIALS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")
_OTHER_CLOUDS = ("CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY")
_MODEL = (
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_MODEL",
    "ANTHROPIC_SMALL_FAST_MODEL",
    "ANTHROPIC_DEFAULT_OPUS_MODEL",
    "ANTHROPIC_DEFAULT_SONNET_MODEL",
    "ANTHROPIC_DEFAULT_HAIKU_MODEL",
    "ANTHROPIC_DEFAULT_FABLE_MODEL",
    "ANTHROPIC_CUSTOM_HEADERS",
    "ANTHROPIC_BETAS",
    "CLAUDE_CODE_SUBAGENT_MODEL",
    "CLAUDE_CODE_MAX_OUTPUT_TOKENS",
)
_HOST = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TZ", "TMPDIR", "LANG", "LANGUAGE", "PYTHONIOENCODING")
_NETWORK = (
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
)
#: Set by the SDK on top of ours; the program needs them.
_FROM_SDK = (
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_AGENT_SDK_VERSION",
    "CLAUDE_AGENT_SDK_CLIENT_APP",
    "CLAUDE_CODE_SDK_READS_SESSION_STATE",
    CONFIG_DIR,
    "PWD",
    "TRACEPARENT",
    "TRACESTATE",
)
#: How every session is run; reasons: no traffic but the model's, no self-update, whole tool lists, one query with one
#: result (no background work), only our own agents, long commands allowed, and failures heard of in seconds.
_FIXED = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "ENABLE_TOOL_SEARCH": "false",
    "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
    "CLAUDE_AGENT_SDK_DISABLE_BUILTIN_AGENTS": "1",
    "BASH_DEFAULT_TIMEOUT_MS": "600000",
    "BASH_MAX_TIMEOUT_MS": "3600000",
    "CLAUDE_CODE_MAX_RETRIES": "2",
}
#: The longest a JavaScript timer takes, in milliseconds; used where a tool may wait for ever.
_LONGEST_TIMER_MS = 2**31 - 1


def check_credentials(environ: Mapping[str, str]) -> None:
    """Raise :class:`CredentialsMissing`, saying what to set, unless ``environ`` holds a usable credential."""
    for name in _OTHER_CLOUDS:
        if environ.get(name, "").lower() not in ("", "0", "false"):
            raise CredentialsMissing(
                f"{name} is set, but other clouds are not supported yet; unset it and set one of: "
                + ", ".join(CREDENTIALS)
            )
    if not any(environ.get(name, "").strip() for name in CREDENTIALS):
        raise CredentialsMissing(
            f"no credential for the model; set one of: {', '.join(CREDENTIALS)} "
            "(and ANTHROPIC_BASE_URL for an endpoint of your own)"
        )


def _inherited(environ: Mapping[str, str]) -> dict[str, str]:
    names = {*_HOST, *_NETWORK, *_MODEL, *CREDENTIALS, MARK}
    if RUN_AS in environ:
        names.add("XDG_RUNTIME_DIR")  # that user's, not ours
    return {
        name: value
        for name, value in environ.items()
        if name in names or name.upper() in _NETWORK or name.startswith("LC_")
    }


def session_environment(
    environ: Mapping[str, str],
    *,
    config_dir: Path,
    extra: Mapping[str, str],
    tool_timeout_s: float | None,
) -> dict[str, str]:
    """The variables of one session, with some more for the launcher, which drops them and all it is not told to keep.

    ``extra`` are the spec's own and win. ``tool_timeout_s`` is how long an MCP tool may take, in seconds; None
    means as long as it likes. A small value inherited from the environment would cut a person's thinking short.
    """
    timeout_ms = _LONGEST_TIMER_MS if tool_timeout_s is None else min(int(tool_timeout_s * 1000), _LONGEST_TIMER_MS)
    chosen = {
        **_inherited(environ),
        **_FIXED,
        "MCP_TOOL_TIMEOUT": str(timeout_ms),
        CONFIG_DIR: str(config_dir),
        **extra,
    }
    chosen["FLOWER_KEEP_ENV"] = ",".join(sorted({*chosen, *_FROM_SDK}))
    chosen["FLOWER_PARENT_PID"] = str(os.getpid())
    if RUN_AS in environ:
        chosen[RUN_AS] = environ[RUN_AS]
    return chosen


def agent_program() -> Path:
    """The agent program: the one bundled with the SDK, else ``claude`` on the path.

    Raises :class:`AgentProgramMissing` where there is neither.
    """
    bundled = Path(str(resources.files("claude_agent_sdk"))) / "_bundled" / "claude"
    if bundled.is_file():
        return bundled
    found = shutil.which("claude")
    if found:
        return Path(found)
    raise AgentProgramMissing("the agent program is missing; reinstall claude-agent-sdk from a wheel of this platform")


def write_launcher(folder: Path) -> Path:
    """Write the small executable the SDK is told to start, and return its path.

    It exists because the SDK wants one file to execute, while ours needs an interpreter and two arguments.
    """
    script = folder / "agent"
    launch = Path(__file__).with_name("launch.py")
    # -S: it needs no installed packages, and finding them takes about a quarter of its start, with every session.
    quoted = " ".join(shlex.quote(str(part)) for part in (sys.executable, "-I", "-S", launch, agent_program()))
    text = f'#!/bin/sh\nexec {quoted} "$@"\n'
    if not script.is_file() or script.read_text() != text:
        atomic_write(script, text)
    script.chmod(0o700)
    return script
