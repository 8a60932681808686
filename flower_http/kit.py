"""What every run of a server is made with."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from flower_core.aside import OracleAnswer, ask_oracle
from flower_core.claude.agent_user import AgentUser
from flower_core.workbench import workbench_of
from flower_http.errors import invalid_body
from flower_http.flow_registry import Flows
from flower_http.flows import FlowContext
from flower_http.places import Places
from flower_http.recovery import OpenAsks
from flower_http.relay import Relay
from flower_http.schemas import StartParams

#: As :func:`ask_oracle`.
AskOracle = Callable[..., Coroutine[Any, Any, OracleAnswer]]


@dataclass(frozen=True)
class Kit:
    """What every job of a server needs: how to reach a model, where things lie, which flows there are.

    ``oracle`` answers questions from the side; ``agent_user`` is as whom agents run, None for the server's own user.
    """

    flows: Flows
    places: Places
    environ: Mapping[str, str]
    relay: Relay | None = None
    oracle: AskOracle = ask_oracle
    agent_user: AgentUser | None = None
    open_asks: OpenAsks = field(default_factory=OpenAsks)

    def context(self, params: StartParams, workspace: Path, lang: str) -> FlowContext:
        """What a flow is told about the run it is made for."""
        bench = workbench_of(workspace, isolate=params.isolate, lang=lang)
        books = self.places.books(workspace)
        return FlowContext(params.task, workspace, books, bench, params.params, lang, request=params)

    def check(self, params: StartParams, workspace: Path, lang: str) -> None:
        """Refuse what no run can be made of. Raises Problem 422."""
        try:
            context = self.context(params, workspace, lang)
        except RuntimeError as error:  # from Python 3.13 on what is met of them later, and is an OSError
            raise invalid_body({"workspace": ["has a workbench that is a link in a circle"]}) from error
        bench, user = context.workbench.root, self.agent_user
        # By a link; whatever it leads to would be opened to the agents.
        if not bench.is_relative_to(self.places.root):
            raise invalid_body({"workspace": ["has a workbench that is a link out of the server's workspace root"]})
        if user is not None and not user.may_admit(bench, workspace):
            raise invalid_body({"workspace": ["has a workbench that is a link into another workspace"]})
        try:
            self.flows.check(context)
        except ValueError as error:
            raise invalid_body({"flow": [str(error)]}) from error
        except OSError as error:  # agents may have put anything in the place of a document
            where = Path(str(error.filename or bench)).name
            raise invalid_body({"workspace": [f"cannot be looked at: {where}: {error.strerror or error}"]}) from error

    def way_to_model(self) -> AbstractContextManager[Mapping[str, str]]:
        """What a session's environment is made of: a token of its own, wherever there is a relay to take it.

        The token is good until the context is left.
        """
        return nullcontext(self.environ) if self.relay is None else self.relay.lend(self.environ)

    def admit(self, config_dir: Path, workspace: Path, *more: Path) -> Mapping[str, str]:
        """Let agents into the places of a run: see :meth:`AgentUser.admit`. Nothing where they run as the server."""
        return {} if self.agent_user is None else self.agent_user.admit(config_dir, workspace, *more)

    @property
    def upstream(self) -> str:
        """The endpoint behind the relay, "" where there is none."""
        return "" if self.relay is None else self.relay.upstream

    def row(self, run_id: str, params: StartParams, workspace: Path, lang: str, **more: Any) -> dict[str, Any]:
        """What is kept of how a run was started; ``more`` joins its parameters."""
        return {
            "id": run_id,
            "flow": params.flow,
            "task": params.task,
            "workspace": self.places.shown(workspace),
            "lang": lang,
            "labels": params.labels,
            "params": {**asdict(params), **more},
        }
