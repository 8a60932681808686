"""Every operation of the contract with generated requests, good ones and bad ones: the replies are as it says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from schemathesis import Case

from tests.http.fuzz_world import CREDENTIALS, as_meant, fuzz_schema, fuzz_server

#: Seconds; short, so that the runs that are started do not fill the queue for long.
PATIENCE_S = 2.0

schema = fuzz_schema()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with fuzz_server(tmp_path_factory.mktemp("fuzz"), patience_s=PATIENCE_S) as url:
        yield url


@schema.parametrize()
def test_an_operation_keeps_to_the_contract(case: Case[Any], server: str) -> None:
    as_meant(case)
    case.call_and_validate(base_url=server, headers=CREDENTIALS)
