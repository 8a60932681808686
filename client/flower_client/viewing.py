"""The options of watching, which three commands share, and the watch that they lead to."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import Any

import click

from flower_client.api import FlowerClient
from flower_client.app import App, option, stated
from flower_client.exits import Exit
from flower_client.feed import Options
from flower_client.keyboard import Keyboard
from flower_client.models import Run
from flower_client.pipes import leave_when_unread
from flower_client.render import DEFAULT_SHOW, SHOWABLE, Renderer
from flower_client.screen import Screen
from flower_client.session import WatchSession

#: What `watch` takes, and what `start` and `once` take for their --watch.
VIEWING = (
    option(
        "--on-ask",
        type=click.Choice(["auto", "prompt", "wait", "decline", "first"]),
        default="auto",
        show_default=True,
        help="What to do with a question: prompt for an answer, wait for one from elsewhere, decline it, or take the"
        " first option (decline where there is none). auto prompts in a terminal and waits without one.",
    ),
    option("--exit-on-ask", is_flag=True, help="Leave with code 7 as soon as a question waits."),
    option(
        "--show",
        default=",".join(sorted(DEFAULT_SHOW)),
        show_default=True,
        metavar="KINDS",
        help="Which events to show, comma-separated: text, thinking, tools, all. Tools are one line each, with all they"
        " are shown in full. Steps, questions, retries, handoffs and errors always show.",
    ),
    option("--subagents", is_flag=True, help="Show what subagents say and do, too."),
    option("--no-color", is_flag=True, help="No colours; the variable NO_COLOR and the terminal `dumb` do the same."),
    option(
        "--give-up",
        type=click.FloatRange(min=0),
        default=3600.0,
        show_default=True,
        metavar="SECONDS",
        help="Leave with code 3 when the server has been out of reach for so long.",
    ),
)


class Viewing:
    """The options of watching, checked: ``given`` by parameter name, and where to begin.

    Raises click.UsageError for those that do not go together.
    """

    def __init__(self, given: dict[str, Any], after: int = 0, tail: int | None = None) -> None:
        names = frozenset(name.strip() for name in given["show"].split(",") if name.strip())
        for name in names - set(SHOWABLE):
            raise click.BadParameter(f"there is no {name!r}; there are {', '.join(SHOWABLE)}", param_hint="--show")
        settles = given["on_ask"] if given["on_ask"] not in ("auto", "wait") else None
        at_ask = stated({"exit_on_ask": given["exit_on_ask"] or None, "on_ask": settles})
        if len(at_ask) > 1:
            raise click.UsageError(f"--exit-on-ask leaves at a question, --on-ask {settles} does not")
        self.show = names
        self.subagents: bool = given["subagents"]
        plain = given["no_color"] or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        self.colour = not plain and sys.stdout.isatty()
        self.exit_on_ask = "exit_on_ask" in at_ask
        self.on_ask: str = "wait" if self.exit_on_ask else given["on_ask"]
        self.give_up_after_s: float = given["give_up"]
        self.after, self.tail = after, tail

    def options(self, *, as_json: bool) -> Options:
        """The same for a session, with what standard input is taken into account."""
        terminal = sys.stdin.isatty() and sys.stdout.isatty() and Keyboard.available() and not as_json
        on_ask = self.on_ask if self.on_ask != "auto" else "prompt" if terminal else "wait"
        keyboard = sys.stdin.fileno() if terminal or on_ask == "prompt" else None
        return Options(
            after=self.after,
            tail=self.tail,
            on_ask=on_ask,  # type: ignore[arg-type]  # click.Choice has checked it
            exit_on_ask=self.exit_on_ask,
            as_json=as_json,
            keyboard=keyboard,
            give_up_after_s=self.give_up_after_s,
        )


def follow(app: App, client: FlowerClient, run: Run, viewing: Viewing) -> None:
    """Watch ``run``, and end the command with the code that comes of it."""
    leave_when_unread()
    options = viewing.options(as_json=app.as_json)
    session = WatchSession(
        run.id,
        replace(options, keyboard=None) if run.final else options,  # nobody is there any more who would listen
        client=client,
        make_client=app.client,
        renderer=Renderer(show=viewing.show, subagents=viewing.subagents, colour=viewing.colour),
        screen=Screen(wraps=not app.as_json),
    )
    code = session.run()
    if code is not Exit.DONE:
        click.get_current_context().exit(code)
