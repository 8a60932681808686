"""The proof that nothing was lost, as pure functions over pages.

Events are numbered densely from 1. A page read after seq N must hold N+1, N+2, … without a hole, and its
``next_after`` must be N plus the number of its events.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from flower_client.models import Page

LossReason = Literal["cursor-expired", "epoch-changed", "cursor-ahead", "miscounted"]


@dataclass(frozen=True)
class Loss:
    """Events that were lost: ``first`` to ``last``, both included; ``last`` is None where nobody can tell."""

    reason: LossReason
    first: int
    last: int | None

    @property
    def count(self) -> int | None:
        """How many were lost; None where nobody can tell."""
        return None if self.last is None else self.last - self.first + 1

    def __str__(self) -> str:
        if self.last is None:
            return f"events from {self.first} on are lost ({self.reason})"
        return f"events {self.first} to {self.last} are lost ({self.reason})"


def fault(page: Page, base: int, run_id: str = "") -> str:
    """What does not add up in a page that was read after seq ``base``; empty when everything does."""
    if run_id and page.run != run_id:
        return f"it is of run {page.run}"
    if page.gap:
        if page.gap.first != base + 1 or page.gap.last < page.gap.first:
            return f"a gap from {page.gap.first} to {page.gap.last} after {base}"
        base = page.gap.last
    if [event.seq for event in page.events] != list(range(base + 1, base + 1 + len(page.events))):
        return f"events are not numbered from {base + 1} on"
    if page.next_after != base + len(page.events):
        return f"next_after is {page.next_after}, counting gives {base + len(page.events)}"
    if page.pending != page.last_seq - page.next_after or (page.final and page.pending):
        return f"pending is {page.pending} at {page.next_after} of {page.last_seq}"
    return ""


def salvage(page: Page, base: int) -> tuple[Page, list[Loss]]:
    """What is new after ``base`` in a page that is wrong even when read again, and the holes in it.

    The page that comes back adds up; its ``next_after`` equals ``base`` when there was nothing to save.
    """
    cursor, kept, losses = base, [], []
    for event in page.events:
        if event.seq <= cursor:
            continue
        if event.seq > cursor + 1:
            losses.append(Loss("miscounted", cursor + 1, event.seq - 1))
        kept.append(event)
        cursor = event.seq
    if not kept and page.next_after > cursor:
        losses.append(Loss("miscounted", cursor + 1, page.next_after))
        cursor = page.next_after
    pending = max(page.last_seq - cursor, 0)
    final = page.final and not pending
    whole = replace(page, events=tuple(kept), next_after=cursor, pending=pending, final=final, gap=None)
    return whole, losses
