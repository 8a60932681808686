"""A whole server in this process to throw anything at: everything is real but what its runs run.

Every flow, also the two built in, is played by :class:`Questioner`, so that a generated request may start what it likes
without an agent program. ``FUZZ_EXAMPLES`` is how many examples each operation gets; see CONTRIBUTING.md.
"""

from __future__ import annotations

import itertools
import os
import re
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, cast

import schemathesis
from schemathesis import Case
from schemathesis.config import SchemathesisConfig
from schemathesis.schemas import BaseSchema

from flower_core import Event
from flower_core.events import EventSink
from flower_core.workflow import Workflow
from flower_http.app import create_app
from flower_http.flow_registry import Flows
from flower_http.flows import Flow, FlowContext, Links
from flower_http.idempotency import SqliteKeys
from flower_http.parking import ParkingDispatcher
from flower_http.poll import EventsApp
from flower_http.server import make_server
from flower_http.settings import Settings
from tests.http.run_world import RunWorld

CONTRACT = Path(__file__).parents[2] / "openapi.yaml"
_TOKEN = "a-token-that-may-start-runs"
#: What every request carries; given openly, so that the checks know to try without it, and with another one.
CREDENTIALS = {"Authorization": f"Bearer {_TOKEN}"}
#: Examples per operation; the default is what every test run can bear.
EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "6"))
#: What a good request may be answered with: nobody but the server knows the ids, the epochs and what is at work.
_TAKEN = ["2xx", 404, 409, 410, 429]
#: What a bad request may be answered with; one is too large before it is anything else.
_REFUSED = [400, 401, 403, 404, 405, 409, 413, 415, 422, 429]
#: The longest a generated request may wait for events, in seconds.
_WAIT_S = 0.05
_NUMBERS = itertools.count()
_SECONDS = re.compile(r"[0-9.]+")
_PLAIN_PATH = re.compile(r"[A-Za-z0-9]{1,100}(/[A-Za-z0-9]{1,100}){0,3}")


class Questioner(Workflow):
    """Asks one question with two options, and ends when it has been answered, declined, or nobody came."""

    async def run(self, runtime: Any, *, on_event: EventSink | None = None, on_step: Any = None) -> dict[str, Any]:
        """Ask and end."""
        assert self.channel is not None
        if self.channel.on_event is None:
            self.channel.on_event = on_event
        if on_event is not None:
            on_event(Event("step", "Ask", payload={"index": 1, "total": 1}))
        ask = await self.channel.ask("Which one?", ["this", "that"])
        return {"_results": {}, "Ask": ask.answer}


class QuestionerFlows(Flows):
    """The real checks of what may be started, with a :class:`Questioner` as every flow, which waits ``patience_s``."""

    def __init__(self, patience_s: float) -> None:
        super().__init__({})
        self._patience_s = patience_s

    def make(self, context: FlowContext, links: Links) -> Flow:
        """The flow of one run."""
        return Questioner([], channel=context.channel(timeout_s=self._patience_s))


@contextmanager
def fuzz_server(home: Path, *, patience_s: float) -> Iterator[str]:
    """The address of a server whose books lie in ``home``, and whose runs wait ``patience_s`` seconds for an answer."""
    settings = Settings(data_dir=home / "data", workspace_root=home / "work", token=_TOKEN)
    with ExitStack() as stack:
        world = RunWorld(home, flows=QuestionerFlows(patience_s), max_runs=100, queue=100)
        stack.callback(world.shut_down)
        keys = SqliteKeys(settings.data_dir / "idempotency.db")
        stack.callback(keys.close)
        app = create_app(settings, manager=world.manager, book=world.book, keys=keys)
        events = cast(EventsApp, app.wsgi_app)  # what it is with a book
        server = make_server(events, dispatcher=ParkingDispatcher(events))
        serving = threading.Thread(target=server.run, name="fuzzed")
        serving.start()
        stack.callback(serving.join, 10.0)
        stack.callback(server.close, 2.0)
        yield server.url


def fuzz_schema(url: str) -> BaseSchema:
    """The contract as something to generate requests to ``url`` from; the same ones every time."""
    config = SchemathesisConfig.from_dict(
        {
            "seed": 20260131,
            "base-url": url,
            "headers": CREDENTIALS,
            "cache": {"enabled": False},
            "generation": {"max-examples": EXAMPLES, "deterministic": True, "database": "none"},
            "checks": {
                "positive_data_acceptance": {"expected-statuses": _TAKEN},
                "negative_data_rejection": {"expected-statuses": _REFUSED},
            },
            # Sequences follow the links that the contract states, with requests that may succeed.
            "phases": {"stateful": {"generation": {"mode": "positive"}, "inference": {"algorithms": []}}},
            "operations": [
                # A cursor is whatever an earlier reply said, and no schema can.
                {
                    "include-operation-id": ["listRuns", "listFiles", "readFile"],
                    "checks": {"positive_data_acceptance": {"expected-statuses": [*_TAKEN, 400]}},
                }
            ],
        }
    )
    return schemathesis.openapi.from_path(CONTRACT, config=config)


def as_meant(case: Case[Any]) -> None:
    """Change ``case`` where a schema cannot say what the contract does, so that good requests are really good.

    A good request has an Idempotency-Key of its own, names the run once, writes whole numbers without a fraction, and
    does not both look back and go on; a run it starts is one that can be started. None waits for long, for the sake of
    the test's own time.
    """
    query, body = case.query, case.body
    if _SECONDS.fullmatch(str(query.get("wait"))) and float(query["wait"]) > _WAIT_S:
        query["wait"] = str(_WAIT_S)
    if case.meta is None or not case.meta.generation.mode.is_positive:
        return
    if "Idempotency-Key" in case.headers:
        case.headers["Idempotency-Key"] = f"key {next(_NUMBERS)}"
    if "after" in query:
        query.pop("tail", None)
    if not isinstance(body, dict):
        return
    if "run" in body:
        query.pop("run", None)
    for name, value in body.items():
        if isinstance(value, float) and value.is_integer():
            body[name] = int(value)
        elif isinstance(value, str) and value.isspace():  # regular expressions do not agree on what is blank
            body[name] = "x"
    if "option" in body:
        body["option"] = 1  # a Questioner gives two
    if (case.method, case.path) == ("POST", "/runs"):
        _make_startable(body)


def _make_startable(body: dict[str, Any]) -> None:
    """Take from a valid Start what this server has not got: other flows, sessions to resume, whatever it may not do."""
    for name in ("isolate", "resume", "fork", "params"):
        body.pop(name, None)
    if body.get("permission_mode") == "bypassPermissions":
        body["permission_mode"] = "dontAsk"
    once = body.get("tools") is not None or body.get("permission_mode") is not None
    body["flow"] = "once" if once else "starter"
    if not body.get("task", "").strip():
        body["task"] = "Do something"
    if not _PLAIN_PATH.fullmatch(body.get("workspace") or ""):
        body["workspace"] = f"w{next(_NUMBERS)}"
