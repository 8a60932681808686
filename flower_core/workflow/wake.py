"""What an earlier run left behind in a workspace, and what happens to it: woken with words, or put away."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

from flower_core.documents import Brief, frozen_handoffs
from flower_core.lineage import FILE_NAME, Lineage, archive
from flower_core.texts import DEFAULT_LANG, texts_for
from flower_core.workbench import Workbench, workbench_of
from flower_core.workflow.clarify import load_brief
from flower_core.workflow.goal import load_goal


@dataclass(frozen=True)
class Places:
    """The files of a starter flow, with their names in its language unless others are given."""

    workbench: Workbench
    run_dir: Path
    brief: Path
    goal: Path
    log: Path
    lang: str

    @classmethod
    def of(
        cls,
        workbench: Workbench,
        run_dir: Path | str,
        lang: str,
        *,
        brief_name: str | None = None,
        goal_name: str | None = None,
        log_name: str | None = None,
    ) -> Places:
        """The places in ``workbench`` and ``run_dir``; nothing is made."""
        texts, notes = texts_for(lang), workbench.notes
        return cls(
            workbench,
            Path(run_dir).expanduser().resolve(),
            notes / (brief_name or texts("workflow.files.brief")),
            notes / (goal_name or texts("workflow.files.goal")),
            notes / (log_name or texts("workflow.files.questions")),
            lang,
        )

    def as_found(self) -> Places:
        """Where the files are now, for a workbench that is about to be moved: to be read only."""
        now, then = self.workbench.as_found(), self.workbench
        if now is then:
            return self
        brief, goal, log = (now.root / path.relative_to(then.root) for path in (self.brief, self.goal, self.log))
        return replace(self, workbench=now, brief=brief, goal=goal, log=log)


@dataclass(frozen=True)
class WakeState:
    """What there is to wake: documents that are complete, and sessions by step name.

    Whether a session is still in the store is only known to the runtime that would resume it.
    """

    brief: bool
    goal: bool
    sessions: dict[str, str]

    @property
    def anything(self) -> bool:
        """Whether a run can go on without being told what to do."""
        return self.brief or bool(self.sessions)


def wake_state(
    workspace: Path | str = ".",
    run_dir: Path | str = "runs",
    *,
    workbench: Workbench | None = None,
    brief_name: str | None = None,
    goal_name: str | None = None,
    lang: str = DEFAULT_LANG,
) -> WakeState:
    """Look at what an earlier starter flow left in ``workspace`` and ``run_dir``. Changes nothing on disk."""
    bench = workbench or workbench_of(workspace, lang=lang)
    places = Places.of(bench, run_dir, lang, brief_name=brief_name, goal_name=goal_name)
    return state_of(places.as_found())


def state_of(places: Places) -> WakeState:
    """As :func:`wake_state`, for places already known."""
    brief = load_brief(places.brief, places.lang)
    goal = load_goal(places.goal, places.lang)
    lineage = Lineage(places.run_dir / FILE_NAME, places.workbench.workspace).load(lambda session_id: True)
    texts = texts_for(places.lang)
    names = [texts(f"workflow.steps.{step}") for step in ("clarify", "goal", "work")]
    sessions = {name: session for name in names if (session := lineage.get(name))}
    return WakeState(
        brief is not None and brief.complete(),
        goal is not None and goal.complete(),
        sessions,
    )


def put_away(places: Places) -> None:
    """Move lineage, brief, goal and handoffs to ``notes/archive/<stamp>/``: the next run starts from nothing."""
    notes = places.workbench.notes
    stamp = time.strftime("%Y%m%d-%H%M%S")
    handoffs = [str(path.relative_to(notes)) for path in frozen_handoffs(notes)]
    archive(places.run_dir, notes, [places.brief.name, places.goal.name, *handoffs], stamp)


def say(places: Places, words: str) -> None:
    """Append ``words`` to the brief under a dated heading."""
    label = texts_for(places.lang)("workflow.labels.woken")
    Brief.append_amendment(places.brief, words, label=label, lang=places.lang)


def goal_is_older(places: Places) -> bool:
    """Whether something was added to the brief after the goal was last set."""
    try:
        return places.goal.stat().st_mtime < places.brief.stat().st_mtime
    except FileNotFoundError:
        return True


def was_said(places: Places, words: str) -> bool:
    """Whether ``words`` stand in the brief among what was added to it."""
    brief = load_brief(places.brief, places.lang)
    return brief is not None and " ".join(words.split()) in " ".join(brief.amendments.split())
