"""Every exception of flower_core.

::

    FlowerError
    ├── StepAbort            a gate says: no further attempt of this step can help
    ├── CredentialsMissing   no way to reach a model; the message says what to set
    ├── AgentProgramMissing  the agent program is not there or cannot be started
    └── UnknownLanguage      (also a ValueError) no texts for that language

Wrong arguments are plain :class:`ValueError`, raised before anything has happened.
"""

from __future__ import annotations


class FlowerError(Exception):
    """Base of everything flower_core raises on purpose."""


class StepAbort(FlowerError):
    """Raised by a gate: repeating this step would not help, so spend no further attempt on it.

    The message becomes ``ctx["_aborted"]``; the step then fails as its ``on_fail`` says.
    """


class CredentialsMissing(FlowerError):
    """Nothing in the environment lets the agent program reach a model."""


class AgentProgramMissing(FlowerError):
    """The agent program could not be found or started."""


class AgentUserUnusable(FlowerError):
    """The agents cannot be run as the user that was named."""


class UnknownLanguage(FlowerError, ValueError):
    """There are no texts for the language asked for."""
