"""The addresses of the service, one module a topic."""

from __future__ import annotations

from flask import Blueprint

from flower_http.routes import asks, runs, service, steering

BLUEPRINTS: tuple[Blueprint, ...] = (service.blueprint, runs.blueprint, asks.blueprint, steering.blueprint)
