"""completion: the script that teaches a shell our commands."""

from __future__ import annotations

import click
from click.shell_completion import BashComplete, FishComplete, ZshComplete

from flower_client.app import App, command, pass_app

_SHELLS = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}


@command()
@click.argument("shell", type=click.Choice(list(_SHELLS)))
@pass_app
@click.pass_context
def completion(ctx: click.Context, app: App, shell: str) -> None:
    """Print the completion script for a shell.

    \b
    bash   source <(flower-client completion bash)        in ~/.bashrc
    zsh    source <(flower-client completion zsh)         in ~/.zshrc, behind compinit
    fish   flower-client completion fish > ~/.config/fish/completions/flower-client.fish
    """  # noqa: D301 - \b keeps click from filling the lines into a paragraph
    root = ctx.find_root()
    name = root.info_name or "flower-client"
    script = _SHELLS[shell](root.command, {}, name, f"_{name}_COMPLETE".replace("-", "_").upper()).source()
    app.put({"shell": shell, "script": script}, script.splitlines())
