"""doctor: what stands between this command and a run, and what to do about it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from email.utils import parsedate_to_datetime
from importlib import metadata

import click

from flower_client.advice import NOT_OURS, for_versions
from flower_client.api import FlowerClient
from flower_client.app import App, command, pass_app
from flower_client.errors import BadReply, FlowerClientError, NotAllowed, Refused
from flower_client.fields import Json
from flower_client.safe_text import one_line
from flower_client.transport import Reply, is_loopback

#: A run that does not exist: asking to act on it changes nothing, and shows whether the token would have been enough.
NO_RUN = "doctor-probe"
#: Most seconds the two clocks may differ before it is worth a word.
CLOCK_TOLERANCE_S = 60
#: What a server calls itself.
SERVER = "flower"
#: What a token of each scope is good for, and how to get further.
REACH = {
    "read": "enough to watch; to answer and to start, `flower-server token add NAME --scope start` makes another",
    "steer": "enough to watch and to answer; to start, `flower-server token add NAME --scope start` makes another",
    "start": "enough for everything",
}


@command()
@pass_app
def doctor(app: App) -> None:
    """Check server, versions, token and clock.

    Ends with 3 when the server cannot be reached or is not ready, with 4 when the token does not let it look.
    """
    code = 0
    with app.client() as client:
        found: Json = {"url": client.url, "client": metadata.version("flower-client")}
        try:
            for name, value in examine(client):
                found[name] = value
        except FlowerClientError as error:
            found["problem"], code = error.advice, error.exit_code
    app.put(found, [f"{name + ':':<11}{one_line(str(value), 500)}" for name, value in found.items()])
    if code:
        click.get_current_context().exit(code)


def examine(client: FlowerClient) -> Iterator[tuple[str, str]]:
    """What is found, finding by finding, until one keeps the next from being looked at: that error is raised."""
    alive = client.healthy()
    yield "reachable", "yes"
    yield "clock", clock(alive, time.time())
    about = client.server()
    data = about.data if isinstance(about.data, dict) else {}
    if data.get("name") != SERVER:
        raise BadReply(f"{client.url} is no flower-server", hint=NOT_OURS)
    version = str(data.get("version", "?"))
    yield "server", f"{SERVER} {version}"
    yield "versions", for_versions(version, metadata.version("flower-client"))
    held = scope(client)
    yield "token", held
    yield "reach", REACH[held]
    yield "transport", "this machine" if is_loopback(client.url) else client.url.partition(":")[0]
    client.ready()
    yield "ready", "yes"


def clock(reply: Reply, now: float) -> str:
    """How far the server's clock is from ours, by the Date of its reply, which counts whole seconds."""
    try:
        ahead = parsedate_to_datetime(reply.headers.get("Date", "")).timestamp() - now
    except (ValueError, OverflowError):
        return "the server does not tell the time"
    if abs(ahead) <= CLOCK_TOLERANCE_S:
        return "agrees"
    way = "set the one that is wrong, or times shown here mislead"
    return f"the server's is {abs(ahead):.0f} s {'ahead' if ahead > 0 else 'behind'}: {way}"


def scope(client: FlowerClient) -> str:
    """The largest scope the token has. Raises NotAllowed when it has none."""
    tries: tuple[tuple[str, Callable[[str], object]], ...] = (("start", client.resume), ("steer", client.cancel))
    for name, attempt in tries:
        try:
            attempt(NO_RUN)
        except Refused:
            return name
        except NotAllowed as error:
            if error.status == 401:
                raise
    client.runs(limit=1)
    return "read"
