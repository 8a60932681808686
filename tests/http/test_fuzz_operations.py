"""Every operation of the contract with generated requests, good ones and bad ones: the replies are as it says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from schemathesis import Case, HookContext
from schemathesis.engine import Status, events, from_schema
from schemathesis.hooks import unregister

from tests.http.fuzz_world import as_meant, fuzz_schema, fuzz_server

#: Seconds; short, so that the runs that are started do not fill the queue for long.
PATIENCE_S = 2.0


@contextmanager
def meaning_it() -> Iterator[None]:
    """Have every case go through :func:`as_meant` before it is sent."""

    def before_call(_: HookContext, case: Case[Any], __: dict[str, Any]) -> None:
        as_meant(case)

    schemathesis.hook("before_call")(before_call)
    try:
        yield
    finally:
        unregister(before_call)


# Not schemathesis's own marks for pytest: those work all cases out while tests are collected, in every process.
@pytest.mark.timeout(600)
def test_every_operation_keeps_to_the_contract(tmp_path: Path) -> None:
    broken: dict[str, str] = {}
    tried = set()
    with fuzz_server(tmp_path, patience_s=PATIENCE_S) as url, meaning_it():
        schema = fuzz_schema(url)
        schema.config.phases.stateful.enabled = False  # see test_fuzz_sequences.py
        for event in from_schema(schema).execute():
            assert not isinstance(event, events.FatalError | events.NonFatalError), event
            if not isinstance(event, events.ScenarioFinished):
                continue
            tried.add(event.label)
            for checks in event.recorder.checks.values():
                for check in checks:
                    if check.status == Status.FAILURE and check.failure_info is not None:
                        found = check.failure_info
                        broken[f"{event.label}: {check.name}"] = f"{found.failure.message}\n{found.code_sample}"
    assert broken == {}
    assert len(tried) == schema.statistic.operations.total
