"""The addresses of the service, one module a topic."""

from __future__ import annotations

from flask import Blueprint

from flower_http.routes import asks, files, oracle, runs, service, steering

BLUEPRINTS: tuple[Blueprint, ...] = (
    service.blueprint,
    runs.blueprint,
    files.blueprint,
    asks.blueprint,
    steering.blueprint,
    oracle.blueprint,
)
