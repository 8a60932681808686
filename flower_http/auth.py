"""Who is asking, and how far their token reaches.

Tokens are 256 random bits, so a single SHA-256 is enough to store them by: there is nothing to guess (OWASP's slow
hashes are for passwords people choose). Without any token the server is for programs on this machine only, and what a
browser would send on behalf of some web page is refused.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flower_http.errors import Problem
from flower_http.tokens import SCOPES, TokenStore

#: The name under which everybody acts while no token exists, and that of who shows none where none is needed.
LOCAL, NOBODY = "local", "-"

_BEARER = re.compile(r"bearer +([A-Za-z0-9._~+/=-]{1,512})", re.ASCII | re.IGNORECASE)
_LOOPBACK_HOST = re.compile(r"(localhost|127(\.[0-9]{1,3}){3}|\[::1\])(:[0-9]{1,5})?", re.ASCII | re.IGNORECASE)
_FORWARDED = ("HTTP_FORWARDED", "HTTP_X_FORWARDED_FOR", "HTTP_X_FORWARDED_HOST", "HTTP_X_REAL_IP")
_CHALLENGE = {"WWW-Authenticate": 'Bearer realm="flower"'}


@dataclass(frozen=True)
class Principal:
    """Who made a request: the token's ``name``, its ``scope``, and an ``identity`` that is never reused."""

    name: str
    scope: str
    identity: str


class Guard:
    """Lets a request pass, or raises the :class:`Problem` that says why not.

    ``open_to_loopback`` says that the server listens on loopback only: then, and as long as no token has ever been
    configured, requests need none.
    """

    def __init__(self, tokens: TokenStore, *, open_to_loopback: bool) -> None:
        self.tokens = tokens
        self._open_to_loopback = open_to_loopback

    def __call__(self, environ: Mapping[str, Any], scope: str | None) -> Principal:
        """The principal behind ``environ``, who reaches at least as far as ``scope``; None needs no token.

        Raises Problem 401 or 403. What browsers must not be led to is refused whatever the scope.
        """
        self.tokens.refresh()
        if self._open_to_loopback and not self.tokens.configured:
            _refuse_browsers(environ)
            return Principal(LOCAL, SCOPES[-1], LOCAL)
        if scope is None:
            return Principal(NOBODY, "", "")
        principal = self._by_token(environ.get("HTTP_AUTHORIZATION", ""))
        if SCOPES.index(principal.scope) < SCOPES.index(scope):
            detail = f"this needs the scope {scope!r}; the token {principal.name!r} has {principal.scope!r}"
            raise Problem(403, "scope-too-small", detail, needed=scope)
        return principal

    def _by_token(self, header: str) -> Principal:
        if not header:
            raise Problem(401, "unauthorized", "send Authorization: Bearer TOKEN", headers=_CHALLENGE)
        match = _BEARER.fullmatch(header.strip())
        presented = hashlib.sha256(match[1].encode() if match else b"").hexdigest()
        found = None
        for row in self.tokens.rows():  # all of them, always: the time taken says nothing about which one matched
            if hmac.compare_digest(row.sha256, presented):
                found = row
        if match is None or found is None:
            raise Problem(401, "unauthorized", "the token is unknown or has been revoked", headers=_CHALLENGE)
        return Principal(found.name, found.scope, found.sha256)


def _refuse_browsers(environ: Mapping[str, Any]) -> None:
    """Raise Problem 403 for what a web page could make a browser send to this machine.

    The Host check defeats DNS rebinding, the other two cross-site requests. A page of this very origin does not
    exist, so any POST that names an origin comes from elsewhere. What a proxy passes on would pass for local.
    """
    if any(name in environ for name in _FORWARDED):
        raise Problem(403, "host-not-allowed", "this comes through a proxy, from anybody; make a token first")
    host = environ.get("HTTP_HOST", "")
    if host and not _LOOPBACK_HOST.fullmatch(host):
        raise Problem(403, "host-not-allowed", "without a token only localhost, 127.0.0.1 and [::1] are served")
    if environ.get("REQUEST_METHOD", "GET") in ("GET", "HEAD"):
        return
    site = environ.get("HTTP_SEC_FETCH_SITE", "")
    if "HTTP_ORIGIN" in environ or site not in ("", "none"):
        raise Problem(403, "cross-origin", "a web page cannot steer runs; make a token, or leave Origin out")
