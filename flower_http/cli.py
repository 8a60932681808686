"""flower-server: the commands, joined to the service they serve."""

from __future__ import annotations

import pkgutil

from flower_http.commands import make_cli
from flower_http.serving import BuildService, Service
from flower_http.settings import Settings

#: Named, not imported: only `serve` needs the agent SDK and Flask, which take longer to load than all else.
_BUILD = "flower_http.wiring:build_service"


def build_service(settings: Settings) -> Service:
    """A server for ``settings``, ready to be started; see :func:`flower_http.wiring.build_service`."""
    build: BuildService = pkgutil.resolve_name(_BUILD)
    return build(settings)


main = make_cli(build_service)
