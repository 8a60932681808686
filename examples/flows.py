"""A workflow of one's own: investigate, implement, review.

    flower-server serve --flow fix=examples/flows.py:make --rehearse=examples/flows.toml
    flower-client start "A function that makes slugs of titles" --flow fix --param rounds=3 --watch

One agent looks and asks. Another goes on from a copy of that session and writes the code; the tests decide, and while
they fail it is sent back with what they said. A third, from a copy of the same session, reviews what is there: it knows
what the first one found, and nothing of how the second one argued. docs/writing-a-workflow.md explains it line by line.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flower_core import AgentSpec, Step, StepAbort, StepResult, Workflow
from flower_http.flows import BadParam, FlowContext, takes

#: What decides whether the code will do, and how long it may take in seconds.
CHECK, CHECK_S = [sys.executable, "-B", "-m", "unittest", "discover", "--quiet"], 60
SAID = "what the tests said"

INVESTIGATOR = """flower-role: investigator
You find out what a task needs. Read what is there, ask where only a person can decide, change nothing.
End with a short plan: what to write, in which files, and how it can be tested."""
IMPLEMENTER = """flower-role: implementer
You carry out the plan, with tests in test_*.py that use unittest. You cannot run anything: that is done for you."""
REVIEWER = """flower-role: reviewer
You judge code that somebody else has written to this plan. Read it. Your first line is either "approved" or "refused";
below it say why, in at most ten lines."""


def read_params(params: Mapping[str, str]) -> tuple[int, str]:
    """``rounds`` of implementing, 1 to 5, and ``focus``, what to look at first. Raises BadParam for anything else."""
    for name in params:
        if name not in ("rounds", "focus"):
            raise BadParam(name, "there is no such parameter; there are: rounds, focus")
    rounds = params.get("rounds", "3")
    if rounds not in ("1", "2", "3", "4", "5"):
        raise BadParam("rounds", f"must be 1 to 5, not {rounds!r}")
    return int(rounds), params.get("focus", "the files that are there")


@takes(read_params)
def make(context: FlowContext) -> Workflow:
    """The workflow for one run; its parameters are those of :func:`read_params`."""
    rounds, focus = read_params(context.params)
    channel = context.channel()

    async def tests_pass(result: StepResult, ctx: dict[str, Any]) -> bool:
        passed, ctx[SAID] = await asyncio.to_thread(run_tests, context.workspace)
        return passed

    asking = AgentSpec(
        "investigator",
        INVESTIGATOR,
        allowed_tools=("Read", "Glob", "Grep", channel.tool_name),
        mcp_servers=channel.mcp_servers(),
        lang=context.lang,
    )
    investigate = Step(
        "Investigate",
        asking,
        f"The task: {context.task}\nLook first at: {focus}",
        resume_prompt=f"Look again, there may be something new. The task: {context.task}",
    )
    implement = Step(
        "Implement",
        AgentSpec("implementer", IMPLEMENTER, allowed_tools=("Read", "Glob", "Write", "Edit"), lang=context.lang),
        "Now carry out your plan.",
        resume_from="Investigate",
        fork=True,
        retries=rounds - 1,
        gate=tests_pass,
        on_reject=lambda result, ctx: f"The tests do not pass. Mend the code, not the tests.\n\n{ctx[SAID]}",
    )
    review = Step(
        "Review",
        AgentSpec("reviewer", REVIEWER, allowed_tools=("Read", "Glob", "Grep"), lang=context.lang),
        lambda ctx: (
            f"The plan has been carried out, and the tests pass. The author says:\n{ctx['Implement']}\n\nReview it."
        ),
        resume_from="Investigate",
        fork=True,
        gate=approved,
    )
    steps = [investigate, implement, review]
    budget = context.request.budget_usd
    return Workflow(steps, channel=channel, workbench=context.workbench, budget_usd=budget)


def run_tests(workspace: Path) -> tuple[bool, str]:
    """Whether the tests in ``workspace`` pass, and the last lines of what they print.

    They are code that an agent wrote, and run as the server's user: with nothing of its environment but the path.
    """
    if not any(workspace.glob("test_*.py")):
        return False, "There is no test_*.py yet."
    environ = {"PATH": os.environ["PATH"]}
    try:
        done = subprocess.run(CHECK, cwd=workspace, env=environ, capture_output=True, text=True, timeout=CHECK_S)
    except subprocess.TimeoutExpired:
        return False, f"The tests did not end within {CHECK_S} seconds."
    return done.returncode == 0, "\n".join(done.stderr.splitlines()[-30:])


def approved(result: StepResult, ctx: dict[str, Any]) -> bool:
    """Whether the reviewer is content; what else it says ends the run, as another review would change nothing."""
    if result.text.strip().partition("\n")[0].strip().lower() == "approved":
        return True
    raise StepAbort(f"the reviewer is not content: {result.text.strip()}")
