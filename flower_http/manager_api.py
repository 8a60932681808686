"""What the routes need of the thing that runs runs, as a Protocol: the seam between HTTP and runs.py."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

from flower_http.documents import Document
from flower_http.files import Tree
from flower_http.oracles import OracleQuestion
from flower_http.projection import RunView
from flower_http.schemas import StartParams
from flower_http.views import AskView, MailView

#: The form of every run id: URL-safe, and harmless as the name of a directory. Checked before any look-up.
RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", re.ASCII)

AskFilter = Literal["waiting", "all"]
RUN_STATES: tuple[str, ...] = ("queued", "running", "waiting", "succeeded", "failed", "cancelled", "interrupted")


class Manager(Protocol):
    """Starts runs, knows them, steers them. Every method may be called from any thread.

    What cannot be done is raised as :class:`flower_http.errors.Problem`: ``unknown-run`` and ``unknown-ask`` (404),
    conflicts (409), full queues (429), a journal that does not take what must be kept (503).
    """

    def start(self, params: StartParams, *, by: str, key: str = "", again: bool = False) -> RunView:
        """Queue a new run on behalf of the token named ``by``.

        ``key`` identifies the request; ``again``: one with this key may have been acted on before the server went
        down, and then the run it started is meant.
        """
        ...

    def get(self, run_id: str) -> RunView:
        """The run as committed."""
        ...

    def list(
        self, *, state: str | None, labels: Mapping[str, str], limit: int, cursor: str | None
    ) -> tuple[Sequence[RunView], str | None]:
        """At most ``limit`` runs, newest first, and where to go on (None at the end).

        ``cursor`` is what an earlier call returned; ValueError when it is not.
        """
        ...

    def resolve(self, run: str | None) -> str:
        """The run meant by a root verb: ``run`` itself, else the one unfinished run, else the one that ended last."""
        ...

    def asks(self, run_id: str, state: AskFilter) -> Sequence[AskView]:
        """The questions of a run, oldest first."""
        ...

    def answer(
        self, run_id: str, ask_id: str, *, text: str | None = None, option: int | None = None, by: str
    ) -> tuple[AskView, bool]:
        """Answer by ``text`` or by the 1-based ``option``; True with the very same answer once more from ``by``.

        Returns only after the answer has been kept.
        """
        ...

    def decline(self, run_id: str, ask_id: str, *, reason: str, by: str) -> tuple[AskView, bool]:
        """Decline a question; as :meth:`answer`."""
        ...

    def send(self, run_id: str, text: str, *, key: str = "") -> MailView:
        """Put ``text`` into the inbox of the run's agent, unless a request with this ``key`` has done so already."""
        ...

    def inbox(self, run_id: str) -> Sequence[MailView]:
        """What was said, oldest first, and whether the agent has taken it."""
        ...

    def interrupt(self, run_id: str, text: str, *, key: str = "") -> None:
        """Stop what the agent does now and let it go on with ``text`` in mind, which is then in the inbox, too.

        Nothing when a request with this ``key`` has said it already.
        """
        ...

    def ask_oracle(self, run_id: str, question: str, *, key: str = "") -> OracleQuestion:
        """Have a question about the run answered on the side, unless a request with this ``key`` has done so already.

        The question is kept when this returns; its answer is still to come.
        """
        ...

    def oracle_answer(self, run_id: str, question_id: str) -> OracleQuestion:
        """A question about the run, and its answer as far as there is one."""
        ...

    def cancel(self, run_id: str) -> RunView:
        """End the run; a run that has ended stays as it is."""
        ...

    def resume(self, run_id: str) -> RunView:
        """Let an interrupted run go on."""
        ...

    def delete(self, run_id: str) -> None:
        """Forget a run that has ended, and all that is its own; its workspace stays."""
        ...

    def files(self, run_id: str) -> Tree:
        """The files of the run's workspace."""
        ...

    def documents(self, run_id: str) -> Sequence[Document]:
        """The documents of the run, as far as they exist."""
        ...

    def steps(self, run_id: str) -> Sequence[Mapping[str, Any]]:
        """The manifest rows of this run."""
        ...

    def ready(self) -> Sequence[str]:
        """Why runs cannot be started just now; empty when they can."""
        ...
