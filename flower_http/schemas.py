"""What the bodies of requests may hold. openapi.yaml says the same, and a test compares the two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, get_args

from marshmallow import RAISE, Schema, ValidationError, post_load, validate, validates_schema

from flower_core.agent import PermissionMode
from flower_core.texts import LANGUAGES
from flower_http.errors import invalid_body
from flower_http.fields import Flag, Labels, Number, Text, Texts, Whole
from flower_http.parsing import BUILT_IN_FLOWS, FLOW_NAME

#: Most characters of a text meant for a model or from a person.
LONG_TEXT = 200_000
#: Instructions reach the agent program, with the rules of a role, as one argument: 128 KiB on Linux (MAX_ARG_STRLEN),
#: and a character may take four bytes.
LONGEST_INSTRUCTIONS = 30_000
#: Most seconds a question may wait.
LONGEST_WAIT_S = 86_400
LABEL_NAME = r"[A-Za-z0-9][A-Za-z0-9._/-]*"
#: Most characters of a label's name, and of its value.
LONGEST_LABEL_NAME, LONGEST_LABEL = 64, 256
PARAM_NAME = r"[A-Za-z][A-Za-z0-9_-]*"
#: Most characters of the value of a flow's parameter: a setting, not a document.
LONGEST_PARAM = 4000
_TOOL_NAME = r"[A-Za-z][A-Za-z0-9_-]*"
_MODEL_NAME = r"[A-Za-z0-9][A-Za-z0-9._:/@\[\]-]*"
_SESSION_ID = r"[A-Za-z0-9][A-Za-z0-9-]*"


@dataclass(frozen=True)
class StartParams:
    """What a run is started with: the body of POST /runs after validation.

    ``workspace`` is a relative path or None for a fresh one; ``lang`` None means the server's; ``timeout_s`` is in
    seconds, 0 or below = nobody is there; ``max_asks`` None = no limit; ``window`` is in tokens, None = the model's.
    ``params`` are for a registered flow, the last four for flow ``once``.
    """

    task: str = ""
    workspace: str | None = None
    flow: str = "starter"
    goal: bool = True
    rounds: int = 3
    judge_can_run: bool = False
    clarify_only: bool = False
    max_asks: int | None = None
    timeout_s: float = 1800.0
    isolate: bool = False
    new: bool = False
    lang: str | None = None
    model: str | None = None
    instructions: str = ""
    budget_usd: float | None = None
    window: int | None = None
    handoff: bool = True
    labels: dict[str, str] = field(default_factory=dict)
    params: dict[str, str] = field(default_factory=dict)
    tools: tuple[str, ...] | None = None
    permission_mode: str | None = None
    resume: str | None = None
    fork: bool = False

    @classmethod
    def restore(cls, kept: Mapping[str, Any]) -> StartParams:
        """The parameters that ``kept`` was made of with ``asdict`` and JSON; what is no field is passed over."""
        known = {name: kept[name] for name in cls.__dataclass_fields__ if name in kept}
        if known.get("tools") is not None:
            known["tools"] = tuple(known["tools"])
        return cls(**known)


#: Fields that mean something for flow ``once`` only.
ONCE_ONLY = ("tools", "permission_mode", "resume", "fork")


class Body(Schema):
    """A request body: an object whose fields are all known."""

    class Meta:
        """Unknown fields are refused by name."""

        unknown = RAISE

    error_messages = {  # noqa: RUF012 - marshmallow's own name and form
        "unknown": "there is no such field",
        "type": "the body must be a JSON object",
    }


def _one_of(choices: Sequence[str]) -> validate.OneOf:
    return validate.OneOf(choices, error="must be one of: {choices}")


class StartSchema(Body):
    """POST /runs."""

    task = Text(high=LONG_TEXT)
    workspace = Text(low=1, high=500, allow_none=True)
    flow = Text(low=1, high=64, pattern=FLOW_NAME.pattern, what="the name of a flow")
    goal = Flag()
    rounds = Whole(low=1, high=100)
    judge_can_run = Flag()
    clarify_only = Flag()
    max_asks = Whole(low=0, high=10_000, allow_none=True)
    timeout_s = Number(low=-LONGEST_WAIT_S, high=LONGEST_WAIT_S)
    isolate = Flag()
    new = Flag()
    lang = Text(low=1, high=8, allow_none=True, validate=_one_of(LANGUAGES))
    model = Text(low=1, high=200, allow_none=True, pattern=_MODEL_NAME, what="the name of a model")
    instructions = Text(high=LONGEST_INSTRUCTIONS, pattern="[^\\x00]*", what="a text without NUL")
    budget_usd = Number(low=0, above_low=True, high=100_000, allow_none=True)
    window = Whole(low=10_000, high=10_000_000, allow_none=True)
    handoff = Flag()
    labels = Labels(
        key=Text(low=1, high=LONGEST_LABEL_NAME, pattern=LABEL_NAME, what="the name of a label"),
        value=Text(high=LONGEST_LABEL),
        most=32,
    )
    params = Labels(
        key=Text(low=1, high=LONGEST_LABEL_NAME, pattern=PARAM_NAME, what="the name of a parameter"),
        value=Text(high=LONGEST_PARAM),
        most=32,
    )
    tools = Texts(item=Text(low=1, high=128, pattern=_TOOL_NAME, what="the name of a tool"), most=64, allow_none=True)
    permission_mode = Text(low=1, high=32, allow_none=True, validate=_one_of(get_args(PermissionMode)))
    resume = Text(low=1, high=64, allow_none=True, pattern=_SESSION_ID, what="a session id")
    fork = Flag()

    @validates_schema
    def _check_workspace(self, data: dict[str, Any], **_: Any) -> None:
        given = data.get("workspace")
        if given is None:
            return
        parts = given.split("/")
        if any(not part.isprintable() for part in parts) or "\\" in given or given.startswith("~"):
            raise ValidationError("must be a plain name or relative path", "workspace")
        if PurePosixPath(given).is_absolute() or any(part in ("", ".", "..") for part in parts):
            raise ValidationError("must stay below the server's workspace root: no /, . or .. segments", "workspace")

    @validates_schema
    def _check_params(self, data: dict[str, Any], **_: Any) -> None:
        if data.get("params") and data.get("flow", BUILT_IN_FLOWS[0]) in BUILT_IN_FLOWS:
            raise ValidationError("are for flows that were registered with the server", "params")

    @validates_schema
    def _check_once(self, data: dict[str, Any], **_: Any) -> None:
        if data.get("flow", "starter") != "once":
            wrong = [name for name in ONCE_ONLY if data.get(name) not in (None, False)]
            if wrong:
                raise ValidationError({name: ["is for flow once only"] for name in wrong})
        elif data.get("isolate"):
            raise ValidationError("is not for flow once, which has no workers", "isolate")
        if data.get("fork") and not data.get("resume"):
            raise ValidationError("needs a session to resume", "fork")

    @post_load
    def _to_params(self, data: dict[str, Any], **_: Any) -> StartParams:
        return StartParams(**data)


class AnswerSchema(Body):
    """POST …/answer: by words or by the number of an option."""

    ask_id = Text(low=1, high=64, required=True)
    text = Text(low=1, high=LONG_TEXT)
    option = Whole(low=1, high=1000)

    @validates_schema
    def _check_one(self, data: dict[str, Any], **_: Any) -> None:
        if ("text" in data) == ("option" in data):
            message = "give either text or option; to refuse an answer, decline"
            raise ValidationError({"text": [message], "option": [message]})


class DeclineSchema(Body):
    """POST …/decline."""

    ask_id = Text(low=1, high=64, required=True)
    reason = Text(high=LONG_TEXT)


class SaySchema(Body):
    """POST …/inbox."""

    text = Text(low=1, high=LONG_TEXT, required=True)


class InterruptSchema(Body):
    """POST …/interrupt."""

    text = Text(high=LONG_TEXT)


class OracleSchema(Body):
    """POST …/oracle."""

    question = Text(low=1, high=LONG_TEXT, required=True)


class EmptySchema(Body):
    """A POST that takes no field at all."""


class RootAnswerSchema(AnswerSchema):
    """POST /answer: the run may be left out."""

    run = Text(low=1, high=64)


class RootDeclineSchema(DeclineSchema):
    """POST /decline."""

    run = Text(low=1, high=64)


class RootSaySchema(SaySchema):
    """POST /inbox."""

    run = Text(low=1, high=64)


class RootInterruptSchema(InterruptSchema):
    """POST /interrupt."""

    run = Text(low=1, high=64)


def load(schema: Schema, document: Any) -> Any:
    """``document`` checked against ``schema``. Raises Problem 422 with the messages by field."""
    try:
        return schema.load(document)
    except ValidationError as error:
        found = error.messages if isinstance(error.messages, dict) else {"_schema": error.messages}
        raise invalid_body({name: list(messages) for name, messages in found.items()}) from error
