"""Trim: long results of long ago go into files, and a pointer stays."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

from flower_core.output_files import OutputFiles, is_pointer
from flower_core.sessions.transcript import Entry, results_of, with_texts

# How the agent program tells that a Bash output was too long for it (above 30,000 characters), and where it has put it.
_RAW = re.compile(r"<persisted-output>\n.*?: (/[^\n]+)\n")


def trim(
    entries: list[Entry],
    *,
    outputs: OutputFiles,
    everything: bool = False,
    keep_last: int = 20,
    min_chars: int = 2000,
    raw_root: Path | None = None,
) -> list[Entry]:
    """Move results of at least ``min_chars`` characters, older than the last ``keep_last`` results, into ``outputs``.

    Of failed calls and of those whose whole output the agent program keeps in a file of its own; with ``everything``,
    of all. Such a file is lost to a session that is fed back; if it still lies below ``raw_root``, what it holds is
    kept, and results that stay name the new place. A result that cannot be written stays as it is.
    """
    results = results_of(entries)
    changed = []
    for age, result in zip(reversed(range(len(results))), results, strict=True):
        if not result.ran or len(result.text) < min_chars or is_pointer(result.text):
            continue
        raw = _RAW.match(result.text)
        with contextlib.suppress(OSError):
            if age >= keep_last and (everything or result.failed or raw):
                changed.append((result, _pointer(result.text, raw, outputs, raw_root)))
            elif raw and (file := _raw_file(raw, raw_root)):
                changed.append((result, result.text.replace(raw[1], str(outputs.keep(outputs.read(file))), 1)))
    return with_texts(entries, changed)


def _pointer(text: str, raw: re.Match[str] | None, outputs: OutputFiles, raw_root: Path | None) -> str:
    if raw and outputs.owns(raw[1]) and Path(raw[1]).is_file():  # by a session that was copied as it was fed back
        return outputs.pointer(Path(raw[1]), len(outputs.read(Path(raw[1]))))
    file = _raw_file(raw, raw_root) if raw else None
    whole = text if file is None else outputs.read(file)
    return outputs.pointer(outputs.keep(whole), len(whole))


def _raw_file(raw: re.Match[str], raw_root: Path | None) -> Path | None:
    """The file ``raw`` tells of; a command may print such a line itself, so it has to be where such files are."""
    path = Path(os.path.realpath(raw[1]))
    inside = raw_root is not None and path.is_relative_to(os.path.realpath(raw_root))
    return path if inside and path.parent.name == "tool-results" and path.is_file() else None
