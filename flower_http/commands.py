"""The commands of flower-server: their flags, their help, their exit codes."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from typing import Any

import click

from flower_http import tokens
from flower_http.errors import SettingsError, StartError
from flower_http.serving import BuildService, leave, serve
from flower_http.settings import TABLE, Setting, Settings

_REFUSED = 2
#: Named, not imported: it looks at all that a service needs, which takes longer to load than all else.
_DIAGNOSE = "flower_http.doctor:diagnose"
_SWITCHES = ("allow_bypass", "no_resume")


class _Refused(click.ClickException):
    """One line on standard error, and exit code 2."""

    exit_code = _REFUSED

    def show(self, file: Any = None) -> None:
        click.echo(f"flower-server: {self.format_message()}", err=True, file=file)


def make_cli(build: BuildService) -> click.Group:
    """The command line whose ``serve`` gets its service from ``build``."""

    @click.group(context_settings={"help_option_names": ["-h", "--help"]})
    @click.version_option(package_name="flower-http")
    def main() -> None:
        """Serve long agent jobs over plain HTTP.

        Every flag has an environment variable. A flag beats a variable, and what is not set, or empty, is looked for
        in the file that FLOWER_ENV names, in ./.env, and in .env of the user's configuration directory.
        """

    main.add_command(_serve_command(build))
    main.add_command(_token_group)
    main.add_command(_doctor_command())
    return main


def _doctor_command() -> click.Command:
    def run(**flags: Any) -> None:
        try:
            settings = Settings.load(_settings_of(flags))
        except StartError as error:
            raise _Refused(str(error)) from error
        for line in settings.warnings:
            click.echo(f"note     {line}")
        findings = pkgutil.resolve_name(_DIAGNOSE)(settings)
        for finding in findings:
            click.echo(f"{'ok     ' if finding.ok else 'MISSING'}  {finding.name}: {finding.text}")
        if not all(finding.ok for finding in findings):
            raise click.exceptions.Exit(1)

    help_text = (
        "Look at what `serve` with the same flags would need, and change nothing.\n\n"
        "Says what was found, credentials masked, and what to do about what is missing; exit 1 if anything is."
    )
    options: list[click.Parameter] = [_option(row) for row in TABLE if row.flag]
    return click.Command("doctor", callback=run, params=options, help=help_text)


def _serve_command(build: BuildService) -> click.Command:
    def run(**flags: Any) -> None:
        try:
            serve(Settings.load(_settings_of(flags)), build)
        except StartError as error:
            raise _Refused(str(error)) from error
        leave()

    help_text = (
        "Serve until SIGTERM, SIGHUP or Ctrl-C.\n\n"
        "Prints one line to standard output when it accepts requests; logs go to standard error. FLOWER_TOKEN "
        "holds one token with every scope, if any.\n\n"
        "The model's credentials: ANTHROPIC_API_KEY, ANTHROPIC_AUTH_TOKEN or CLAUDE_CODE_OAUTH_TOKEN; none is needed "
        "with --rehearse."
    )
    options: list[click.Parameter] = [_option(row) for row in TABLE if row.flag]
    return click.Command("serve", callback=run, params=options, help=help_text)


def _settings_of(flags: dict[str, Any]) -> dict[str, str | None]:
    """What click made of the command line, as :meth:`Settings.load` takes it: one text for each flag, or None."""
    texts = {**flags, "flow": ";".join(flags["flow"]) or None}
    return texts | {name: "yes" if flags[name] else None for name in _SWITCHES}


def _option(row: Setting) -> click.Option:
    shape: dict[str, Any] = {"metavar": row.name.rpartition("_")[2].upper()}
    if row.name in _SWITCHES:
        shape = {"is_flag": True}
    elif row.name == "flow":
        shape = {"multiple": True, "metavar": "NAME=module:attr|NAME=file.py:attr"}
    elif row.name == "rehearse":
        shape = {"is_flag": False, "flag_value": "yes", "metavar": "[PLAY]"}
    return click.Option([row.flag, row.name], help=_help(row), **shape)


def _help(row: Setting) -> str:
    return f"{row.help}  [{row.variable}; default: {row.default}]"


def _data_dir_option(command: Callable[..., Any]) -> Callable[..., Any]:
    row = next(row for row in TABLE if row.name == "data_dir")
    decorate = click.option(row.flag, row.name, metavar="DIR", help=_help(row))
    return decorate(command)


@click.group("token")
def _token_group() -> None:
    """Make, list and revoke tokens; a running server notices."""


@_token_group.command("add")
@click.argument("name")
@click.option(
    "--scope",
    type=click.Choice(tokens.SCOPES),
    required=True,
    envvar="FLOWER_SCOPE",
    show_envvar=True,
    help="read: look; steer: also answer, say, interrupt, cancel; start: also start, resume and delete",
)
@_data_dir_option
def _add(name: str, scope: str, data_dir: str | None) -> None:
    """Make a token called NAME and print it. It cannot be shown again."""
    try:
        click.echo(tokens.add_token(_load(data_dir).tokens_path, name, scope))
    except (StartError, OSError) as error:
        raise _Refused(str(error)) from error


@_token_group.command("list")
@_data_dir_option
def _list(data_dir: str | None) -> None:
    """Name, scope and time of making of every token."""
    settings = _load(data_dir)
    try:
        rows = tokens.read_rows(settings.tokens_path)
    except StartError as error:
        raise _Refused(str(error)) from error
    if settings.token:
        rows = (tokens.TokenRow(tokens.ENV_NAME, tokens.SCOPES[-1], "", "(FLOWER_TOKEN)"), *rows)
    for row in rows:
        click.echo(f"{row.name}\t{row.scope}\t{row.created_at}")


@_token_group.command("revoke")
@click.argument("name")
@_data_dir_option
def _revoke(name: str, data_dir: str | None) -> None:
    """Make the token called NAME worthless at once."""
    try:
        found = tokens.revoke_token(_load(data_dir).tokens_path, name)
    except (StartError, OSError) as error:
        raise _Refused(str(error)) from error
    if not found:
        raise _Refused(f"there is no token {name!r}; `flower-server token list` shows those there are")
    click.echo(f"revoked {name}")


def _load(data_dir: str | None) -> Settings:
    try:
        return Settings.load({"data_dir": data_dir})
    except SettingsError as error:
        raise _Refused(str(error)) from error
