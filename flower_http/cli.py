"""flower-server: the commands, joined to the service they serve."""

from __future__ import annotations

from flower_http.commands import make_cli
from flower_http.wiring import build_service

main = make_cli(build_service)
