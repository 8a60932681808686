"""What all commands share: settings, the client, options with a variable each, and errors as one line and a code.

With ``--json`` an error is one JSON object, too, and the last line of standard error: ``error`` is the name of the exit
code, ``exit`` its number, ``message`` and ``hint`` are for people, ``problem`` is the server's own document.
"""

from __future__ import annotations

import difflib
import functools
import os
import pkgutil
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import click
from click.core import ParameterSource

import flower_client
from flower_client.config import TIMEOUT_S, resolve
from flower_client.errors import ConfigError, FlowerClientError, ProblemError
from flower_client.exits import Exit
from flower_client.pipes import forget_output, open_streams
from flower_client.safe_text import clean, json_line, one_line

#: click.option, whose help also names the variable that sets it.
option = functools.partial(click.option, show_envvar=True)


@dataclass
class App:
    """The global options. The server's settings are only looked up when a client is made."""

    url: str | None = None
    token: str | None = field(default=None, repr=False)
    as_json: bool = False

    def client(
        self,
        sleep: Callable[[float], object] = time.sleep,
        *,
        attempts: int = 3,
        timeout_s: float = TIMEOUT_S,
    ) -> flower_client.FlowerClient:
        """A client for the server that flags, variables and file name. Raises ConfigError."""
        settings = resolve(self.url, self.token, os.environ)
        return flower_client.FlowerClient(
            settings.url, settings.token, attempts=attempts, timeout_s=timeout_s, sleep=sleep
        )

    def put(self, raw: Any, lines: Iterable[str]) -> None:
        """Print ``raw``, the API's own object, with --json, and ``lines`` for people without."""
        if self.as_json:
            click.echo(json_line(raw))
        else:
            put(lines)

    def tell(self, text: str, **members: Any) -> None:
        """Say ``text``, which is no part of what was asked for, on standard error; with --json ``members`` instead."""
        click.echo(json_line(members) if self.as_json else f"flower-client: {one_line(text, 1500)}", err=True)


pass_app = click.make_pass_decorator(App, ensure=True)


def json_wanted(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    """The callback of ``--json``: known before anything else is looked at, so that every error can be JSON."""
    if value:
        ctx.ensure_object(App).as_json = True


def stated(options: Mapping[str, Any]) -> dict[str, Any]:
    """Which of ``options``, values by parameter name that exclude each other, hold; None is no value.

    What stands on the command line beats what variables say. More than one left is for the caller to refuse.
    """
    source = click.get_current_context().get_parameter_source
    given = {name: value for name, value in options.items() if value is not None}
    typed = {name: value for name, value in given.items() if source(name) is ParameterSource.COMMANDLINE}
    return typed or given


class Command(click.Command):
    """A command that takes ``--json`` behind its own name as well, where people try it first."""

    _json = click.Option(
        ["--json"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=json_wanted,
        help="The same as `flower-client --json`.",
    )

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Its own parameters, ``--json`` and ``--help``."""
        *own, helping = super().get_params(ctx)
        return [*own, self._json, helping]


#: click.command, for every command of ours.
command = functools.partial(click.command, cls=Command)


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

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that ``args`` begin with; a misspelt one is refused with those whose names are near."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:  # click only knows of commands that are loaded
            near = " or ".join(f"'{name}'" for name in difflib.get_close_matches(args[0], self._places))
            if not near:
                raise
            raise click.UsageError(f"{error.format_message()} Did you mean {near}?", ctx) from error

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that was asked for."""
        open_streams()
        try:
            return super().invoke(ctx)
        except FlowerClientError as error:
            self._fail(ctx, error, error.exit_code)
        except click.UsageError as error:
            if not ctx.ensure_object(App).as_json:
                raise  # click shows the usage
            self._fail(ctx, error, Exit.USAGE)
        except BrokenPipeError:
            forget_output()
            ctx.exit(Exit.PIPE_CLOSED)
        except OSError as error:  # of what can fail here, only writing has no exception of its own
            forget_output()
            full = ConfigError(
                f"the output cannot be written: {error.strerror}", hint="Make room, or put it elsewhere."
            )
            self._fail(ctx, full, full.exit_code)
        except (KeyboardInterrupt, click.Abort):
            if sys.stderr.isatty():
                click.echo(err=True)  # what comes next had better not stand behind ^C
            ctx.exit(Exit.INTERRUPTED)

    @staticmethod
    def _fail(ctx: click.Context, error: FlowerClientError | click.UsageError, code: int) -> None:
        if isinstance(error, click.UsageError):
            advice, message, hint = "", error.format_message(), ""
        else:
            advice, message, hint = error.advice, str(error), error.hint
        problem = {"problem": error.document} if isinstance(error, ProblemError) else {}
        name = Exit(code).name.lower().replace("_", "-")
        ctx.ensure_object(App).tell(advice, error=name, exit=code, message=message, hint=hint, **problem)
        ctx.exit(code)


def put(lines: Iterable[str]) -> None:
    """Print ``lines``, cleaned, to standard output."""
    for line in lines:
        click.echo(clean(line))
