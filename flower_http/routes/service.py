"""The service about itself."""

from __future__ import annotations

from functools import cache
from importlib import metadata, resources

from flask import Blueprint

from flower_http.errors import Problem
from flower_http.metrics import CONTENT_TYPE
from flower_http.replies import Reply, json_reply
from flower_http.routes.view import manager, services, view

blueprint = Blueprint("service", __name__)

_LINKED = ("runs", "asks", "events", "inbox", "healthz", "readyz", "metrics", "openapi.yaml")
_LINKS = {name: f"/{name}" for name in _LINKED}


@cache
def contract() -> bytes:
    """The OpenAPI document, as shipped."""
    return resources.files("flower_http").joinpath("openapi.yaml").read_bytes()


@view(blueprint, "GET", "/", scope="read")
def root() -> Reply:
    """Name, version, links."""
    return json_reply({"name": "flower", "version": metadata.version("flower-http"), "links": _LINKS})


@view(blueprint, "GET", "/healthz", scope=None)
def healthz() -> Reply:
    """Alive."""
    return json_reply({"ok": True})


@view(blueprint, "GET", "/readyz", scope="read")
def readyz() -> Reply:
    """Whether runs can be started; 503 with the reasons why not."""
    reasons = [*manager().ready(), *services().missing()]
    if reasons:
        raise Problem(503, "not-ready", "; ".join(reasons), headers={"Retry-After": "5"}, reasons=reasons)
    return json_reply({"ready": True, "reasons": []})


@view(blueprint, "GET", "/metrics", scope="read")
def metrics() -> Reply:
    """The metrics, for Prometheus."""
    return Reply(200, services().metrics.render(), (("Content-Type", CONTENT_TYPE),))


@view(blueprint, "GET", "/openapi.yaml", scope="read")
def openapi() -> Reply:
    """The contract, machine-readable."""
    return Reply(200, contract(), (("Content-Type", "application/yaml"),))
