"""Fields that take exactly what JSON says and coerce nothing.

marshmallow's own turn ``1`` into true, ``"3"`` into 3 and 3.0 into 3; a client that sends those has a fault that it
should hear about.
"""

from __future__ import annotations

import re
from typing import Any

from marshmallow import ValidationError, fields


class Text(fields.Field[str]):
    """A string that can be encoded as UTF-8, of ``low`` to ``high`` characters, and not only of blanks when low > 0.

    ``pattern`` (ASCII) must match all of it; ``what`` then says what it is, for the message: "the name of a flow".
    """

    def __init__(self, *, low: int = 0, high: int, pattern: str = "", what: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.low = low
        self.high = high
        self.pattern = pattern
        self._matcher = re.compile(pattern, re.ASCII) if pattern else None
        self._what = what

    def _deserialize(self, value: Any, *_: Any, **__: Any) -> str:
        if not isinstance(value, str):
            raise ValidationError("must be a string")
        if not self.low <= len(value) <= self.high:
            raise ValidationError(f"must have {self.low} to {self.high} characters")
        if self.low and not value.strip():
            raise ValidationError("must not be blank")
        if self._matcher and not self._matcher.fullmatch(value):
            raise ValidationError(f"is not {self._what}; it must match {self.pattern}")
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise ValidationError("must be valid Unicode, without lone surrogates") from error
        return value


class Flag(fields.Field[bool]):
    """true or false."""

    def _deserialize(self, value: Any, *_: Any, **__: Any) -> bool:
        if not isinstance(value, bool):
            raise ValidationError("must be true or false")
        return value


class Whole(fields.Field[int]):
    """A whole number from ``low`` to ``high``, written without a fraction."""

    def __init__(self, *, low: int, high: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.low = low
        self.high = high

    def _deserialize(self, value: Any, *_: Any, **__: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            hint = "; a form holds only strings, send JSON" if isinstance(value, str) else ""
            raise ValidationError(f"must be a whole number{hint}")
        if not self.low <= value <= self.high:
            raise ValidationError(f"must be from {self.low} to {self.high}")
        return value


class Number(fields.Field[float]):
    """A finite number from ``low`` to ``high``; ``above_low`` excludes ``low`` itself."""

    def __init__(self, *, low: float, high: float, above_low: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.low = low
        self.high = high
        self.above_low = above_low

    def _deserialize(self, value: Any, *_: Any, **__: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ValidationError("must be a number")
        if not self.low <= value <= self.high or (self.above_low and value == self.low):
            floor = "above" if self.above_low else "from"
            raise ValidationError(f"must be {floor} {self.low:g} up to {self.high:g}")
        return float(value)


class Labels(fields.Field[dict[str, str]]):
    """An object of at most ``most`` strings; ``key`` and ``value`` are the fields its members must pass."""

    def __init__(self, *, key: Text, value: Text, most: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.key = key
        self.value = value
        self.most = most

    def _deserialize(self, value: Any, *_: Any, **__: Any) -> dict[str, str]:
        if not isinstance(value, dict):
            raise ValidationError("must be an object of strings")
        if len(value) > self.most:
            raise ValidationError(f"must have at most {self.most} members")
        return {str(self.key.deserialize(name)): str(self.value.deserialize(item)) for name, item in value.items()}


class Texts(fields.Field[tuple[str, ...]]):
    """A list of at most ``most`` strings that ``item`` takes. What is too long is not looked at string by string."""

    def __init__(self, *, item: Text, most: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.item = item
        self.most = most

    def _deserialize(self, value: Any, *_: Any, **__: Any) -> tuple[str, ...]:
        if not isinstance(value, list):
            raise ValidationError("must be a list of strings")
        if len(value) > self.most:
            raise ValidationError(f"must have at most {self.most} members")
        return tuple(str(self.item.deserialize(one)) for one in value)
