"""Words from elsewhere, made safe for a terminal.

What a tool printed or a model wrote may hold escape sequences that retitle the window, move the cursor over lines
already read, or reorder what is on screen. Everything the command prints passes through here first.
"""

from __future__ import annotations

import json
import re
from typing import Any

_ESCAPES = re.compile(
    # Control strings: OSC, DCS, SOS, PM, APC up to BEL or ST; an unterminated one only loses its introducer below. The
    # body holds no introducer, so that a row of unterminated ones is not scanned to the end from each of them.
    r"(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x80-\x9f]*(?:\x07|\x1b\\|\x9c)"
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # control sequences: colours, cursor movements
    r"|\x1b[ -/]*[0-~]"  # every other escape
)
_NEWLINES = re.compile(r"\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f\ufeff\U000e0000-\U000e007f]")
#: Characters that change the direction of what follows: "gpj.exe" can be made to read "exe.jpg".
_BIDI = re.compile(r"[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
#: More marks on one letter than any language has: they would be drawn over the lines above and below.
_MARK = r"[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]"
_STACKED = re.compile(f"({_MARK}{{8}}){_MARK}+")
_SURROGATES = re.compile(r"[\ud800-\udfff]")
_UNSAFE_IN_JSON = re.compile(
    r"[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff\U000e0000-\U000e007f]"
)


def clean(text: str) -> str:
    """``text`` without anything a terminal would act on, newlines and tabs excepted.

    Escape sequences and control characters (C0, DEL, C1) go, direction marks become visible as ``<U+202E>``, lone
    surrogates become U+FFFD, of the marks on a letter eight stay, every kind of line break becomes a newline.
    """
    if text.isascii() and text.isprintable():
        return text
    text = _NEWLINES.sub("\n", _ESCAPES.sub("", text))
    text = _STACKED.sub(r"\1", _CONTROLS.sub("", text))
    text = _BIDI.sub(lambda match: f"<U+{ord(match[0]):04X}>", text)
    return _SURROGATES.sub("\ufffd", text)


def one_line(text: str, limit: int = 200) -> str:
    """``text`` cleaned, on one line, at most ``limit`` characters; what was cut ends in an ellipsis."""
    line = " ".join(clean(text).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def json_line(value: Any) -> str:
    """``value`` as JSON on one line: readable where that is safe, escaped where a terminal would act on it."""
    text = json.dumps(value, ensure_ascii=False, separators=(", ", ": "))
    return _UNSAFE_IN_JSON.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    return json.dumps(match[0])[1:-1]
