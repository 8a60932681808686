"""What every view has in common: who may call it, what it takes, and that a repeated POST acts once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import IO, Any, NamedTuple, TypeVar, cast

from flask import Blueprint, Response, current_app, g, request
from werkzeug.wsgi import wrap_file

from flower_http.auth import Guard, Principal
from flower_http.bodies import decode, decode_query
from flower_http.errors import Problem, bad_parameter, unknown_run
from flower_http.idempotency import HEADER, KeyStore, check_key, digest, serve_once
from flower_http.manager_api import RUN_ID, Manager
from flower_http.metrics import Metrics
from flower_http.replies import FileReply, Reply
from flower_http.schemas import Body, load
from flower_http.settings import Settings

EXTENSION = "flower"
AnyReply = Reply | FileReply
View = TypeVar("View", bound=Callable[..., AnyReply])


class Param(NamedTuple):
    """A query parameter: its name, how its text becomes a value (ValueError = 400), and its value when left out."""

    name: str
    parse: Callable[[str], Any]
    default: Any = None


@dataclass(frozen=True)
class Services:
    """What the views work with; one per app."""

    settings: Settings
    guard: Guard
    keys: KeyStore
    attached: Manager | None = None
    missing: Callable[[], Sequence[str]] = tuple
    metrics: Metrics = field(default_factory=Metrics)

    @property
    def manager(self) -> Manager:
        """The manager of runs. Raises Problem 503 in an app that was made without one."""
        if self.attached is None:
            raise Problem(503, "not-ready", "no run manager is attached to this app")
        return self.attached

    def resolve(self, run: str | None) -> str:
        """The run a verb at the root means."""
        return self.manager.resolve(run)


def services() -> Services:
    """The services of the current app."""
    found: Services = current_app.extensions[EXTENSION]
    return found


def manager() -> Manager:
    """The manager of the current app."""
    return services().manager


def caller() -> str:
    """The name of the token that made this request."""
    principal: Principal = g.principal
    return principal.name


def about(run_id: str) -> None:
    """Say which run this request is about, where its path does not: what is kept of the reply goes with that run."""
    g.run_id = run_id


def idempotency() -> tuple[str, bool]:
    """The digest of this request's idempotency key ("" without one), and whether it may have been acted on before."""
    return g.get("key", ""), g.get("again", False)


def view(
    blueprint: Blueprint,
    method: str,
    rule: str,
    *,
    scope: str | None,
    body: type[Body] | None = None,
    query: tuple[Param, ...] = (),
) -> Callable[[View], View]:
    """Register a function that returns a :class:`Reply`, or for GET a :class:`FileReply`, at ``method rule``.

    It is called with the parts of the path, with ``body`` = what ``body``'s schema made of the request, and with
    ``query`` = a dict holding every parameter of ``query``. ``scope`` None means: no token needed.
    """

    def decorate(function: View) -> View:
        @functools.wraps(function)
        def handle(**path: str) -> Response:
            principal = _admit(scope)
            arguments: dict[str, Any] = {**path}
            parameters = _query(query)
            if query:
                arguments["query"] = parameters
            if "run_id" in path:
                check_run_id(path["run_id"])
                about(path["run_id"])

            def act(again: bool = False) -> AnyReply:
                g.again = again
                if body is not None:
                    how = (request.headers.get(name, "") for name in ("Content-Type", "Content-Encoding"))
                    arguments["body"] = load(body(), decode(request.get_data(), *how))
                return function(**arguments)

            return _respond(_once(principal, act) if method == "POST" else act())

        handle.flower = {"scope": scope, "body": body, "query": query}  # type: ignore[attr-defined]
        blueprint.add_url_rule(rule, f"{method} {rule}".replace(".", "_"), handle, methods=[method])
        return function

    return decorate


def check_run_id(run_id: str) -> None:
    """Raise Problem 404 for what cannot be a run id, before anything is looked up by it."""
    if not RUN_ID.fullmatch(run_id):
        raise unknown_run(run_id)


def _admit(scope: str | None) -> Principal:
    g.principal = services().guard(request.environ, scope)
    principal: Principal = g.principal
    return principal


def _query(known: tuple[Param, ...]) -> dict[str, Any]:
    sent = decode_query(request.query_string.decode("latin-1"))
    found: dict[str, Any] = {param.name: param.default for param in known}
    parsers = {param.name: param.parse for param in known}
    for name, text in sent.items():
        if name not in parsers:
            raise bad_parameter(name, f"is unknown here; there are: {', '.join(parsers) or 'none'}")
        try:
            found[name] = parsers[name](text)
        except ValueError as error:
            raise bad_parameter(name, str(error)) from error
    return found


def _once(principal: Principal, act: Callable[[bool], AnyReply]) -> AnyReply:
    sent = request.headers.get(HEADER)
    if sent is None:
        return act(False)
    check_key(sent)
    key = g.key = digest(principal.identity, request.method, request.path, sent)
    fingerprint = digest(request.query_string, request.headers.get("Content-Type", ""), request.get_data())
    return serve_once(
        services().keys, key, fingerprint, lambda again: cast(Reply, act(again)).about(g.get("run_id", ""))
    )


def _respond(reply: AnyReply) -> Response:
    if isinstance(reply, FileReply):
        # Handed on as it is: waitress then sends the file itself, without a worker thread for as long as that takes.
        body = wrap_file(request.environ, cast(IO[bytes], reply.body))
        return Response(body, reply.status, list(reply.headers), direct_passthrough=True)
    response = Response(reply.body, reply.status, list(reply.headers))
    if not reply.body:
        del response.headers["Content-Type"]  # Flask's own, that of a page
    return response
