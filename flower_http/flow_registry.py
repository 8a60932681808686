"""The flows of one server by name: those built in, and those the operator registered with ``--flow``."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from flower_core.workflow import Workflow
from flower_core.worktrees import check_repository
from flower_http.built_in_flows import ONCE_STEP, check_once, check_starter, once, starter
from flower_http.errors import Problem, StartError, invalid_body
from flower_http.flows import BadParam, Flow, FlowContext, Links, reader_of


class Flows:
    """The flows of one server: the two built in, and ``registered`` names with their import targets.

    A target is ``module:attr`` or ``file.py:attr``. Raises StartError for one that cannot be loaded.
    """

    def __init__(self, registered: Mapping[str, str]) -> None:
        self._registered = {name: _load(name, target) for name, target in registered.items()}

    def check(self, context: FlowContext) -> None:
        """Refuse what cannot be run, before anything is kept of it. Raises Problem 422."""
        params = context.request
        if params.isolate:
            _check_isolation(context.workspace)
        if params.flow == "starter":
            check_starter(context)
        elif params.flow == ONCE_STEP:
            check_once(context)
        elif params.flow in self._registered:
            _check_params(self._registered[params.flow], params.params)
        else:
            names = ", ".join(["starter", "once", *self._registered])
            raise Problem(422, "unknown-flow", f"there is no flow {params.flow!r}; there are: {names}")

    def make(self, context: FlowContext, links: Links) -> Flow:
        """The flow of one run. Raises what the flow's own maker raises."""
        name = context.request.flow
        if name == "starter":
            return starter(context, links)
        if name == ONCE_STEP:
            return once(context, links)
        flow = self._custom(name, context)
        # A copy: a ready object must not tell its next run what was said to this one.
        return replace(flow, opening=links.opening, cut_off=links.cut_off) if links.opening or links.cut_off else flow

    def alone(self, name: str) -> str:
        """``name`` if that flow is one object, which serves one run at a time; else ""."""
        return name if isinstance(self._registered.get(name), Workflow) else ""

    def _custom(self, name: str, context: FlowContext) -> Workflow:
        target = self._registered[name]
        if isinstance(target, Workflow):
            return target
        made = target(context) if _takes_argument(target) else target()
        if not isinstance(made, Workflow):
            raise TypeError(f"flow {name!r} made a {type(made).__name__}, not a Workflow")
        return made


def _check_isolation(workspace: Path) -> None:
    try:
        check_repository(workspace)
    except (OSError, ValueError) as error:
        raise invalid_body({"isolate": [str(error)]}) from error


def _check_params(target: Any, params: Mapping[str, str]) -> None:
    """Raise Problem 422, naming the parameter, for what the flow of ``target`` does not take."""
    if isinstance(target, Workflow) or not _takes_argument(target):
        if params:  # it would never hear of them
            raise invalid_body(
                {f"params.{name}": ["there is no such parameter: this flow takes none"] for name in params}
            )
        return
    read = reader_of(target)
    if read is None:
        return
    try:
        read(dict(params))
    except BadParam as error:
        raise invalid_body({f"params.{error.name}": [error.why]}) from error
    except ValueError as error:
        raise invalid_body({"params": [str(error)]}) from error


def _load(name: str, target: str) -> Any:
    place, _, attribute = target.rpartition(":")
    try:
        module = _load_file(name, Path(place)) if place.endswith(".py") else importlib.import_module(place)
        found = getattr(module, attribute)
    except (Exception, SystemExit) as error:  # a script without a main guard may end the program
        raise StartError(f"--flow {name}={target}: {type(error).__name__}: {error}") from error
    if not isinstance(found, Workflow) and not callable(found):
        raise StartError(f"--flow {name}={target}: is a {type(found).__name__}, neither a Workflow nor callable")
    return found


def _load_file(name: str, path: Path) -> Any:
    module_name = f"flower_flow_{name.replace('-', '_')}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module  # dataclasses and pickling look a class's module up there
    spec.loader.exec_module(module)
    return module


def _takes_argument(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function).bind(object())
    except TypeError:
        return False
    return True
