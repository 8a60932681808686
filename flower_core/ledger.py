"""What a turn cost, from what the agent program reports: the running total of a session, across all its processes."""

from __future__ import annotations


class Ledger:
    """From the running totals the agent program reports, per session, to what each turn cost."""

    def __init__(self) -> None:
        self._totals: dict[str, float] = {}
        self._inherited = 0.0

    def owe(self, session_id: str, cost_usd: float, *, fork: bool) -> None:
        """A process is about to count on from ``cost_usd``, which its transcript says ``session_id`` has cost.

        What we know of the session counts instead where it is less: the rest was spent by a process that died
        before it could report it. A ``fork`` takes the figure along to an id not known yet.
        """
        if fork:
            self._inherited = cost_usd
        else:
            self._totals[session_id] = min(self._totals.get(session_id, cost_usd), cost_usd)

    def owe_nothing(self) -> None:
        """A process is about to begin a session of its own, which counts from nothing."""
        self._inherited = 0.0

    def open(self, session_id: str) -> None:
        """A process works in ``session_id`` from now on: even if it dies before it reports anything, it began here."""
        self._totals.setdefault(session_id, self._inherited)

    def charge(self, session_id: str, total: float) -> float:
        """What came on top of what has been charged for ``session_id``, whose running total is now ``total``.

        A total below what we know means that the process began to count from nothing.
        """
        known = self._totals.get(session_id, self._inherited)
        self._totals[session_id] = total
        return total - known if total >= known else total
