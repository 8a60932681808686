"""Exit codes of the command: one table, and how a finished run maps onto it; errors carry theirs."""

from __future__ import annotations

from enum import IntEnum

from flower_client.models import Run


class Exit(IntEnum):
    """What the command says when it ends."""

    DONE = 0  #: done; where a run was watched to its end, it succeeded
    RUN_FAILED = 1  #: the run failed or was cancelled
    USAGE = 2  #: wrong usage or settings, nothing was sent
    UNREACHABLE = 3  #: no usable reply from a server
    NOT_ALLOWED = 4  #: no token, a wrong one, or too small a scope
    REFUSED = 5  #: conflict, not found, invalid
    LOST = 6  #: events were lost
    AT_ASK = 7  #: left at a question (--exit-on-ask)
    INTERRUPTED = 130  #: left with Ctrl-C
    PIPE_CLOSED = 141  #: nobody reads the output any more; what a shell makes of SIGPIPE


def for_run(run: Run, *, lost: bool) -> Exit:
    """The exit code after a run was watched to its end. Lost events outweigh how the run ended."""
    if lost:
        return Exit.LOST
    return Exit.DONE if run.state == "succeeded" else Exit.RUN_FAILED
