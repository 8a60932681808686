r"""Where the command finds server and token: flag, else variable, else a file that only its owner can read.

The file is ``client.toml`` in ``$XDG_CONFIG_HOME/flower`` (``~/.config/flower`` by default, ``%APPDATA%\\flower`` on
Windows)::

    url = "https://flower.example.org"
    token = "…"

A token in the file belongs to the url beside it and is never sent to another one.
"""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from flower_client.errors import ConfigError

DEFAULT_URL = "http://127.0.0.1:8420"
#: How long a reply may take, in seconds; what a server may hold one for comes on top.
TIMEOUT_S = 30.0
KNOWN = ("url", "token")


@dataclass(frozen=True)
class Settings:
    """The server to talk to, and the token for it (never part of the repr)."""

    url: str = DEFAULT_URL
    token: str = field(default="", repr=False)


def config_path(env: Mapping[str, str]) -> Path:
    """Where the file would be; it need not exist."""
    if os.name == "nt" and env.get("APPDATA"):
        return Path(env["APPDATA"]) / "flower" / "client.toml"
    base = env.get("XDG_CONFIG_HOME", "")
    # The XDG base directory specification says to ignore a relative path.
    root = Path(base) if os.path.isabs(base) else Path(env.get("HOME") or Path.home()) / ".config"
    return root / "flower" / "client.toml"


def resolve(url: str | None, token: str | None, env: Mapping[str, str]) -> Settings:
    """The settings to use; ``url`` and ``token`` are what flag or variable gave, None where they gave nothing.

    Raises ConfigError when the file is needed and cannot be trusted or read.
    """
    if url and token is not None:
        return Settings(url, token)
    stored = load(config_path(env))
    chosen = url or stored.get("url") or DEFAULT_URL
    if token is None:
        theirs = stored.get("url")
        same = theirs is None or theirs.rstrip("/") == chosen.rstrip("/")
        token = stored.get("token", "") if same else ""
    return Settings(chosen, token)


def load(path: Path) -> dict[str, str]:
    """The file's settings, none when there is no file. Raises ConfigError for one that others can read or a bad one."""
    try:
        with path.open("rb") as file:
            _check_mode(path, os.fstat(file.fileno()))
            data = tomllib.load(file)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        # Not the parser's message: it may quote the line with the token.
        raise ConfigError(f"{path} is not valid TOML", hint='It holds lines such as url = "http://…".') from error
    for name, value in data.items():
        if name not in KNOWN:
            raise ConfigError(f"{path}: there is no setting {name!r}", hint=f"There are: {', '.join(KNOWN)}.")
        if not isinstance(value, str):
            raise ConfigError(f"{path}: {name} must be a string")
    return data


def _check_mode(path: Path, status: os.stat_result) -> None:
    if os.name != "posix":
        return
    if status.st_uid != os.geteuid():
        raise ConfigError(f"{path} belongs to somebody else", hint="Make one of your own.")
    mode = stat.S_IMODE(status.st_mode)
    if mode & 0o077:
        raise ConfigError(f"{path} has mode {mode:04o}: others can get at the token", hint=f"chmod 600 {path}")
