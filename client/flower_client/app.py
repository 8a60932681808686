"""What all commands share: settings, the client, options with a variable each, and errors as one line and a code."""

from __future__ import annotations

import functools
import os
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import click

from flower_client.api import FlowerClient
from flower_client.config import resolve
from flower_client.errors import FlowerClientError
from flower_client.exits import Exit, for_error
from flower_client.safe_text import clean, json_line, one_line
from flower_client.transport import Sleep

#: click.option, whose help also names the variable that sets it.
option = functools.partial(click.option, show_envvar=True)


@dataclass
class App:
    """The global options. The server's settings are only looked up when a client is made."""

    url: str | None = None
    token: str | None = field(default=None, repr=False)
    as_json: bool = False

    def client(self, sleep: Sleep = time.sleep) -> FlowerClient:
        """A client for the server that flags, variables and file name. Raises ConfigError."""
        settings = resolve(self.url, self.token, os.environ)
        return FlowerClient(settings.url, settings.token, attempts=3, sleep=sleep)

    def put(self, raw: Any, lines: Iterable[str]) -> None:
        """Print ``raw``, the API's own object, with --json, and ``lines`` for people without."""
        if self.as_json:
            click.echo(json_line(raw))
        else:
            put(lines)


pass_app = click.make_pass_decorator(App, ensure=True)


class Commands(click.Group):
    """A group of commands whose errors end in the exit codes of :mod:`flower_client.exits`."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that was asked for."""
        for stream in (sys.stdout, sys.stderr):
            # Where the locale cannot show a character, a question mark is better than an exception.
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="replace")
        try:
            return super().invoke(ctx)
        except FlowerClientError as error:
            click.echo(f"flower-client: {one_line(error.advice, 1500)}", err=True)
            ctx.exit(for_error(error))
        except (KeyboardInterrupt, click.Abort):
            ctx.exit(Exit.INTERRUPTED)


def put(lines: Iterable[str]) -> None:
    """Print ``lines``, cleaned, to standard output."""
    for line in lines:
        click.echo(clean(line))
