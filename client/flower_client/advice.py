"""What to do about a failure, in one sentence each: the hints that errors carry."""

from __future__ import annotations

from collections.abc import Mapping

URL = "An address looks like http://127.0.0.1:8420."
UNREACHABLE = "Is flower-server running there? Give another address with --url or FLOWER_URL."
NO_TLS = "No TLS is spoken there: is it http:// rather than https://?"
NO_HANDSHAKE = "no answer to the TLS handshake in time"
UNTRUSTED = "REQUESTS_CA_BUNDLE can name the certificate of your own authority; a wrong clock makes good ones bad."
NOT_OURS = "Is that address flower-server's? Look at --url and at what stands between."
UNAUTHORIZED = "Give a token with --token or FLOWER_TOKEN; `flower-server token add NAME --scope SCOPE` makes one."
TOO_SMALL = "This needs a token of a larger scope: `flower-server token add NAME --scope steer` or `--scope start`."
MAYBE_DONE = "It may have been carried out all the same."
OTHER_VERSION = "Server and client may be of different versions: `flower-client doctor` compares them."

_BY_SLUG = {
    "unknown-run": "`flower-client runs` lists them.",
    "workspace-busy": "Follow that run with `flower-client watch`, or take another --workspace.",
    "ask-settled": "`flower-client asks RUN_ID --all` shows how it was settled.",
    "unknown-ask": "`flower-client asks RUN_ID` shows what waits.",
    "which-run": "Name the run; `flower-client runs` lists them.",
    "unknown-document": "`flower-client docs RUN_ID` lists those there are.",
    "unknown-file": "`flower-client files RUN_ID` lists what is there.",
    "not-running": "`flower-client show RUN_ID` shows its state.",
    "not-found": OTHER_VERSION,
    "host-not-allowed": "`flower-server token add NAME --scope start` on the server makes a token for --token.",
    "not-ready": "`flower-server doctor` on the server says what it lacks.",
    "journal-unavailable": "Make room on the server's disk; runs that it has stopped go on by themselves then.",
}
_BY_STATUS = {401: UNAUTHORIZED, 403: TOO_SMALL}
#: What an older server says of a field that it does not know.
_UNKNOWN_FIELD = "there is no such field"


def for_connection(reason: str) -> str:
    """About a connection that did not come about, for ``reason``."""
    if "CERTIFICATE_VERIFY_FAILED" in reason:
        return UNTRUSTED
    return NO_TLS if "SSL" in reason or "TLS" in reason else UNREACHABLE


def for_problem(status: int, document: Mapping[str, object]) -> str:
    """About a refusal, by its problem document, else by its HTTP ``status``; "" where there is nothing to add."""
    if _UNKNOWN_FIELD in str(document.get("errors")):
        return OTHER_VERSION
    if needed := document.get("needed"):  # the scope, of a token that has a smaller one
        return f"`flower-server token add NAME --scope {needed}` makes a token that reaches so far."
    return _BY_SLUG.get(str(document.get("type")), _BY_STATUS.get(status, ""))


def for_versions(server: str, client: str) -> str:
    """What two versions mean to each other; they belong together while their first two numbers are the same."""
    theirs, ours = _series(server), _series(client)
    if theirs is None or ours is None:
        return "the versions cannot be compared"
    if theirs == ours:
        return "server and client belong together"
    if theirs < ours:
        return (
            f"the server is older than this client ({client}): update flower-http there, or it may refuse what is asked"
        )
    return f"the server is newer than this client ({client}): update flower-client to get at all it can do"


def _series(version: str) -> tuple[int, ...] | None:
    numbers = version.split(".")[:2]
    return tuple(map(int, numbers)) if len(numbers) == 2 and all(number.isdecimal() for number in numbers) else None
