"""Run the benchmarks one after the other and print one table.

    python -m bench.run [--quick] [--write] [NAME…]

Without names all of them; ``--quick`` takes about three minutes for all instead of about twelve; ``--write`` puts the
table into bench/RESULTS.md. Each ends by itself.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable

from bench import context, flow, following, pages, starting, waiting, watchers
from bench.measuring import Report
from bench.table import RESULTS, page, plain

BENCHMARKS: dict[str, Callable[..., Report]] = {
    "pages": pages.measure,
    "waiting": waiting.measure,
    "following": following.measure,
    "watchers": watchers.measure,
    "flow": flow.measure,
    "context": context.measure,
    "starting": starting.measure,
}


def main() -> None:
    """Measure what the command line names."""
    parser = argparse.ArgumentParser(prog="python -m bench.run", description="Measure; print one table of ratios.")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"one of {', '.join(BENCHMARKS)}; all when none is named"
    )
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name}, too")
    given = parser.parse_args()
    unknown = [name for name in given.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"there is no {unknown[0]!r}; there are {', '.join(BENCHMARKS)}")
    if given.write and given.names:
        parser.error(f"{RESULTS.name} is written by a run of all of them")
    reports = []
    for name in given.names or BENCHMARKS:
        print(f"measuring {name} …", file=sys.stderr, flush=True)
        reports.append(BENCHMARKS[name](quick=given.quick))
    print(plain(row for report in reports for row in report.rows))
    print("\n".join(note for report in reports for note in report.notes))
    if given.write:
        busy = os.getloadavg()[2] / (os.cpu_count() or 1)
        RESULTS.write_text(page(reports, quick=given.quick, busy=busy), encoding="utf-8")


if __name__ == "__main__":
    main()
