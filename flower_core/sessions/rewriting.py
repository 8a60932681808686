"""What becomes of a transcript on its way back to the model."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from flower_core.output_files import OutputFiles
from flower_core.sessions.expire import expire
from flower_core.sessions.prune import prune
from flower_core.sessions.sqlite import Rewriter
from flower_core.sessions.trim import trim
from flower_core.texts import DEFAULT_LANG


def rewriters(
    *,
    outputs: OutputFiles,
    raw_root: Path | None = None,
    ephemeral: bool = True,
    trim_all: bool = False,
    keep_denials: int = 1,
    lang: str = DEFAULT_LANG,
) -> tuple[Rewriter, ...]:
    """The rewriters of a store in their order: expire (unless not ``ephemeral``), trim, prune.

    ``outputs`` is where long results go and ``raw_root`` the directory below which the agent program keeps those
    that were too long for it. ``trim_all`` moves old long results of every kind, else only those of failed calls and
    those it keeps itself. Together they are idempotent. Raises ValueError when ``keep_denials`` is below 0.
    """
    if keep_denials < 0:
        raise ValueError(f"keep_denials must be 0 or more, not {keep_denials}")
    looks = (partial(expire, lang=lang),) if ephemeral else ()
    return (
        *looks,
        partial(trim, outputs=outputs, everything=trim_all, raw_root=raw_root),
        partial(prune, keep_denials=keep_denials, lang=lang),
    )
