"""What stands between this machine and a run, looked at without starting anything."""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from flower_core.claude.environment import agent_program
from flower_core.errors import FlowerError
from flower_core.resilience import endpoint, reachable
from flower_http.errors import StartError
from flower_http.settings import MEMORY_PER_RUN, Settings
from flower_http.tokens import TokenStore

_PROGRAM_S = 30.0
_CONNECT_S = 5.0
_MIB = 1024 * 1024


@dataclass(frozen=True)
class Finding:
    """One thing looked at: whether it is as it must be, and what was found or has to be done."""

    name: str
    ok: bool
    text: str


def diagnose(settings: Settings) -> list[Finding]:
    """Look at the agent program, credentials, endpoint, data directory, tokens and memory. Changes nothing."""
    checks: list[tuple[str, Callable[[Settings], str]]] = [
        ("agent program", _program),
        ("credentials", _credentials),
        ("endpoint", _endpoint),
        ("data dir", _data_dir),
        ("tokens", _tokens),
        ("memory", _memory),
    ]
    return [_look(name, check, settings) for name, check in checks]


def _look(name: str, check: Callable[[Settings], str], settings: Settings) -> Finding:
    try:
        return Finding(name, True, check(settings))
    except (StartError, FlowerError, OSError, ValueError, subprocess.SubprocessError) as error:
        return Finding(name, False, " ".join(str(error).split()))


def _program(settings: Settings) -> str:
    path = agent_program()
    with tempfile.TemporaryDirectory() as home:
        environ = {"PATH": os.defpath, "HOME": home, "CLAUDE_CONFIG_DIR": home}
        command = [str(path), "--version"]
        done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=_PROGRAM_S, check=False)
    if done.returncode:
        raise StartError(f"{path} does not run (exit code {done.returncode}); reinstall claude-agent-sdk")
    return done.stdout.strip()


def _credentials(settings: Settings) -> str:
    settings.require_credentials()
    return "a script stands in for the model" if settings.rehearse else "found"


def _endpoint(settings: Settings) -> str:
    if settings.rehearse:
        return "a script on loopback"
    host, port = endpoint({**settings.base_env, **settings.model_env})
    if not asyncio.run(reachable(host, port, _CONNECT_S)):
        raise StartError(f"{host}:{port} cannot be reached; check the network, the proxy and ANTHROPIC_BASE_URL")
    return f"{host}:{port} accepts connections"


def _data_dir(settings: Settings) -> str:
    path = _existing(settings.data_dir)
    if not os.access(path, os.W_OK | os.X_OK):
        raise StartError(f"{path} cannot be written; choose another with --data-dir (FLOWER_DATA_DIR)")
    stat = os.statvfs(path)
    return f"{settings.data_dir}, {stat.f_bavail * stat.f_frsize // _MIB} MiB free"


def _tokens(settings: Settings) -> str:
    count = len(TokenStore(settings.tokens_path, settings.token).rows())
    if not count and not settings.on_loopback:
        raise StartError(f"--host {settings.host} needs a token: `flower-server token add NAME --scope start`")
    return f"{count} configured" if count else "none; on loopback none is needed"


def _memory(settings: Settings) -> str:
    free = _available_memory()
    if free is None:
        return "cannot be told on this system"
    if free < MEMORY_PER_RUN:
        raise StartError(f"{free // _MIB} MiB free; a run takes about {MEMORY_PER_RUN // _MIB}")
    return f"{free // _MIB} MiB free, room for about {free // MEMORY_PER_RUN} runs; {settings.max_runs} allowed"


def _available_memory() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None


def _existing(path: Path) -> Path:
    return next(folder for folder in (path, *path.parents) if folder.exists())
