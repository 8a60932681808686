"""answer, decline, say, interrupt, oracle, cancel, resume, delete: the commands that act on a run."""

from __future__ import annotations

import time

import click

from flower_client.app import App, command, option, pass_app, stated
from flower_client.asking import answer_lines, ask_and_wait
from flower_client.complete import ask_id, run_id
from flower_client.exits import Exit
from flower_client.models import Settled
from flower_client.safe_text import one_line


@command()
@run_id
@ask_id
@click.argument("text", required=False)
@option(
    "--option",
    "number",
    envvar="FLOWER_ANSWER_OPTION",
    type=click.IntRange(min=1),
    metavar="N",
    help="Pick option N instead of giving a TEXT.",
)
@pass_app
def answer(app: App, run_id: str, ask_id: str, text: str | None, number: int | None) -> None:
    """Answer a question with TEXT, or pick one of its options.

    A TEXT is passed on word for word, also one that is a number. One that starts with a dash goes behind --.
    """
    given = stated({"text": text, "number": number})
    if len(given) != 1:
        raise click.UsageError("give either a TEXT or --option N")
    with app.client() as client:
        settled = client.answer(run_id, ask_id, given.get("text"), option=given.get("number"))
    _told(app, settled)
    options = settled.ask.options
    if text and text.strip().isdecimal() and options and text not in options:
        words = f"{text} was passed on as it is; --option N picks one of the {len(options)} options"
        app.tell(words, notice="text", message=words)


@command()
@run_id
@ask_id
@click.argument("reason", default="")
@pass_app
def decline(app: App, run_id: str, ask_id: str, reason: str) -> None:
    """Leave a question unanswered: the agent decides itself and notes what it assumed."""
    with app.client() as client:
        _told(app, client.decline(run_id, ask_id, reason))


@command()
@run_id
@click.argument("text")
@pass_app
def say(app: App, run_id: str, text: str) -> None:
    """Tell the agent something; it reads it when it next looks into its inbox.

    A TEXT that starts with a dash goes behind --.
    """
    with app.client() as client:
        reply = client.say(run_id, text)
    app.put(reply, [f"{one_line(str(reply.get('id', '')))} is in the inbox"])


@command()
@run_id
@click.argument("text", default="")
@pass_app
def interrupt(app: App, run_id: str, text: str) -> None:
    """Stop what the agent is doing; it goes on at once with TEXT in mind.

    What a subagent in flight has half done is lost.
    """
    with app.client() as client:
        reply = client.interrupt(run_id, text)
    note = reply.get("note") or reply.get("detail") or "a subagent in flight loses its half-done work"
    app.put(reply, [f"interrupted; {one_line(str(note), 300)}"])


@command()
@run_id
@click.argument("question")
@pass_app
@click.pass_context
def oracle(ctx: click.Context, app: App, run_id: str, question: str) -> None:
    """Ask QUESTION about a run on the side, and wait for the answer; the run goes on undisturbed.

    An agent of its own looks at the last events and the files. It can be asked about an ended run, too. Exit code 1
    when there is no answer.
    """
    with app.client() as client:
        found = ask_and_wait(client, run_id, question, time.sleep)
    app.put(found.raw, answer_lines(found))
    if found.state != "answered":
        ctx.exit(Exit.RUN_FAILED)


@command()
@run_id
@pass_app
def cancel(app: App, run_id: str) -> None:
    """End a run for good."""
    with app.client() as client:
        run = client.cancel(run_id)
    app.put(run.raw, [f"{run.id}: {run.state}"])


@command()
@run_id
@pass_app
def resume(app: App, run_id: str) -> None:
    """Go on with an interrupted run."""
    with app.client() as client:
        run = client.resume(run_id)
    app.put(run.raw, [f"{run.id}: {run.state}"])


@command()
@run_id
@pass_app
def delete(app: App, run_id: str) -> None:
    """Forget a run that has ended: its events, documents and questions. Its workspace stays."""
    with app.client() as client:
        client.delete(run_id)
    app.put({"deleted": run_id}, [f"{run_id}: deleted"])


def _told(app: App, settled: Settled) -> None:
    again = " (it had been so already)" if settled.replayed else ""
    app.put(settled.raw, [f"{settled.ask.id}: {settled.ask.state}{again}"])
