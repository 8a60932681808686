"""Prune: refused calls, failures of the API, and words that put an interruption down as a refusal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set

from flower_core.sessions.transcript import Entry, Result, blocks_of, name_at, results_of, with_blocks, with_texts
from flower_core.texts import DEFAULT_LANG, texts_for

_THOUGHTS = ("thinking", "redacted_thinking")
#: Where an entry names another.
_LINKS = ("parentUuid", "logicalParentUuid", "leafUuid")


def prune(entries: list[Entry], *, keep_denials: int = 1, lang: str = DEFAULT_LANG) -> list[Entry]:
    """Leave out what would only mislead, and mend the chain of parents.

    Refused calls but the last ``keep_denials`` (0 or more) go, with their results and what hooks added to them; so do
    synthetic messages about failures of the API. The result of a call that was stopped by an interruption is
    replaced by a line that says so: the agent program's own says that the user has rejected it.

    What a compaction has put on its list of preserved messages stays, as the agent program looks for all of it.
    """
    told = _told_neutrally(entries, texts_for(lang)("sessions.interrupted"))
    preserved = frozenset(_preserved(told))
    denied = _denied(told, preserved)
    calls = frozenset(denied[: max(len(denied) - keep_denials, 0)])
    sound = [entry for entry in told if not _is_api_error(entry) or name_at(entry, "uuid") in preserved]
    return _relinked(_without(sound, calls), told)


def _told_neutrally(entries: list[Entry], line: str) -> list[Entry]:
    return with_texts(entries, [(result, line) for result in results_of(entries) if _was_interrupted(result.entry)])


def _was_interrupted(entry: Entry) -> bool:
    # An interruption leaves the kind of a person's refusal, without a decision; "cancelled" is what calls get that
    # come while the program is being closed. ("interrupted" is what it writes itself, neutrally, when it died.)
    kind = entry.get("toolDenialKind")
    return kind == "cancelled" or (kind == "user-rejected" and not _was_decided(entry))


def _was_denied(entry: Entry) -> bool:
    kind = entry.get("toolDenialKind")
    return kind == "permission-rule" or (kind == "user-rejected" and _was_decided(entry))


def _was_decided(entry: Entry) -> bool:
    decision = entry.get("permissionDecision")
    return isinstance(decision, Mapping) and decision.get("decision") == "reject"


def _is_api_error(entry: Entry) -> bool:
    message = entry.get("message")
    synthetic = isinstance(message, Mapping) and message.get("model") == "<synthetic>"
    return synthetic and entry.get("isApiErrorMessage") is True


def _preserved(entries: Sequence[Entry]) -> Iterator[str]:
    for entry in entries:
        about = entry.get("compactMetadata")
        if not isinstance(about, Mapping):
            continue
        for key in ("preservedSegment", "preservedMessages"):
            named = about.get(key)
            for value in named.values() if isinstance(named, Mapping) else ():
                yield from (uuid for uuid in (value if isinstance(value, list) else [value]) if isinstance(uuid, str))


def _denied(entries: Sequence[Entry], preserved: Set[str]) -> list[str]:
    """The ids of refused calls that may go, in the order in which they were made."""
    refused: dict[str, Result] = {
        name_at(result.call, "id"): result
        for result in results_of(entries)
        if result.call is not None and _was_denied(result.entry)
    }
    return [
        call
        for entry in entries
        for call in _calls_in(entry)
        if call in refused and not {name_at(entry, "uuid"), name_at(refused[call].entry, "uuid")} & preserved
    ]


def _without(entries: Sequence[Entry], calls: Set[str]) -> list[Entry]:
    """``entries`` without all that belongs to these calls."""
    kept: list[Entry] = []
    for entry in entries:
        blocks = blocks_of(entry)
        rest = [block for block in blocks if not {name_at(block, "id"), name_at(block, "tool_use_id")} & calls]
        if _hook_of(entry) not in calls and (rest or not blocks):
            kept.append(with_blocks(entry, rest))
    return _without_last_thoughts(kept, {_reply(entry) for entry in entries if not calls.isdisjoint(_calls_in(entry))})


def _without_last_thoughts(entries: Sequence[Entry], replies: Set[str]) -> list[Entry]:
    """``entries`` without the thoughts that have become the last of these replies: the API refuses such a reply."""
    ended = {""}
    kept = []
    for entry in reversed(entries):
        blocks, reply = blocks_of(entry), _reply(entry)
        if blocks and reply in replies and reply not in ended:
            while blocks and blocks[-1].get("type") in _THOUGHTS:
                blocks.pop()
            if not blocks:
                continue
            ended.add(reply)
        kept.append(with_blocks(entry, blocks))
    return kept[::-1]


def _calls_in(entry: Entry) -> list[str]:
    return [name_at(block, "id") for block in blocks_of(entry) if block.get("type") == "tool_use"]


def _hook_of(entry: Entry) -> str:
    """The id of the call a hook's attachment is about, "" for any other entry."""
    attachment = entry.get("attachment")
    return name_at(attachment, "toolUseID") if isinstance(attachment, Mapping) else ""


def _reply(entry: Entry) -> str:
    message = entry.get("message")
    return name_at(message, "id") if isinstance(message, Mapping) else ""


def _relinked(kept: list[Entry], before: Sequence[Entry]) -> list[Entry]:
    """``kept`` with every link to an entry that has gone turned to what stands nearest to it, back in the chain.

    Results come in any order, each the child of its own call, and the chain goes on from the last. What of a reply
    lies beside the chain the agent program finds by what lies on it: so where a result has gone, the chain goes on from
    what is left of its reply, which may lie beside.
    """
    there = {name_at(entry, "uuid") for entry in kept}
    parents = {name_at(entry, "uuid"): name_at(entry, "parentUuid") for entry in before}
    owners = {call: _reply(entry) for entry in before for call in _calls_in(entry)}
    replies = {name_at(entry, "uuid"): _reply_about(entry, owners) for entry in before}
    newest: dict[str, str] = {}  # of each reply what was kept last, up to the entry that is being mended

    def heir(gone: str, of: str) -> str:
        while gone and gone not in there:
            reply = replies.get(gone, "")
            gone = newest[reply] if reply != of and reply in newest else parents.get(gone, "")
        return gone

    def mended(entry: Entry) -> Entry:
        reply = _reply_about(entry, owners)
        broken = {key: link for key in _LINKS if (link := name_at(entry, key)) in parents and link not in there}
        if _reply(entry):
            newest[_reply(entry)] = name_at(entry, "uuid")
        return {**entry, **{key: heir(link, reply) or None for key, link in broken.items()}} if broken else entry

    return [mended(entry) for entry in kept]


def _reply_about(entry: Entry, owners: Mapping[str, str]) -> str:
    """The reply this entry is of, or about: as the result of a call, or as what a hook added to it; "" for others."""
    about = [_hook_of(entry), *(name_at(block, "tool_use_id") for block in blocks_of(entry))]
    return _reply(entry) or next((owners[call] for call in about if call in owners), "")
