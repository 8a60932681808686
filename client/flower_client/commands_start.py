"""start, once and watch: the commands that bring a run about and see it through."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import uuid
from collections.abc import Callable
from typing import Any, TypeVar

import click

from flower_client.api import FlowerClient
from flower_client.app import App, command, option, pass_app, stated
from flower_client.complete import run_id
from flower_client.errors import Unreachable
from flower_client.models import Run
from flower_client.safe_text import one_line
from flower_client.viewing import VIEWING, Viewing, follow

F = TypeVar("F", bound=Callable[..., Any])

_STARTING = (
    option("--workspace", metavar="NAME", help="Directory under the server's workspace root. [default: a new one]"),
    option(
        "--lang", metavar="CODE", help="Language of prompts and documents: en, es, fr or zh. [default: the server's]"
    ),
    option("--model", metavar="NAME", help="The model. [default: the server's]"),
    option(
        "--label",
        multiple=True,
        metavar="K=V",
        help="A label to find the run by; repeatable, in the variable separated by spaces.",
    ),
    option("--idempotency-key", metavar="KEY", help="The same key starts one run only, for 24 hours. [default: new]"),
    option("--watch", is_flag=True, help="Go on as `watch` does."),
)


def _all_of(options: tuple[Callable[[F], F], ...]) -> Callable[[F], F]:
    def decorate(command: F) -> F:
        for decorator in reversed(options):
            command = decorator(command)
        return command

    return decorate


@command()
@click.argument("task", required=False)
@option("--flow", metavar="NAME", help="A flow the server knows. [default: starter]")
@option(
    "--param",
    multiple=True,
    metavar="K=V",
    help="What a --flow of the server's own takes; repeatable, in the variable separated by spaces.",
)
@option("--no-goal", is_flag=True, help="Set no goal: no judge looks at the work.")
@option("--rounds", type=click.IntRange(min=1), metavar="N", help="Rounds of work and judging, in all. [default: 3]")
@option("--judge-can-run", is_flag=True, help="The judge may run commands.")
@option("--clarify-only", is_flag=True, help="End when it is clear what is wanted.")
@option("--asks", type=click.IntRange(min=0), metavar="N", help="Most questions it may ask. [default: no limit]")
@option(
    "--timeout",
    type=float,
    metavar="SECONDS",
    help="How long a question waits, at most 86400; 0 when nobody is there. [default: 1800]",
)
@option("--new", is_flag=True, help="Start afresh in a workspace that holds earlier work.")
@option("--isolate", is_flag=True, help="Workers work in git worktrees; needs a repository as workspace.")
@option("--budget", type=float, metavar="USD", help="Most US dollars for the whole run. [default: no limit]")
@option("--window", type=int, metavar="TOKENS", help="Context window to assume. [default: the model's own]")
@option(
    "--no-handoff",
    is_flag=True,
    help="Let the conversation be compacted when the context fills up, instead of handing over to a fresh session.",
)
@option("-i", "--instructions", metavar="TEXT", help="Further instructions for whoever does the work.")
@_all_of(_STARTING)
@_all_of(VIEWING)
@pass_app
def start(app: App, /, task: str | None, **given: Any) -> None:
    """Start a run of TASK and print its id.

    Without TASK a terminal asks for it; leave it empty to wake what an existing --workspace holds. A TASK of - is read
    from standard input.
    """
    viewing = Viewing(given)
    words = _task(task, has_workspace=given["workspace"] is not None)
    wanted: dict[str, Any] = {name: True for name in ("judge_can_run", "clarify_only", "new", "isolate") if given[name]}
    wanted |= {"goal": False} if given["no_goal"] else {}
    wanted |= {"handoff": False} if given["no_handoff"] else {}
    wanted |= {name: given[name] for name in ("flow", "rounds", "window", "instructions")}
    wanted |= {"params": _pairs(given["param"], "--param") or None}
    wanted |= {"max_asks": given["asks"], "timeout_s": given["timeout"], "budget_usd": given["budget"]}
    _go(app, given, viewing, lambda client, common: client.start(words, **wanted, **common))


@command()
@click.argument("prompt")
@option("-i", "--instructions", metavar="TEXT", help="Instructions for the session.")
@option("-t", "--tools", metavar="NAMES", help="Tools it may use, comma-separated. [default: Read,Glob,Grep]")
@option("-p", "--permission-mode", metavar="MODE", help="The agent program's permission mode. [default: dontAsk]")
@option("-b", "--budget", type=float, metavar="USD", help="Most US dollars. [default: no limit]")
@option("--resume", metavar="SESSION", help="Go on from this session, in the --workspace it was held in.")
@option("--fork", is_flag=True, help="With --resume: leave that session as it is and branch off.")
@_all_of(_STARTING)
@_all_of(VIEWING)
@pass_app
def once(app: App, /, prompt: str, **given: Any) -> None:
    """Start a single session with PROMPT and print the run's id."""
    viewing = Viewing(given)
    tools = [name.strip() for name in given["tools"].split(",") if name.strip()] if given["tools"] is not None else None
    wanted = {name: given[name] for name in ("instructions", "permission_mode", "resume")}
    wanted |= {"tools": tools, "budget_usd": given["budget"], "fork": given["fork"] or None}
    _go(app, given, viewing, lambda client, common: client.once(prompt, **wanted, **common))


