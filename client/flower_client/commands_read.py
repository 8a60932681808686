"""runs, show, steps, events, asks: the commands that only look."""

from __future__ import annotations

import click

from flower_client.app import App, command, option, pass_app
from flower_client.complete import run_id
from flower_client.exits import Exit
from flower_client.fields import Json
from flower_client.models import Run
from flower_client.pipes import leave_when_unread
from flower_client.render import duration, table
from flower_client.safe_text import json_line, one_line

_STATES = ("queued", "running", "waiting", "interrupted", "succeeded", "failed", "cancelled")


@command()
@option("--state", type=click.Choice(_STATES), help="Only runs in this state.")
@option("--label", metavar="K=V", help="Only runs with this label.")
@option("--limit", type=click.IntRange(min=1), default=20, show_default=True, metavar="N", help="At most so many runs.")
@option("--cursor", default="", metavar="CURSOR", help="Go on where an earlier list ended.")
@pass_app
def runs(app: App, state: str | None, label: str | None, limit: int, cursor: str) -> None:
    """List runs, newest first."""
    with app.client() as client:
        page = client.runs(state=state, label=label, limit=limit, cursor=cursor)
    rows = [[run.id, run.state, _step(run), f"${run.cost_usd:.2f}", run.created_at, run.task] for run in page.runs]
    app.put(page.raw, table(rows, ["RUN", "STATE", "STEP", "COST", "CREATED", "TASK"]))
    if page.next_cursor and not app.as_json:
        click.echo(f"more: flower-client runs --cursor {one_line(page.next_cursor)}", err=True)


@command()
@run_id
@pass_app
def show(app: App, run_id: str) -> None:
    """Show one run."""
    with app.client() as client:
        run = client.run(run_id)
    verdict = f"{run.verdict.state}: {run.verdict.reason}" if run.verdict else ""
    facts = {
        "run": run.id,
        "state": run.state,
        "step": _step(run),
        "task": run.task,
        "workspace": run.workspace,
        "labels": ", ".join(f"{key}={value}" for key, value in run.labels.items()),
        "created": run.created_at,
        "ended": run.ended_at,
        "time": duration(run.started_at, run.ended_at) if run.ended_at else "",
        "questions waiting": str(run.asks_waiting or ""),
        "verdict": verdict,
        "not passed": "; ".join(run.verdict.failed) if run.verdict else "",
        "failed at": run.failed_at,
        "aborted": run.aborted,
        "error": run.error,
        "cost": f"${run.cost_usd:.2f} in {run.num_turns} turns",
        "events": str(run.last_seq),
    }
    lines = [f"{name + ':':<19}{one_line(value, 1000)}" for name, value in facts.items() if value]
    app.put(run.raw, lines + (["", run.result] if run.result else []))


@command()
@run_id
@pass_app
def steps(app: App, run_id: str) -> None:
    """Show the manifest of a run: one row per session, with its id, cost and time."""
    with app.client() as client:
        rows = client.steps(run_id)
    header = ["STEP", "OK", "COST", "TURNS", "SECONDS", "SESSION", "ERROR"]
    app.put({"steps": rows}, table([_step_row(row) for row in rows], header))


@command()
@run_id
@option(
    "--after", type=click.IntRange(min=0), default=0, show_default=True, metavar="SEQ", help="Start after this one."
)
@option("--limit", type=click.IntRange(min=1), metavar="N", help="At most so many events. [default: all]")
@option(
    "--wait",
    type=click.FloatRange(0, 25),
    default=0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for something new.",
)
@option("--follow", is_flag=True, help="Go on until the run ends.")
@pass_app
def events(app: App, run_id: str, after: int, limit: int | None, wait: float, follow: bool) -> None:
    """Print events, one JSON object a line, for scripts.

    Every line is written at once. Ends with code 6 when events were lost; which ones is said on standard error. Ends
    quietly, with code 141, when nobody reads the lines any more.
    """
    leave_when_unread()
    with app.client() as client:
        watch = client.watch(
            run_id,
            after,
            follow=follow,
            limit=min(limit, 1000) if limit else None,
            wait_s=25.0 if follow else wait,
            give_up_after_s=3600.0 if follow else 10.0,
            on_notice=lambda notice: app.tell(notice.text, notice=notice.kind, message=notice.text),
        )
        for number, event in enumerate(watch, 1):
            click.echo(json_line(event.raw))
            if number == limit:
                break
    if watch.losses:
        click.get_current_context().exit(Exit.LOST)


@command()
@run_id
@option("--all", "everything", envvar="FLOWER_ASKS_ALL", is_flag=True, help="The settled ones, too.")
@pass_app
def asks(app: App, run_id: str, everything: bool) -> None:
    """List the questions of a run that wait for an answer."""
    with app.client() as client:
        found = client.asks(run_id, state="all" if everything else "waiting")
    lines = []
    for ask in found:
        lines.append(f"{ask.id}  {ask.state}  {one_line(ask.question, 500)}")
        lines += [f"    {number}) {one_line(words, 300)}" for number, words in enumerate(ask.options, 1)]
        lines += [f"    = {one_line(ask.answer, 500)}"] if ask.answer else []
    app.put({"asks": [ask.raw for ask in found]}, lines)


def _step(run: Run) -> str:
    step = run.step
    if not step.name:
        return ""
    place = f"{step.index}/{step.total} " if step.total else ""
    return f"{place}{step.name}" + (f" (round {step.round})" if step.round > 1 else "")


def _step_row(row: Json) -> list[str]:
    def number(key: str, form: str) -> str:
        value = row.get(key)
        return format(value, form) if isinstance(value, (int, float)) else ""

    return [
        str(row.get("step", "")),
        "yes" if row.get("ok") is True else "no",
        "$" + (number("cost_usd", ".2f") or "0.00"),
        number("num_turns", "d" if isinstance(row.get("num_turns"), int) else ".0f"),
        number("duration_s", ".1f"),
        str(row.get("session_id") or ""),
        str(row.get("error") or ""),
    ]
