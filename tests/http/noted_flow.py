"""Gated flows that have a workbench: the usual one, or one of their own outside the workspace."""

from __future__ import annotations

from flower_core import Workbench
from flower_core.workflow import Workflow
from flower_http.flows import FlowContext
from tests.http.gated_flow import Gated


def make(context: FlowContext) -> Workflow:
    """With the workbench every run is offered."""
    bench = context.workbench.ensure()
    return Gated([], context={"task": context.task}, channel=context.channel(), workbench=bench)


def make_elsewhere(context: FlowContext) -> Workflow:
    """With a workbench beside the workspace."""
    bench = Workbench(context.workspace, home=f"../.bench-{context.workspace.name}", lang="en").ensure()
    return Gated([], context={"task": context.task}, channel=context.channel(), workbench=bench)
