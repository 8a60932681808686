"""The step that asks before anything is done, and freezes what was agreed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flower_core.agent import AgentSpec
from flower_core.documents import Brief
from flower_core.manifest import StepResult
from flower_core.roles import clarify
from flower_core.texts import Texts, texts_for
from flower_core.workflow.step import Context, OnFail, Prompt, Step

if TYPE_CHECKING:
    from flower_core.human import HumanChannel

#: The :class:`~flower_core.documents.Brief` of this run.
BRIEF_KEY = "_brief"
#: Where it stands on disk; later steps read it afresh from there, for people add to it at any time.
BRIEF_PATH_KEY = "_brief_path"
#: The display names of the sections that were missing; only there while some are.
MISSING_KEY = "_brief_missing"


def clarify_step(
    channel: HumanChannel,
    *,
    brief_path: Path | str,
    prompt: Prompt,
    name: str | None = None,
    spec: AgentSpec | None = None,
    instructions: str = "",
    always_ask: bool = False,
    on_fail: OnFail = "stop",
    retries: int = 2,
    resume_prompt: Prompt | None = None,
    lang: str | None = None,
    **spec_kw: Any,
) -> Step:
    """A step that asks until the task is clear and freezes the brief at ``brief_path``.

    ``prompt`` is the request as it was made; one sentence will do. With a complete brief on disk the step is
    skipped and hands on what stands there, unless ``always_ask``. An answer with sections missing is sent back
    up to ``retries`` times; their names stand in ``ctx["_brief_missing"]``. What people added to the file
    before or after is kept. Later steps find the compact brief under ``ctx[name]``.

    ``spec`` replaces the clarifier altogether; otherwise ``instructions`` and ``spec_kw`` go to
    :func:`flower_core.roles.clarify`. ``name`` and ``resume_prompt`` default to the texts of ``lang``,
    which is the channel's own unless given.
    Raises ValueError as :class:`Step` does.
    """
    texts = texts_for(lang or channel.lang)
    clarifying = _Clarifying(name or texts("workflow.steps.clarify"), Path(brief_path), always_ask, texts)
    if spec is None:
        agent = texts("workflow.agents.clarifier")
        spec = clarify(agent, channel, instructions=instructions, lang=texts.lang, **spec_kw)
    return Step(
        clarifying.name,
        spec,
        prompt,
        retries=retries,
        gate=clarifying.gate,
        on_fail=on_fail,
        when=clarifying.when,
        on_reject=clarifying.on_reject,
        resume_prompt=resume_prompt or texts("workflow.clarify.resume"),
        reduce=clarifying.reduce,
        files=(clarifying.path,),
    )


@dataclass(frozen=True)
class _Clarifying:
    """The callbacks of one clarifying step."""

    name: str
    path: Path
    always_ask: bool
    texts: Texts

    def when(self, ctx: Context) -> bool:
        ctx[BRIEF_PATH_KEY] = self.path
        brief = None if self.always_ask else load_brief(self.path, self.texts.lang)
        if brief is None or not brief.complete():
            return True
        # A skipped step writes nothing into the context, so what later steps rely on is put there here.
        ctx[BRIEF_KEY] = brief
        ctx[self.name] = brief.prompt_block()
        return False

    def gate(self, result: StepResult, ctx: Context) -> bool:
        brief = Brief.parse(result.text, lang=self.texts.lang)
        missing = brief.missing()
        if missing:
            ctx[MISSING_KEY] = missing
            return False
        ctx.pop(MISSING_KEY, None)
        brief.write(self.path)
        # Read back: what was said while the questions were going on stands in the file, not in the answer.
        ctx[BRIEF_KEY] = Brief.load(self.path, lang=self.texts.lang)
        return True

    def on_reject(self, result: StepResult, ctx: Context) -> str:
        missing = ctx.get(MISSING_KEY) if result.ok else None
        if not missing:
            return self.texts("workflow.clarify.resume")
        return self.texts("workflow.clarify.missing", sections=self.texts("workflow.list.comma").join(missing))

    def reduce(self, result: StepResult, ctx: Context) -> str:
        # The sections only: the answer itself may hold pages that have no business in the next prompt.
        brief: Brief = ctx[BRIEF_KEY]
        return brief.prompt_block()


def load_brief(path: Path | None, lang: str) -> Brief | None:
    """The brief at ``path``, complete or not; None when there is no such file."""
    if path is None:
        return None
    try:
        return Brief.load(path, lang=lang)
    except FileNotFoundError:
        return None


def current_brief(ctx: Context, lang: str, path: Path | None = None) -> tuple[Path | None, Brief | None]:
    """Where the brief of this run stands, and the brief itself, read afresh.

    The place is ``path`` if given, else where the clarifying step put it. With no file there, the brief is the
    one in the context, if any.
    """
    where = path or ctx.get(BRIEF_PATH_KEY)
    brief = load_brief(where, lang)
    if brief is not None:
        return where, brief
    kept: Brief | None = ctx.get(BRIEF_KEY)
    return where, kept
