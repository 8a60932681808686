"""Sending what was chosen as the answer to a question, and finding out that somebody else was faster."""

from __future__ import annotations

from dataclasses import dataclass

from flower_client.api import FlowerClient
from flower_client.errors import BadReply, FlowerClientError, Refused, Unreachable
from flower_client.models import Ask
from flower_client.prompt import Choice


@dataclass(frozen=True)
class Settlement:
    """What sending an answer led to. ``ask`` is the question as it is settled now, None when it waits on.

    ``trouble`` is why the answer was not taken, for people; empty when it was.
    """

    ask: Ask | None = None
    trouble: str = ""
    error: FlowerClientError | None = None


def settle(client: FlowerClient, run_id: str, ask: Ask, choice: Choice) -> Settlement:
    """Answer or decline ``ask`` with ``choice``. Raises nothing a server or a network can cause."""
    try:
        if choice.declines:
            return Settlement(client.decline(run_id, ask.id).ask)
        return Settlement(client.answer(run_id, ask.id, choice.text, option=choice.option).ask)
    except Refused as error:
        if error.status == 422:  # not an answer the question takes; another one may be
            return Settlement(trouble=f"{ask.id}: {error}", error=error)
        settled = _as_settled(ask, error)
        return Settlement(settled, f"too late: {as_settled(settled)}" if settled.answered_by else f"{ask.id}: {error}")
    except FlowerClientError as error:
        waits = "may still wait" if isinstance(error, Unreachable) and error.maybe_done else "still waits"
        return Settlement(trouble=f"{ask.id} {waits}: {error.advice}", error=error)


def as_settled(ask: Ask) -> str:
    """How a question was settled, such as ``q1 was answered by ann: rye``, as far as ``ask`` knows."""
    if ask.waiting:
        return f"{ask.id} no longer waits"
    by = f" by {ask.answered_by}" if ask.answered_by else ""
    said = f": {ask.answer}" if ask.answer else ""
    return f"{ask.id} was {_PAST.get(ask.state, ask.state)}{by}{said}"


#: The states a question can end in, as the end of "it was …".
_PAST = {"timeout": "given up, as nobody answered in time"}


def _as_settled(ask: Ask, error: Refused) -> Ask:
    """The question as the refusal shows it, or as it was asked where that says nothing."""
    try:
        return Ask.from_json(error.document.get("ask"))
    except BadReply:
        return ask
