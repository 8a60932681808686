"""The application: Flask for everything but the events, which :class:`EventsApp` serves in front of it."""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable, Sequence

from flask import Flask, Response, g, request
from werkzeug.exceptions import HTTPException, MethodNotAllowed, NotFound
from werkzeug.routing import RequestRedirect

from flower_http.access import MOST_METHOD, MOST_PATH, log_reply
from flower_http.auth import NOBODY, Guard
from flower_http.errors import CONTENT_TYPE, Problem, unavailable
from flower_http.headers import ALWAYS, REQUEST_ID, request_id
from flower_http.idempotency import KeyStore, SqliteKeys
from flower_http.journal import JournalUnavailable
from flower_http.log_book import LogBook
from flower_http.manager_api import Manager
from flower_http.metrics import UNMATCHED, Metrics
from flower_http.poll import EventsApp, is_events_path
from flower_http.routes import BLUEPRINTS
from flower_http.routes.view import EXTENSION, Services, services
from flower_http.settings import MAX_BODY_BYTES, Settings
from flower_http.tokens import TokenStore

_LOG = logging.getLogger(__name__)
_SLUGS = {400: "bad-request", 404: "not-found", 405: "method-not-allowed", 413: "body-too-large"}


def create_app(
    settings: Settings | None = None,
    *,
    manager: Manager | None = None,
    book: LogBook | None = None,
    tokens: TokenStore | None = None,
    keys: KeyStore | None = None,
    missing: Callable[[], Sequence[str]] = tuple,
    metrics: Metrics | None = None,
) -> Flask:
    """The app, for any WSGI server.

    Everything may be left out: settings come from the environment, tokens and idempotency keys live in the data dir;
    without a ``manager``, whatever concerns runs is answered with 503. ``missing`` says what else keeps the server
    from being ready. With a ``book`` the events are served too:
    ``app.wsgi_app`` then is the :class:`EventsApp`, to be handed to a server that parks readers.
    Raises :class:`flower_http.errors.StartError` for impossible settings or an unreadable tokens file.
    """
    settings = settings or Settings.load()
    tokens = tokens or TokenStore(settings.tokens_path, settings.token)
    app = Flask("flower_http", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = MAX_BODY_BYTES
    app.config["PROVIDE_AUTOMATIC_OPTIONS"] = False
    app.url_map.merge_slashes = False
    own = Services(
        settings=settings,
        guard=Guard(tokens, open_to_loopback=settings.on_loopback),
        keys=keys or SqliteKeys(settings.data_dir / "idempotency.db"),
        attached=manager,
        missing=missing,
        metrics=metrics or Metrics(book),
    )
    app.extensions[EXTENSION] = own
    for blueprint in BLUEPRINTS:
        app.register_blueprint(blueprint)
    _attend(app)
    if book is not None:
        app.wsgi_app = EventsApp(  # type: ignore[method-assign]
            book, own.guard, app.wsgi_app, own.resolve, observe=own.metrics.observe
        )
    return app


def _attend(app: Flask) -> None:
    """What happens before and after every request, and with whatever a view raises."""
    app.before_request(_begin)
    app.before_request(_refuse_redirects)
    app.after_request(_finish)
    app.register_error_handler(Problem, render)
    app.register_error_handler(HTTPException, _render_http)
    app.register_error_handler(sqlite3.Error, _render_disk)
    app.register_error_handler(JournalUnavailable, _render_disk)
    app.register_error_handler(Exception, _render_fault)


def render(problem: Problem) -> Response:
    """``problem`` as a response."""
    return Response(problem.body(), problem.status, {**problem.headers, "Content-Type": CONTENT_TYPE})


def _begin() -> None:
    g.began = time.perf_counter()


def _refuse_redirects() -> None:
    # Flask would answer with an HTML page that says where the address may have been meant to lead.
    if isinstance(request.routing_exception, RequestRedirect):
        raise NotFound


def _render_http(error: HTTPException) -> Response:
    status = error.code or 500
    if status == 404 and is_events_path(request.path):
        return render(Problem(405, "method-not-allowed", "events are read with GET", headers={"Allow": "GET, HEAD"}))
    headers: dict[str, str] = {}
    path = request.path[:MOST_PATH]
    detail = f"{request.method[:MOST_METHOD]} {path}: there is nothing here"
    if isinstance(error, MethodNotAllowed):
        headers["Allow"] = ", ".join(sorted(error.valid_methods or ()))
        detail = f"{path} takes {headers['Allow']}"
    elif status == 413:
        detail = f"a body may have at most {MAX_BODY_BYTES} bytes"
    elif status != 404:
        detail = error.description or error.name
    if status not in _SLUGS:
        status = 400 if status < 500 else 500
    return render(Problem(status, _SLUGS.get(status, "internal-error"), detail, headers=headers))


def _render_disk(error: Exception) -> Response:
    _LOG.error("request %s: the disk does not take what must be kept", request_id(request.environ), exc_info=error)
    detail = "nothing was done, because it could not be kept; try again"
    return render(unavailable(detail))


def _render_fault(error: Exception) -> Response:
    name = request_id(request.environ)
    _LOG.error("request %s failed", name, exc_info=error)
    return render(Problem(500, "internal-error", f"this is a fault of the server; its log has it under {name}"))


def _finish(response: Response) -> Response:
    response.headers[REQUEST_ID] = request_id(request.environ)
    for name, value in ALWAYS:
        response.headers[name] = value
    rule = request.url_rule.rule if request.url_rule is not None else UNMATCHED
    services().metrics.observe(rule, request.method, response.status_code, time.perf_counter() - g.began)
    name = g.principal.name if "principal" in g else NOBODY
    log_reply(name, request.method, request.path, response.status_code, request_id(request.environ))
    return response
