"""Follow and steer flower runs: a command and a small library."""

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
from flower_client.models import Ask, Event, Gap, Page, Progress, Run, RunList, Settled, Verdict
from flower_client.poll import Notice, Watch
from flower_client.transport import Backoff

__all__ = [
    "Ask",
    "Backoff",
    "BadReply",
    "ConfigError",
    "Event",
    "FlowerClient",
    "FlowerClientError",
    "Gap",
    "Loss",
    "NotAllowed",
    "Notice",
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
