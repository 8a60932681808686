"""What a flow says of the parameters it is given, and what a client hears of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flower_http.errors import Problem
from flower_http.flow_registry import Flows
from flower_http.flows import FlowContext, Links
from flower_http.kit import Kit
from flower_http.places import Places
from flower_http.schemas import StartParams
from tests.http.run_world import RunWorld, refused

SOURCE = """
from flower_core.workflow import Workflow
from flower_http.flows import BadParam, takes

def read(params):
    if params.get("size") == "bug":
        raise KeyError("size")
    for name in params:
        if name not in ("size", "pair"):
            raise BadParam(name, "there is no such parameter; there are: size, pair")
    if params.get("size", "1") not in ("1", "2"):
        raise BadParam("size", f"must be 1 or 2, not {params['size']!r}")
    if len(params) == 2:
        raise ValueError("size and pair exclude each other")

@takes(read)
def careful(context):
    return Workflow([], name=str(context.params))

def trusting(context):
    return Workflow([], name=str(context.params))

def deaf():
    return Workflow([])

ready = Workflow([])
"""
NONE = "there is no such parameter: this flow takes none"


@pytest.fixture
def kit(tmp_path: Path) -> Kit:
    (tmp_path / "mine.py").write_text(SOURCE)
    names = ("careful", "trusting", "deaf", "ready")
    flows = Flows({name: f"{tmp_path / 'mine.py'}:{name}" for name in names})
    return Kit(flows, Places(tmp_path / "work", tmp_path / "data"), {})


def check(kit: Kit, flow: str, **params: str) -> None:
    kit.check(StartParams(task="x", flow=flow, params=params), kit.places.root / "w", "en")


@pytest.mark.parametrize(
    ("flow", "params", "errors"),
    [
        ("careful", {"size": "3"}, {"params.size": ["must be 1 or 2, not '3'"]}),
        ("careful", {"colour": "red"}, {"params.colour": ["there is no such parameter; there are: size, pair"]}),
        ("careful", {"size": "1", "pair": "2"}, {"params": ["size and pair exclude each other"]}),
        ("deaf", {"size": "1", "n": "2"}, {"params.size": [NONE], "params.n": [NONE]}),
        ("ready", {"size": "1"}, {"params.size": [NONE]}),
    ],
)
def test_a_parameter_the_flow_cannot_take_is_refused_by_name_and_nothing_is_made(
    kit: Kit, flow: str, params: dict[str, str], errors: dict[str, Any]
) -> None:
    with pytest.raises(Problem) as raised:
        check(kit, flow, **params)
    problem = raised.value
    assert (problem.status, problem.slug, problem.extra["errors"]) == (422, "invalid-body", errors)
    assert list(kit.places.root.iterdir()) == []


@pytest.mark.parametrize(
    ("flow", "params"),
    [("careful", {"size": "2"}), ("careful", {}), ("trusting", {"size": "3"}), ("deaf", {}), ("ready", {})],
)
def test_what_a_flow_takes_or_does_not_look_at_passes(kit: Kit, flow: str, params: dict[str, str]) -> None:
    check(kit, flow, **params)


def test_a_flow_that_checks_is_made_as_any_other(kit: Kit, tmp_path: Path) -> None:
    asked = StartParams(task="x", flow="careful", params={"size": "2"})
    context: FlowContext = kit.context(asked, kit.places.root / "w", "en")
    made: Any = kit.flows.make(context, Links(tmp_path / "session.json"))
    assert made.name == "{'size': '2'}"


def test_a_mistake_in_the_check_itself_is_no_fault_of_the_client(kit: Kit) -> None:
    with pytest.raises(KeyError):
        check(kit, "careful", size="bug")


def test_a_refused_parameter_leaves_no_run_and_no_workspace(world: RunWorld) -> None:
    problem = refused(lambda: world.start("x", "a", flow="plain", params={"size": "3"}))
    assert problem.extra["errors"] == {"params.size": [NONE]}
    assert world.manager.list(state=None, labels={}, limit=10, cursor=None) == ([], None)
    assert not (world.home / "work" / "a").exists()
    assert world.start("x", "a", flow="plain").workspace == "a", "nothing of the first keeps the workspace"
