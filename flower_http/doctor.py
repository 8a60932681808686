"""What stands between this machine and a run, looked at without starting or changing anything."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from flower_core.claude.agent_user import AgentUser
from flower_core.claude.environment import agent_program
from flower_core.errors import FlowerError
from flower_core.rehearsal import Play
from flower_core.resilience import endpoint, reachable
from flower_http.errors import StartError
from flower_http.flow_registry import Flows
from flower_http.journal_schema import check_version
from flower_http.places import keep_apart
from flower_http.server import bound_socket
from flower_http.serving import in_use
from flower_http.settings import MEMORY_PER_RUN, Settings
from flower_http.tokens import TokenStore

_PROGRAM_S = 30.0
_CONNECT_S = 5.0
_MIB = 1024 * 1024
#: With less room than this on the disk a run would soon be stopped.
_ROOM_BYTES = 64 * _MIB
_BASE_URL = "ANTHROPIC_BASE_URL"


@dataclass(frozen=True)
class Finding:
    """One thing looked at: whether it is as it must be, and what was found or has to be done."""

    name: str
    ok: bool
    text: str


def diagnose(settings: Settings) -> list[Finding]:
    """Look at everything that a server with ``settings`` needs, in the order in which it is needed."""
    checks: list[tuple[str, Callable[[Settings], str]]] = [
        ("agent program", _program),
        ("credentials", _credentials),
        ("endpoint", _endpoint),
        ("data dir", _data_dir),
        ("workspaces", _workspaces),
        ("journal", _journal),
        ("tokens", _tokens),
        ("port", _port),
        ("flows", _flows),
        ("memory", _memory),
    ]
    if settings.agent_user:
        checks.insert(1, ("agent user", _agent_user))
    return [_look(name, check, settings) for name, check in checks]


def _look(name: str, check: Callable[[Settings], str], settings: Settings) -> Finding:
    try:
        return Finding(name, True, check(settings))
    except (StartError, FlowerError, OSError, ValueError, sqlite3.Error, subprocess.SubprocessError) as error:
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


def _agent_user(settings: Settings) -> str:
    user = AgentUser.find(settings.agent_user, settings.data_dir, settings.workspace_root)
    return f"{user.name} (id {user.uid}) can execute the agent program and get to the workspaces"


def _credentials(settings: Settings) -> str:
    return settings.require_credentials() or "none needed: a script stands in for the model"


def _endpoint(settings: Settings) -> str:
    if settings.rehearse:
        return f"the script {Play.load(settings.rehearse).title or settings.rehearse!r} on loopback"
    host, port = endpoint({**settings.base_env, **settings.model_env})
    if not asyncio.run(reachable(host, port, _CONNECT_S)):
        raise StartError(f"{host}:{port} cannot be reached; check the network, the proxy and {_BASE_URL}")
    named = f" ({_BASE_URL} from {settings.model_origin[_BASE_URL]})" if _BASE_URL in settings.model_origin else ""
    return f"{host}:{port} accepts connections{named}"


def _data_dir(settings: Settings) -> str:
    return _writable(settings.data_dir, "--data-dir (FLOWER_DATA_DIR)")


def _workspaces(settings: Settings) -> str:
    keep_apart(settings.workspace_root, settings.data_dir)
    return _writable(settings.workspace_root, "--workspace-root (FLOWER_WORKSPACE_ROOT)")


def _writable(path: Path, flag: str) -> str:
    """What there is room for at ``path``, or where it would be made. Raises StartError naming the ``flag``."""
    place = next(folder for folder in (path, *path.parents) if folder.exists())
    if not place.is_dir():
        raise StartError(f"{place} is no directory; choose another place with {flag}")
    if not os.access(place, os.W_OK | os.X_OK):
        raise StartError(f"{place} cannot be written by this user; change that, or choose another place with {flag}")
    stat = os.statvfs(place)
    free = stat.f_bavail * stat.f_frsize
    if free < _ROOM_BYTES:
        raise StartError(f"{path}: only {free // _MIB} MiB free; make room, or choose another place with {flag}")
    return f"{path}, {free // _MIB} MiB free"


def _journal(settings: Settings) -> str:
    path = settings.data_dir / "journal.db"
    if not path.exists():
        return "none yet"
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        return f"format {check_version(connection)}"


def _tokens(settings: Settings) -> str:
    count = len(TokenStore(settings.tokens_path, settings.token).rows())
    if not count and not settings.on_loopback:
        raise StartError(f"--host {settings.host} needs a token: `flower-server token add NAME --scope start`")
    return f"{count} configured" if count else "none; on loopback none is needed"


def _port(settings: Settings) -> str:
    if not settings.port:
        return "any free one"
    try:
        bound_socket(settings.host, settings.port).close()
    except OSError as error:
        if in_use(settings.data_dir):
            return f"{settings.port} is not free, as a server runs with this data dir"
        way = "choose another with --port (FLOWER_PORT) or --host"
        raise StartError(f"{settings.port} of {settings.host}: {error.strerror}; {way}") from error
    return f"{settings.port} of {settings.host} is free"


def _flows(settings: Settings) -> str:
    Flows(settings.flow)
    return ", ".join(settings.flow) or "only those built in"


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
