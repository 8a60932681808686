"""What a run can be started with, as keyword arguments of :meth:`FlowerClient.start` and :meth:`FlowerClient.once`.

Every one may be left out or None; the server's default holds then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict


class CommonParams(TypedDict, total=False):
    """What every flow takes.

    ``workspace`` is a name or relative path under the server's workspace root; left out, the run gets a new one.
    ``labels`` are for finding the run again. ``budget_usd`` is US dollars, above 0.
    """

    workspace: str | None
    lang: str | None
    model: str | None
    instructions: str | None
    budget_usd: float | None
    labels: Mapping[str, str] | None


class StartParams(CommonParams, total=False):
    """What the starter flow, or one of the server's own, takes.

    ``rounds`` of work and judging, in all, from 1. ``max_asks`` questions at most, from 0. ``timeout_s`` is how many
    seconds a question waits, at most 86,400. ``new`` starts afresh where there is earlier work. ``window`` is tokens.
    ``params`` are what a flow of the server's own is told; which ones it takes, it says itself.
    """

    flow: str | None
    params: Mapping[str, str] | None
    goal: bool | None
    rounds: int | None
    judge_can_run: bool | None
    clarify_only: bool | None
    max_asks: int | None
    timeout_s: float | None
    new: bool | None
    isolate: bool | None
    window: int | None
    handoff: bool | None


class OnceParams(CommonParams, total=False):
    """What a single session takes. ``resume`` is the id of a session to go on from, ``fork`` branches off from it."""

    tools: Sequence[str] | None
    permission_mode: str | None
    resume: str | None
    fork: bool | None
