"""The ``jq`` of the recipes where nobody has installed one: jq's own engine behind the few flags they use.

Run as a program: reads JSON texts from standard input or a file, each as soon as it is whole.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import jq


def put_on_path(folder: Path) -> str:
    """A directory to put in front of PATH, in which there is a jq: the machine's own, or this file as one."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "jq"
    if shutil.which("jq") is None:
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{Path(__file__)}" "$@"\n')
        program.chmod(0o755)
    return str(folder)


def texts(lines: IO[str]) -> Iterator[Any]:
    """Every JSON text of ``lines``, wherever its lines end."""
    decoder, rest = json.JSONDecoder(), ""
    for line in lines:
        rest += line
        while rest.strip():
            try:
                value, end = decoder.raw_decode(rest.lstrip())
            except ValueError:
                break
            yield value
            rest = rest.lstrip()[end:]
    if rest.strip():
        raise SystemExit("jq: not JSON")


def main() -> int:
    parser = argparse.ArgumentParser()
    for flag in ("-r", "-c", "-e", "-n", "--unbuffered"):
        parser.add_argument(flag, action="store_true")
    parser.add_argument("--arg", nargs=2, action="append", default=[])
    parser.add_argument("program")
    parser.add_argument("file", nargs="?")
    given = parser.parse_args()
    program = jq.compile(given.program, args=dict(given.arg))
    last: Any = None
    with open(given.file, encoding="utf-8") if given.file else sys.stdin as lines:
        for value in [None] if given.n else texts(lines):
            for last in program.input_value(value):
                shown = last if given.r and isinstance(last, str) else json.dumps(last, ensure_ascii=False)
                print(shown, flush=True)
    return int(given.e and last in (None, False))


if __name__ == "__main__":
    sys.exit(main())
