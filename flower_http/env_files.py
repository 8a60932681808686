"""Where the server's variables come from: the environment, then up to three files, each asked for what is missing.

The files have python-dotenv's grammar. In this order: the one FLOWER_ENV names, ``.env`` in the working directory, and
``.env`` in the user's configuration directory. An empty value counts as none, so the next source is asked.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import platformdirs
from dotenv import dotenv_values

from flower_http.errors import SettingsError

#: The variable that names a file.
NAMED_BY = "FLOWER_ENV"
ENVIRONMENT = "the environment"
_BY_GROUP_OR_OTHERS = stat.S_IRGRP | stat.S_IROTH
#: Fewer characters than this are shown not even in part, of more the last ones. Real keys have about a hundred.
_LONG, _SHOWN = 20, 4


@dataclass(frozen=True)
class Variables:
    """What holds, by variable, and ``origin``: the file each comes from, or :data:`ENVIRONMENT`."""

    values: Mapping[str, str]
    origin: Mapping[str, str]
    warnings: tuple[str, ...] = ()


def gather(process: Mapping[str, str], secrets: Collection[str]) -> Variables:
    """Every variable that holds anything, from ``process`` (the environment of the process) and the files.

    A file that others can read is warned about when it holds any of ``secrets``. Raises :class:`SettingsError` for a
    file that is there, or named, and cannot be read.
    """
    values: dict[str, str] = {}
    origin: dict[str, str] = {}
    warnings = []
    sources: list[tuple[str, Mapping[str, str]]] = [(ENVIRONMENT, process)]
    for path in _files(process):
        kept, mode = _read(path)
        sources.append((str(path), kept))
        if os.name == "posix" and mode & _BY_GROUP_OR_OTHERS and any(kept.get(name) for name in secrets):
            warnings.append(f"{path} has mode {mode:04o}, so others can read the secrets in it: chmod 600 {path}")
    for source, held in sources:
        for name, value in held.items():
            if value.strip() and name not in values:
                values[name], origin[name] = value, source
    return Variables(values, origin, tuple(warnings))


def user_file() -> Path:
    """The file in the user's configuration directory; it need not exist."""
    return Path(platformdirs.user_config_dir("flower", appauthor=False)) / ".env"


def masked(secret: str) -> str:
    """``secret`` as it may be shown: its last four characters, none of a short one."""
    return f"…{secret[-_SHOWN:]}" if len(secret) >= _LONG else "…"


def _files(process: Mapping[str, str]) -> list[Path]:
    """The files to ask. Only the named one must exist; a directory called .env is somebody's virtual environment."""
    named = process.get(NAMED_BY, "").strip()
    found = [Path(named).expanduser().absolute()] if named else []
    found += [path for path in (Path(".env").absolute(), user_file()) if os.path.isfile(path)]
    return list(dict.fromkeys(found))  # who names ./.env is warned about it once


def _read(path: Path) -> tuple[dict[str, str], int]:
    """What a file holds, and its permissions."""
    try:
        with path.open(encoding="utf-8") as stream:
            mode = stat.S_IMODE(os.fstat(stream.fileno()).st_mode)
            return {key: value for key, value in dotenv_values(stream=stream).items() if value is not None}, mode
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8"
        raise SettingsError(f"{path} cannot be read: {why}; correct it, or what FLOWER_ENV names") from error
