"""What happens when the goal is judged out of reach: a person decides, or the run stops."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from flower_core.documents import Goal, append_amendment
from flower_core.documents.sections import fold
from flower_core.errors import StepAbort
from flower_core.events import note
from flower_core.texts import Texts
from flower_core.workflow.goal import GOAL_KEY, load_goal
from flower_core.workflow.step import Context

if TYPE_CHECKING:
    from flower_core.human import HumanChannel

#: What people said against a verdict; the next judge is a new session and must hear of it.
SAID_KEY = "_goal_said"
#: Why a result judged unreachable was accepted all the same.
ACCEPTED_KEY = "_goal_accepted"


@dataclass(frozen=True)
class Decision:
    """A person's decision: take the result as it is, or another round that starts with ``words``."""

    accepted: bool
    words: str = ""


async def ask_what_now(
    channel: HumanChannel,
    ctx: Context,
    texts: Texts,
    *,
    reason: str,
    goal_path: Path,
    brief_path: Path | None,
    left: int,
) -> Decision:
    """Ask whether to accept, to change the goal, or to carry on, and do what the answer asks for.

    ``left`` is how many rounds of work remain. Whatever is no option counts as "you judged wrong" in the
    person's own words. A changed goal is appended to the file at ``goal_path``; whatever is said against the
    verdict, to the brief at ``brief_path``, from where the next judge and a goal derived anew take it.
    Raises StepAbort when nobody answers, declined and over-budget questions included: to go on working
    towards what was just called out of reach, with nobody to ask, burns money round after round.
    """
    accept, change, wrong = (texts(f"workflow.unreachable.{key}") for key in ("accept", "change", "wrong"))
    question = texts("workflow.unreachable.question", reason=reason, left=left)
    ask = await channel.ask(question, [accept, change, wrong])
    if ask.state != "answered":
        raise StepAbort(texts("workflow.abort.nobody", reason=reason))
    answer = _option(ask.answer, [accept, change, wrong])
    if answer == accept:
        ctx[ACCEPTED_KEY] = reason
        return Decision(accepted=True)
    if answer == change:
        words = await _new_goal(channel, texts, reason)
        _change_goal(ctx, texts, words, goal_path)
        _keep(channel, ctx, words, texts("workflow.labels.goal_changed"), brief_path)
        return Decision(accepted=False, words=texts("workflow.work.goal_changed", words=words, goal_path=goal_path))
    words = f"{wrong} ({reason})" if answer in (wrong, "") else answer
    _keep(channel, ctx, words, texts("workflow.labels.overruled"), brief_path)
    return Decision(accepted=False, words=texts("workflow.work.overruled", words=words))


async def _new_goal(channel: HumanChannel, texts: Texts, reason: str) -> str:
    ask = await channel.ask(texts("workflow.unreachable.new_goal"))
    words = ask.answer.strip()
    if ask.state != "answered" or not words:
        raise StepAbort(texts("workflow.abort.no_new_goal", reason=reason))
    return words


def _change_goal(ctx: Context, texts: Texts, words: str, goal_path: Path) -> None:
    goal: Goal = load_goal(goal_path, texts.lang) or ctx.get(GOAL_KEY) or Goal(lang=texts.lang)
    ctx[GOAL_KEY] = goal.amend(words)
    goal.write(goal_path)


def _keep(channel: HumanChannel, ctx: Context, words: str, label: str, brief_path: Path | None) -> None:
    ctx.setdefault(SAID_KEY, []).append(words)
    if brief_path is None:
        channel.amend(words, label=label)
        return
    try:
        append_amendment(brief_path, words, label=label, lang=channel.lang)
    except OSError as error:  # the next judge still hears of it, from the context
        note(error, channel.ui_errors)


def _option(answer: str, options: list[str]) -> str:
    """The option meant by ``answer``: its number as the terminal shows it, or its text; else the answer itself.

    Texts are compared without case, a full stop, and the width of characters: people type "," for "，".
    """
    said = answer.strip()
    numbered = {str(number): option for number, option in enumerate(options, 1)}
    meant = numbered.get(_folded(said))
    return meant or next((option for option in options if _folded(option) == _folded(said)), said)


def _folded(answer: str) -> str:
    return fold(answer).strip().rstrip(".。")
