"""A question on the side: an agent of its own looks at a run and answers, and the run never hears of it."""

from __future__ import annotations

import os
import uuid
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from flower_core.claude.environment import CREDENTIALS
from flower_core.events import Event
from flower_core.resilience import Resilience
from flower_core.roles import oracle
from flower_core.runtime import Runtime
from flower_core.texts import DEFAULT_LANG, texts_for
from flower_core.trees import remove_tree
from flower_core.workbench import Workbench

#: Below ``run_dir``: where the oracle's own books are kept, apart from those of the run.
FOLDER = "aside"
#: How many of the latest events it is shown, and how much of each, in characters.
SHOWN_EVENTS, _EVENT_CHARS = 60, 400
#: What else an event tells, by the name in its payload.
_DETAILS = ("state", "answer", "options", "phase", "is_error", "error")
#: Characters from which on a credential is looked for in what is shown; a shorter one occurs in ordinary words.
_LEAST_SECRET = 16
#: A person waits: rather say soon that there is no answer than try for long.
_PATIENCE = Resilience(max_attempts=3, base_delay=1.0, max_delay=5.0, max_offline_wait=60.0)


@dataclass(frozen=True)
class OracleAnswer:
    """What came of a question. ``cost_usd`` is US dollars; with ``ok`` False ``error`` says why, in words."""

    text: str
    cost_usd: float
    ok: bool
    error: str


async def ask_oracle(
    question: str,
    *,
    workspace: Path | str,
    run_dir: Path | str,
    workbench: Workbench | None = None,
    events: Iterable[Event] = (),
    lang: str = DEFAULT_LANG,
    model: str | None = None,
    environ: Mapping[str, str] | None = None,
    upstream: str = "",
    config_dir: Path | str | None = None,
) -> OracleAnswer:
    """Have ``question`` answered about the run that works in ``workspace``, from its files and its last ``events``.

    The oracle only reads, asks nobody, and stops after 12 turns or 0.50 US dollars. It has a runtime and books of its
    own in ``<run_dir>/aside``, so that nothing it says or costs reaches the run's session, manifest or lineage.
    ``environ``, ``upstream`` and ``config_dir``, which is removed in the end, are those of :class:`Runtime`. May be
    called while the run works, and after it.

    Raises ValueError for an empty question, and what making a :class:`Runtime` raises; all else is in the answer.
    """
    if not question.strip():
        raise ValueError("ask the oracle something; the question is empty")
    aside, name = Path(run_dir) / FOLDER, uuid.uuid4().hex
    config = Path(config_dir or aside / "config" / name)
    runtime = Runtime(
        workspace=workspace,
        run_dir=aside,
        workbench=workbench or False,
        spill_threshold=None,  # its long readings must not become files of the run's workbench
        resilience=_PATIENCE,
        handoff=False,
        environ=environ,
        upstream=upstream,
        config_dir=config,
        run_id=name,
        lang=lang,
    )
    try:
        spec = oracle(texts_for(lang)("oracle.name"), model=model, lang=lang)
        result = await runtime.run(spec, _prompt(question, events, _secrets(environ), lang))
    finally:
        runtime.close()
        remove_tree(config)  # nobody goes on with this session
    return OracleAnswer(result.text, result.cost_usd, result.ok, result.error)


def _secrets(environ: Mapping[str, str] | None) -> list[str]:
    """The credentials of this process; a command the agents ran may have printed them."""
    values = ((os.environ if environ is None else environ).get(name, "") for name in CREDENTIALS)
    return [value for value in values if len(value) >= _LEAST_SECRET]


def _prompt(question: str, events: Iterable[Event], secrets: list[str], lang: str) -> str:
    texts = texts_for(lang)
    told = "\n".join(deque(_lines(events, secrets), SHOWN_EVENTS)) or texts("oracle.nothing_yet")
    return texts("oracle.prompt", events=told, question=question.strip()).strip()


def _lines(events: Iterable[Event], secrets: list[str]) -> Iterator[str]:
    """One line for each event that tells something. What the process must keep to itself is in none of them."""
    for event in events:
        details = [f"{key}: {event.payload[key]}" for key in _DETAILS if event.payload.get(key)]
        if not _tells(event, details):
            continue
        line = " ".join(f"{event} {' · '.join(details)}".split())
        for secret in secrets:
            line = line.replace(secret, "[…]")
        who = " (subagent)" if event.payload.get("subagent") else ""
        yield f"- {event.kind}{who}: {line[:_EVENT_CHARS]}"


def _tells(event: Event, details: list[str]) -> bool:
    """Not what the agent program notes for itself; an event of the system counts where it says how things stand."""
    if event.kind in ("task", "unknown"):
        return False
    return bool(details) if event.kind == "system" else bool(event.text or event.tool or details)