@command()
@run_id
@option("--after", type=click.IntRange(min=0), metavar="SEQ", help="Start after this event.")
@option("--from-start", is_flag=True, help="Start with the first event.")
@option("--tail", type=click.IntRange(1, 1000), metavar="N", help="Start with the last N events. [default: 50]")
@_all_of(VIEWING)
@pass_app
def watch(app: App, /, run_id: str, after: int | None, from_start: bool, tail: int | None, **given: Any) -> None:
    """Follow a run to its end, answer its questions, and steer it.

    In a terminal, a line you type goes to the agent's inbox, or is the answer when a question is on the screen. Ctrl-C
    asks what to do, twice leaves. Ends with code 0 when the run succeeded, 1 when it did not, 6 when events were lost.
    """
    begins = stated({"after": after, "from_start": 0 if from_start else None, "tail": tail})
    if len(begins) > 1:
        raise click.UsageError("--after, --from-start and --tail exclude each other")
    name, number = next(iter(begins.items()), ("tail", 50))
    viewing = Viewing(given, after=0, tail=number) if name == "tail" else Viewing(given, after=number)
    with app.client() as client:
        run = client.run(run_id)
        if not app.as_json:
            click.echo(one_line(f"{run.id} ({run.state}) {run.task}", 200), err=True)
        follow(app, client, run, viewing)


def _go(
    app: App, given: dict[str, Any], viewing: Viewing, begin: Callable[[FlowerClient, dict[str, Any]], Run]
) -> None:
    """Start a run, say its id, and watch it if that is wanted."""
    key = given["idempotency_key"] or uuid.uuid4().hex
    common = {name: given[name] for name in ("workspace", "lang", "model")}
    common |= {"labels": _pairs(given["label"], "--label") or None, "idempotency_key": key}
    with app.client() as client:
        try:
            run = begin(client, common)
        except Unreachable as error:
            if error.maybe_done:
                error.hint += f" Repeat this with --idempotency-key {key} to find out safely."
            raise
        app.put(run.raw, [run.id])
        if given["watch"]:
            follow(app, client, run, viewing)


def _task(task: str | None, *, has_workspace: bool) -> str:
    """The task's words: as given, from standard input, or asked for."""
    if task == "-":
        return sys.stdin.read().strip()
    if task is None and sys.stdin.isatty():
        hint = " (empty: wake the workspace)" if has_workspace else ""
        on_screen = sys.stdout.isatty()  # else standard output is for the id alone
        if on_screen and os.environ.get("TERM") != "dumb":
            with contextlib.suppress(ImportError):  # with it, arrow keys do what they should, and no long line is cut
                importlib.import_module("readline")
        task = str(click.prompt(f"What is to be done?{hint}", default="", show_default=False, err=not on_screen))
    if not (task or "").strip() and not has_workspace:
        raise click.UsageError("a TASK is needed, or a --workspace that holds something to wake")
    return task or ""


def _pairs(given: tuple[str, ...], flag: str) -> dict[str, str]:
    """What stood behind a repeatable ``flag`` as ``key=value``."""
    pairs: dict[str, str] = {}
    for pair in given:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise click.BadParameter(f"{pair!r} is not of the form key=value", param_hint=flag)
        if key in pairs:
            raise click.BadParameter(f"{key!r} is given twice", param_hint=flag)
        pairs[key] = value
    return pairs
