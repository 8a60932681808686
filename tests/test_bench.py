"""The benchmarks run, end by themselves, and what they wrote down is complete and consistent."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from bench.measuring import Goal, Row, paired, percentile
from bench.run import BENCHMARKS
from bench.table import HEADER, RESULTS, cells

ROOT = Path(__file__).parent.parent


def results() -> list[dict[str, str]]:
    """The rows of the committed table."""
    lines = [line for line in RESULTS.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    rows = [tuple(cell.strip() for cell in line.strip("|").split(" | ")) for line in lines]
    assert rows[0] == HEADER
    return [dict(zip(HEADER, row, strict=True)) for row in rows[2:]]


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("starting", "flower-client --version"),
        pytest.param("flow", "starter flow, from task to verdict", marks=pytest.mark.e2e),
    ],
)
def test_a_benchmark_runs_in_its_quick_form(name: str, row: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench.run", "--quick", name], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert re.search(rf"^{row}.* ≤ 1\.1 ", done.stdout, re.MULTILINE)


def test_a_benchmark_that_does_not_exist_is_refused() -> None:
    done = subprocess.run([sys.executable, "-m", "bench.run", "nothing"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert "there is no 'nothing'; there are " in done.stderr


def test_the_committed_table_is_of_a_whole_run_and_says_truly_what_is_reached() -> None:
    rows = results()
    assert len({row["what"] for row in rows}) == len(rows)
    goals = 0
    for row in rows:
        ratio = float(row["ratio"])
        if row["middle half"] != "one pair":
            low, high = (float(part) for part in row["middle half"].split(" … "))
            assert low <= ratio <= high
        if row["goal"]:
            sign, bound = row["goal"].split()
            # The table shows two digits of the ratio; what was reached was judged with all of them.
            assert ratio == pytest.approx(float(bound), abs=0.006) or (
                row["reached"] == ("yes" if Goal(sign, float(bound)).reached(ratio) else "no")
            )
            goals += 1
    assert goals >= 6
    page = RESULTS.read_text(encoding="utf-8")
    assert "quick run" not in page
    assert str(ROOT) not in page
    assert page.count("\n## ") == len(BENCHMARKS)


def test_a_row_is_judged_by_the_median_of_its_pairs() -> None:
    row = Row("it", "ms", [1.0, 4.0, 9.0], "floor", [2.0, 2.0, 10.0], Goal("≤", 1.0))
    assert row.ratios == [0.5, 2.0, 0.9]
    assert cells(row)[5:] == ("0.90", "0.70 … 1.45", "≤ 1", "yes")


def test_pairs_are_measured_in_turn_after_a_warm_up() -> None:
    calls: list[str] = []

    def ours() -> float:
        calls.append("ours")
        return float(len(calls))

    def theirs() -> float:
        calls.append("theirs")
        return float(len(calls))

    assert paired(2, ours, theirs) == ([3.0, 5.0], [4.0, 6.0])
    assert calls == ["ours", "theirs"] * 3


@pytest.mark.parametrize(("percent", "value"), [(50, 2.0), (99, 4.0), (1, 1.0)])
def test_a_percentile_is_a_value_that_was_measured(percent: float, value: float) -> None:
    assert percentile([4.0, 1.0, 3.0, 2.0], percent) == value
