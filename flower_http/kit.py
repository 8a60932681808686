"""What every run of a server is made with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from flower_core.workbench import Workbench
from flower_http.errors import invalid_body
from flower_http.flows import FlowContext, Flows
from flower_http.places import Places
from flower_http.recovery import OpenAsks
from flower_http.relay import Relay
from flower_http.schemas import StartParams


@dataclass(frozen=True)
class Kit:
    """What every job of a server needs: how to reach a model, where things lie, which flows there are."""

    flows: Flows
    places: Places
    environ: Mapping[str, str]
    relay: Relay | None = None
    open_asks: OpenAsks = field(default_factory=OpenAsks)

    def context(self, params: StartParams, workspace: Path, lang: str) -> FlowContext:
        """What a flow is told about the run it is made for."""
        bench = Workbench(workspace, lang=lang)
        return FlowContext(params.task, workspace, self.places.books(workspace), bench, params, lang)

    def check(self, params: StartParams, workspace: Path, lang: str) -> None:
        """Refuse what no run can be made of. Raises Problem 422."""
        try:
            self.flows.check(params, self.context(params, workspace, lang))
        except ValueError as error:
            raise invalid_body({"flow": [str(error)]}) from error
