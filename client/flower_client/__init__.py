"""Follow and steer flower runs: a command and a small library."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flower_client.api import FlowerClient
    from flower_client.counting import Loss
    from flower_client.errors import (
        BadReply,
        ConfigError,
        FlowerClientError,
        NotAllowed,
        ProblemError,
        Refused,
        Unreachable,
    )
    from flower_client.files import Document, FileEntry, FileList
    from flower_client.models import Ask, Event, Gap, Page, Progress, Run, RunList, Settled, Verdict
    from flower_client.oracle import OracleAnswer
    from flower_client.poll import Notice, Watch
    from flower_client.retrying import Backoff
else:
    # Taken from their modules when first asked for (PEP 562): `flower-client --version` must not load requests.
    _MODULES = {
        "api": ("FlowerClient",),
        "counting": ("Loss",),
        "errors": (
            "BadReply",
            "ConfigError",
            "FlowerClientError",
            "NotAllowed",
            "ProblemError",
            "Refused",
            "Unreachable",
        ),
        "files": ("Document", "FileEntry", "FileList"),
        "models": ("Ask", "Event", "Gap", "Page", "Progress", "Run", "RunList", "Settled", "Verdict"),
        "oracle": ("OracleAnswer",),
        "poll": ("Notice", "Watch"),
        "retrying": ("Backoff",),
    }
    _HOME = {name: f"{__name__}.{module}" for module, names in _MODULES.items() for name in names}

    def __getattr__(name: str) -> object:
        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_HOME[name]), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})


__all__ = [
    "Ask",
    "Backoff",
    "BadReply",
    "ConfigError",
    "Document",
    "Event",
    "FileEntry",
    "FileList",
    "FlowerClient",
    "FlowerClientError",
    "Gap",
    "Loss",
    "NotAllowed",
    "Notice",
    "OracleAnswer",
    "Page",
    "ProblemError",
    "Progress",
    "Refused",
    "Run",
    "RunList",
    "Settled",
    "Unreachable",
    "Verdict",
    "Watch",
]
