"""The spill guard: a long output goes into a file, and the conversation gets a line that says where, and the beginning.

A saving, not a keeper of secrets. Two outputs are out of its reach: that of a call that failed, which the agent
program lets nobody replace, and what it has shown before a hook answers. Those are caught when the session is fed
back (:mod:`flower_core.sessions.trim`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flower_core.hook_input import Guard, given, is_main_thread
from flower_core.output_files import OutputFiles
from flower_core.texts import DEFAULT_LANG, Texts, texts_for

#: The tools whose outputs are looked at.
SPILLED_TOOLS = ("Bash", "Grep", "Glob", "WebFetch", "WebSearch", "Read")
#: So much of the beginning stays in the conversation, in characters.
HEAD_CHARS = 400
# What makes a Read one of a part of the file, which is what the pointer asks for.
_PART = ("limit", "offset", "pages")
# Where the agent program has put a Bash output above 30,000 characters, of which it hands on no more than that.
_RAW = "persistedOutputPath"


def spill(outputs: OutputFiles, threshold: int, lang: str = DEFAULT_LANG) -> Guard:
    """Replace every text of ``threshold`` characters and more in an output by a pointer and its beginning.

    The output keeps its shape; lists in it stay as they are. A Read is cut on the main thread only, and refers to
    the file that was read; a Read of a part of a file, or of one in ``outputs``, passes whole. Raises OSError when
    nothing can be written, and then the output passes whole, too.
    """
    texts = texts_for(lang)

    def guard(hook: Mapping[str, Any]) -> dict[str, Any]:
        shorter: Mapping[str, Any]
        tool, response = hook.get("tool_name"), hook.get("tool_response")
        if tool not in SPILLED_TOOLS or not isinstance(response, Mapping):
            return {}
        if tool != "Read":
            shorter = _shorter(response, outputs, threshold)
        elif is_main_thread(hook) and not any(given(hook).get(name) is not None for name in _PART):
            shorter = _shorter_read(response, outputs, threshold, texts)
        else:
            return {}
        return {} if shorter == response else _replaced(shorter)

    return guard


def _shorter(response: Mapping[str, Any], outputs: OutputFiles, threshold: int) -> dict[str, Any]:
    shorter = dict(response)
    if response.get("isImage"):  # its text is the picture
        return shorter
    for name, value in response.items():
        if not isinstance(value, str) or name == _RAW:
            continue
        raw = _raw_file(response) if name == "stdout" else None
        whole = value if raw is None else outputs.read(raw)
        if len(whole) < threshold:
            continue
        shorter[name] = f"{outputs.pointer(outputs.keep(whole), len(whole))}\n{whole[:HEAD_CHARS]}"
        if raw is not None:
            # Left in, the agent program would show its own pointer to a file that dies with the process.
            shorter.pop(_RAW)
            shorter.pop("persistedOutputSize", None)
            outputs.remove(raw)
    return shorter


def _raw_file(response: Mapping[str, Any]) -> Path | None:
    path = response.get(_RAW)
    return Path(path) if isinstance(path, str) and Path(path).is_file() else None


def _shorter_read(response: Mapping[str, Any], outputs: OutputFiles, threshold: int, texts: Texts) -> Mapping[str, Any]:
    file = response.get("file")
    if response.get("type") != "text" or not isinstance(file, Mapping):
        return response
    content, path = file.get("content"), file.get("filePath")
    if not isinstance(content, str) or not isinstance(path, str):
        return response
    if len(content) < threshold or outputs.owns(path):
        return response
    shown = f"{texts('spill.read', chars=len(content), path=path)}\n{content[:HEAD_CHARS]}"
    # Numbered from 0, the pointer is line 0 and the lines of the file keep the numbers they have there.
    return {**response, "file": {**file, "content": shown, "startLine": 0, "numLines": shown.count("\n") + 1}}


def _replaced(output: Mapping[str, Any]) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": "PostToolUse", "updatedToolOutput": output}}
