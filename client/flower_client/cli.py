"""flower-client: the command. Every option can also be set by the variable its help names."""

from __future__ import annotations

import click

from flower_client.app import App, Commands, json_wanted, option

#: Where each command is; see :class:`Commands`.
_COMMANDS = {
    "start": "flower_client.commands_start:start",
    "once": "flower_client.commands_start:once",
    "watch": "flower_client.commands_start:watch",
    "runs": "flower_client.commands_read:runs",
    "show": "flower_client.commands_read:show",
    "steps": "flower_client.commands_read:steps",
    "docs": "flower_client.commands_files:docs",
    "files": "flower_client.commands_files:files",
    "events": "flower_client.commands_read:events",
    "asks": "flower_client.commands_read:asks",
    "answer": "flower_client.commands_steer:answer",
    "decline": "flower_client.commands_steer:decline",
    "say": "flower_client.commands_steer:say",
    "interrupt": "flower_client.commands_steer:interrupt",
    "oracle": "flower_client.commands_steer:oracle",
    "cancel": "flower_client.commands_steer:cancel",
    "resume": "flower_client.commands_steer:resume",
    "delete": "flower_client.commands_steer:delete",
    "completion": "flower_client.commands_completion:completion",
    "doctor": "flower_client.commands_doctor:doctor",
}


@click.group(
    cls=Commands,
    places=_COMMANDS,
    context_settings={"auto_envvar_prefix": "FLOWER", "help_option_names": ["-h", "--help"]},
)
@option("--url", metavar="URL", help="The server's address. [default: http://127.0.0.1:8420]")
@option("--token", metavar="TOKEN", help="The token. Better in the variable or in the file than on a command line.")
@option(
    "--json",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=json_wanted,
    help="Print the API's own objects, and errors, as JSON.",
)
@click.version_option(package_name="flower-client")
@click.pass_context
def main(ctx: click.Context, url: str | None, token: str | None) -> None:
    """Follow and steer flower runs.

    Address and token may also stand in client.toml in ~/.config/flower (mode 0600).

    Exit codes: 0 done, and a watched run succeeded · 1 the run failed or was cancelled · 2 usage · 3 server unreachable
    · 4 not allowed · 5 refused · 6 events were lost · 7 left at a question · 130 left with Ctrl-C
    · 141 nobody reads the output any more.
    """
    app = ctx.ensure_object(App)
    app.url, app.token = url, token
