"""Generated sequences of requests along the links of the contract: runs are started, answered, cancelled for real."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import requests
from hypothesis import seed, settings
from schemathesis import Case, Response

from tests.http.fuzz_world import CREDENTIALS, EXAMPLES, as_meant, fuzz_schema, fuzz_server
from tests.support import eventually

#: A start and what becomes of the run.
STEPS = 12
#: What they mean depends on all runs there are, and so on more than their sequence.
ROOT_VERBS = "^/(events|asks|inbox|answer|decline|interrupt)$"
#: Longer than any sequence takes, in seconds.
PATIENCE_S = 60.0
#: What has to be among it, or nothing has been shown.
MUST_HAPPEN = {
    "POST /runs 201",
    "GET /runs/{run_id}/asks 200",
    "POST /runs/{run_id}/inbox 202",
    "POST /runs/{run_id}/cancel 200",
}
#: How often at most to try other sequences for that; most often the first ones do. What a seed leads to depends on the
#: modules that are loaded, too, so no single one does it for ever.
ROUNDS = 8
AT_REST = ("waiting", "succeeded", "failed", "cancelled", None)


def at_rest(url: str, run_id: str) -> None:
    """Wait until a run does nothing by itself any more, so that the same sequence always goes the same way."""

    def look() -> bool:
        reply = requests.get(f"{url}/runs/{run_id}", headers=CREDENTIALS, timeout=10)
        return reply.json().get("state") in AT_REST

    eventually(look, 10)


def test_a_run_keeps_to_the_contract_whatever_is_done_to_it(tmp_path: Path) -> None:
    done: Counter[str] = Counter()
    with fuzz_server(tmp_path, patience_s=PATIENCE_S) as url:

        class Machine(fuzz_schema(url).exclude(path_regex=ROOT_VERBS).as_state_machine()):  # type: ignore[misc]
            def setup(self) -> None:
                self.started: list[str] = []

            def before_call(self, case: Case[Any]) -> None:
                as_meant(case)

            def get_call_kwargs(self, case: Case[Any]) -> dict[str, Any]:
                return {"headers": CREDENTIALS}

            def after_call(self, response: Response, case: Case[Any]) -> None:
                done[f"{case.operation.label} {response.status_code}"] += 1
                if case.method == "POST" and response.status_code in (200, 201):
                    body = response.json()
                    run_id = body.get("run") or body["id"]
                    self.started.append(run_id)
                    at_rest(url, run_id)

            def teardown(self) -> None:
                for run_id in self.started:
                    requests.post(f"{url}/runs/{run_id}/cancel", headers=CREDENTIALS, timeout=10)

        enough = settings(max_examples=EXAMPLES * 4, stateful_step_count=STEPS, database=None, deadline=None)
        for number in range(ROUNDS):
            seed(number)(Machine).run(settings=enough)
            if done.keys() >= MUST_HAPPEN:
                break
    assert MUST_HAPPEN - done.keys() == set(), "the sequences lead nowhere"
