"""The tokens file: who may talk to the server, hashed, and re-read when it changes.

One JSON file of mode 0600 in the data dir. ``flower-server token`` writes it, the running server only reads it.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import secrets
import stat
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, get_args

from flower_core.files import locked
from flower_http.errors import StartError

Scope = Literal["read", "steer", "start"]
#: Smallest first; each reaches as far as those before it.
SCOPES: tuple[str, ...] = get_args(Scope)

#: The name of the token that stands in FLOWER_TOKEN.
ENV_NAME = "env"
_RESERVED = (ENV_NAME, "local")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class TokenRow:
    """One token as it is kept: never the token itself. ``created_at`` is RFC 3339 in UTC."""

    name: str
    scope: str
    sha256: str
    created_at: str = ""


class TokenStore:
    """The tokens of ``path`` (which need not exist) and, with every scope, ``env_token``.

    Safe from any thread. ``on_change`` is called by :meth:`refresh` on the calling thread after the set of tokens
    became another one: whoever holds waiting readers lets those go whose token is gone.
    Raises :class:`StartError` when the file is there and cannot be understood.
    """

    def __init__(self, path: Path, env_token: str = "") -> None:
        self.path = path
        self.on_change: list[Callable[[], None]] = []
        self._env = (TokenRow(ENV_NAME, SCOPES[-1], _digest(env_token)),) if env_token else ()
        self._lock = threading.Lock()
        self._stamp = _stamp(path)
        self._unread = False
        self._rows = read_rows(path)
        self._configured = bool(self._env or self._rows)

    @property
    def configured(self) -> bool:
        """Whether a token exists or has existed while this store did.

        Revoking the last token must not open a running server to everybody, so this never turns back to False.
        """
        return self._configured

    def rows(self) -> tuple[TokenRow, ...]:
        """Every valid token, as of the last :meth:`refresh`."""
        return self._env + self._rows

    def refresh(self) -> bool:
        """Read the file again if it changed; whether the tokens are others now.

        Costs one stat when time, size, inode and mode are what they were. A file that makes no sense (any more) counts
        as one without tokens, as does one that cannot be read, which is tried again every time.
        """
        with self._lock:
            stamp = _stamp(self.path)
            if stamp == self._stamp and not self._unread:
                return False
            before, again = self._rows, self._unread
            self._stamp, self._unread = stamp, False
            try:
                self._rows = read_rows(self.path)
            except StartError as error:
                self._unread = isinstance(error.__cause__, OSError)
                if not (again and self._unread):
                    _LOG.error("%s; until it is mended its tokens are refused", error)
                self._rows = ()
                self._configured = True
            self._configured = self._configured or bool(self._rows)
            changed = self._rows != before
        if changed:
            for call in list(self.on_change):
                call()
        return changed


def add_token(path: Path, name: str, scope: str) -> str:
    """Make a token called ``name``, keep its hash in ``path``, and return it: the only time it can be seen.

    Raises :class:`StartError` for a name that is malformed, reserved or taken.
    """
    if not _NAME.fullmatch(name) or name in _RESERVED:
        raise StartError(f"token name {name!r}: use 1 to 64 of A-Z a-z 0-9 . _ - (and not {' or '.join(_RESERVED)})")
    token = f"flw_{secrets.token_urlsafe(32)}"
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    with locked(_lock_path(path)):
        rows = read_rows(path)
        if any(row.name == name for row in rows):
            raise StartError(f"there is a token {name!r} already; revoke it first, or choose another name")
        _write(path, (*rows, TokenRow(name, scope, _digest(token), now)))
    return token


def revoke_token(path: Path, name: str) -> bool:
    """Take the token called ``name`` out of ``path``; False when there is none."""
    with locked(_lock_path(path)):
        rows = read_rows(path)
        kept = tuple(row for row in rows if row.name != name)
        if len(kept) == len(rows):
            return False
        _write(path, kept)
    return True


def read_rows(path: Path) -> tuple[TokenRow, ...]:
    """The tokens kept in ``path``, none when it is missing.

    Raises :class:`StartError` when it makes no sense, or when others than its owner could have written it.
    """
    try:
        with path.open(encoding="utf-8") as opened:
            if os.name == "posix" and os.fstat(opened.fileno()).st_mode & _BY_OTHERS:
                raise StartError(f"others may write the tokens file {path}, and so let themselves in: chmod 600 {path}")
            document = json.load(opened)
        rows = tuple(TokenRow(**row) for row in document["tokens"])
        if not all(row.scope in SCOPES and _SHA256.fullmatch(row.sha256) and _NAME.fullmatch(row.name) for row in rows):
            raise ValueError("a token has no valid name, scope or hash")
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise StartError(f"the tokens file {path} cannot be read: {error}") from error
    return rows


def _write(path: Path, rows: tuple[TokenRow, ...]) -> None:
    # Not flower_core.files.atomic_write: that follows the umask, and this file is nobody else's business at any moment.
    fresh = path.with_suffix(".new")
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as out:
        os.fchmod(handle, 0o600)
        out.write(json.dumps({"tokens": [asdict(row) for row in rows]}, indent=1) + "\n")
        out.flush()
        os.fsync(handle)
    os.replace(fresh, path)


def _lock_path(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    return path.with_suffix(".lock")


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _stamp(path: Path) -> tuple[int, ...] | None:
    try:
        found = os.stat(path)  # with every request; Path.stat costs as much again
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino, found.st_mode
