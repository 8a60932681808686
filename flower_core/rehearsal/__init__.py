"""Rehearsal: a scripted stand-in for the Anthropic Messages API on loopback.

A whole run can be played without network, key or cost; everything but the model's words is real. A play is data, see
:mod:`flower_core.rehearsal.script`::

    with RehearsalServer() as rehearsal:
        env = {"ANTHROPIC_BASE_URL": rehearsal.url, "ANTHROPIC_API_KEY": "rehearsal"}
"""

from flower_core.rehearsal.checks import PlayError
from flower_core.rehearsal.endpoint import RehearsalApp, RehearsalServer, Request
from flower_core.rehearsal.parts import NAMED_ERRORS, Reply
from flower_core.rehearsal.script import Play, shipped_plays

__all__ = [
    "NAMED_ERRORS",
    "Play",
    "PlayError",
    "RehearsalApp",
    "RehearsalServer",
    "Reply",
    "Request",
    "shipped_plays",
]
