"""A Manager that keeps runs in memory: enough to hold the routes to their contract without an agent."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from flower_http.documents import Document
from flower_http.errors import Problem, unknown_run
from flower_http.files import Tree
from flower_http.manager_api import AskFilter
from flower_http.oracles import OracleQuestion
from flower_http.projection import RunView
from flower_http.schemas import StartParams
from flower_http.views import AskView, MailView

NOW = "2026-01-31T09:45:12.123Z"


class MemoryManager:
    """Runs start at once and go on until a test ends them. ``started`` holds (params, by) of every start."""

    def __init__(self, queue: int = 100) -> None:
        self.runs: dict[str, RunView] = {}
        self.started: list[tuple[StartParams, str]] = []
        self.interrupts: list[tuple[str, str]] = []
        self.questions: dict[str, list[OracleQuestion]] = {}
        self.reasons: list[str] = []
        self.queue = queue
        #: Where the workspaces lie, for the tests that need files.
        self.workspaces = Path("/nonexistent")
        self._lock = threading.Lock()

    def start(self, params: StartParams, *, by: str, key: str = "", again: bool = False) -> RunView:
        with self._lock:
            if len(self.runs) >= self.queue:
                raise Problem(429, "queue-full", "try again later", headers={"Retry-After": "30"})
            if params.flow == "solo" and self.runs:
                raise Problem(409, "flow-busy", "it serves one run at a time")
            if params.flow not in ("starter", "once"):
                raise Problem(422, "unknown-flow", f"there is no flow {params.flow!r}")
            busy = next((run.id for run in self._unfinished() if run.workspace == params.workspace), None)
            if busy:
                raise Problem(409, "workspace-busy", f"{busy} works in it", run=busy)
            self.started.append((params, by))
            run_id = f"20260131t094512{len(self.runs):03d}-5f0c"
            self.runs[run_id] = RunView(
                id=run_id,
                epoch="e1",
                state="running",
                flow=params.flow,
                task=params.task,
                workspace=params.workspace or run_id,
                lang=params.lang or "",
                labels=params.labels,
                created_at=NOW,
            )
            return self.runs[run_id]

    def put(self, run_id: str, **changes: Any) -> None:
        """Change a run as its events would have."""
        self.runs[run_id] = replace(self.runs[run_id], **changes)

    def get(self, run_id: str) -> RunView:
        if run_id not in self.runs:
            raise unknown_run(run_id)
        return self.runs[run_id]

    def list(
        self, *, state: str | None, labels: Mapping[str, str], limit: int, cursor: str | None
    ) -> tuple[Sequence[RunView], str | None]:
        if cursor is not None and cursor not in self.runs:
            raise ValueError("no such cursor")
        found = [
            run
            for run in sorted(self.runs.values(), key=lambda run: run.id, reverse=True)
            if (cursor is None or run.id < cursor)
            and state in (None, run.state)
            and all(run.labels.get(name) == value for name, value in labels.items())
        ]
        return found[:limit], found[limit - 1].id if len(found) > limit else None

    def resolve(self, run: str | None) -> str:
        if run is not None:
            return self.get(run).id
        unfinished = [view.id for view in self._unfinished()]
        if len(unfinished) > 1:
            raise Problem(409, "which-run", "name one", runs=unfinished)
        ids = unfinished or sorted(self.runs)
        if not ids:
            raise Problem(404, "unknown-run", "there is no run yet")
        return ids[-1]

    def asks(self, run_id: str, state: AskFilter) -> Sequence[AskView]:
        return [ask for ask in self.get(run_id).asks if state == "all" or ask.state == "asked"]

    def answer(
        self, run_id: str, ask_id: str, *, text: str | None = None, option: int | None = None, by: str
    ) -> tuple[AskView, bool]:
        ask = self._ask(run_id, ask_id)
        words = text if option is None else ask.options[option - 1]
        return self._settle(run_id, ask, "answered", words or "", by)

    def decline(self, run_id: str, ask_id: str, *, reason: str, by: str) -> tuple[AskView, bool]:
        return self._settle(run_id, self._ask(run_id, ask_id), "declined", reason, by)

    def send(self, run_id: str, text: str, *, key: str = "") -> MailView:
        run = self._running(run_id)
        mail = MailView(f"m{len(run.mail) + 1}", text=text, at=NOW)
        self.put(run_id, mail=(*run.mail, mail))
        return mail

    def inbox(self, run_id: str) -> Sequence[MailView]:
        return self.get(run_id).mail

    def interrupt(self, run_id: str, text: str, *, key: str = "") -> None:
        self._running(run_id)
        self.interrupts.append((run_id, text))

    def ask_oracle(self, run_id: str, question: str, *, key: str = "") -> OracleQuestion:
        self.get(run_id)
        asked = self.questions.setdefault(run_id, [])
        if question == "again" and asked:
            raise Problem(429, "oracle-busy", "one at a time", headers={"Retry-After": "5"})
        asked.append(OracleQuestion(f"o{len(asked) + 1}", question, NOW, ref=key))
        return asked[-1]

    def oracle_answer(self, run_id: str, question_id: str) -> OracleQuestion:
        self.get(run_id)
        for asked in self.questions.get(run_id, ()):
            if asked.id == question_id:
                return replace(asked, state="answered", answer="All is well.", cost_usd=0.02, answered_at=NOW)
        raise Problem(404, "unknown-question", f"there is no {question_id!r}")

    def cancel(self, run_id: str) -> RunView:
        if not self.get(run_id).final:
            self.put(run_id, state="cancelled", ended_at=NOW)
        return self.get(run_id)

    def resume(self, run_id: str) -> RunView:
        if self.get(run_id).state != "interrupted":
            raise Problem(409, "not-interrupted", f"the run is {self.get(run_id).state}")
        self.put(run_id, state="queued")
        return self.get(run_id)

    def delete(self, run_id: str) -> None:
        if not self.get(run_id).final:
            raise Problem(409, "not-ended", f"the run is {self.get(run_id).state}")
        del self.runs[run_id]

    def files(self, run_id: str) -> Tree:
        return Tree(self.workspaces, (self.get(run_id).workspace,))

    def documents(self, run_id: str) -> Sequence[Document]:
        self.get(run_id)
        return [Document("brief", "brief", 1.0, "# Goal\n\nTo greet.\n")]

    def steps(self, run_id: str) -> Sequence[Mapping[str, Any]]:
        self.get(run_id)
        times = {"started_at": 1.0, "ended_at": 2.5, "duration_s": 1.5}
        return [
            {
                "step": "Clarify",
                "session_id": "s",
                "ok": True,
                "cost_usd": 0.1,
                "num_turns": 2,
                "attempts": 1,
                "run": run_id,
                **times,
            }
        ]

    def ready(self) -> Sequence[str]:
        return self.reasons

    def _unfinished(self) -> Sequence[RunView]:
        return [run for run in self.runs.values() if not run.final]

    def _running(self, run_id: str) -> RunView:
        if self.get(run_id).final:
            raise Problem(409, "not-running", "the run has ended")
        return self.get(run_id)

    def _ask(self, run_id: str, ask_id: str) -> AskView:
        ask = self.get(run_id).ask(ask_id)
        if ask is None:
            raise Problem(404, "unknown-ask", f"there is no question {ask_id!r}")
        return ask

    def _settle(self, run_id: str, ask: AskView, state: str, words: str, by: str) -> tuple[AskView, bool]:
        settled = replace(ask, state=state, answer=words, answered_by=by, settled_at=NOW)
        if ask.state == "asked":
            self.put(run_id, asks=tuple(settled if one.id == ask.id else one for one in self.get(run_id).asks))
            return settled, False
        if (ask.state, ask.answer, ask.answered_by) == (state, words, by):
            return ask, True
        raise Problem(409, "ask-settled", f"it is {ask.state}", ok=False, ask=ask.to_json())
