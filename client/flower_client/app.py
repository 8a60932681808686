"""What all commands share: settings, the client, options with a variable each, and errors as one line and a code."""

from __future__ import annotations

import functools
import os
import pkgutil
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import click

import flower_client
from flower_client.config import resolve
from flower_client.errors import FlowerClientError
from flower_client.exits import Exit, for_error
from flower_client.safe_text import clean, json_line, one_line

#: click.option, whose help also names the variable that sets it.
option = functools.partial(click.option, show_envvar=True)


@dataclass
class App:
    """The global options. The server's settings are only looked up when a client is made."""

    url: str | None = None
    token: str | None = field(default=None, repr=False)
    as_json: bool = False

    def client(self, sleep: Callable[[float], object] = time.sleep) -> flower_client.FlowerClient:
        """A client for the server that flags, variables and file name. Raises ConfigError."""
        settings = resolve(self.url, self.token, os.environ)
        return flower_client.FlowerClient(settings.url, settings.token, attempts=3, sleep=sleep)

    def put(self, raw: Any, lines: Iterable[str]) -> None:
        """Print ``raw``, the API's own object, with --json, and ``lines`` for people without."""
        if self.as_json:
            click.echo(json_line(raw))
        else:
            put(lines)


pass_app = click.make_pass_decorator(App, ensure=True)


class Commands(click.Group):
    """A group of commands whose errors end in the exit codes of :mod:`flower_client.exits`.

    ``places`` says where each command is, as ``module:attribute``. A module is imported when one of its commands is
    looked at: what every command needs together is slow to load beside what one of them needs.
    """

    def __init__(self, *args: Any, places: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._places = places

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands, sorted."""
        return sorted(self._places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, None when there is none."""
        place = self._places.get(cmd_name)
        command: click.Command | None = pkgutil.resolve_name(place) if place else None
        return command

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
