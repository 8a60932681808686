"""Whatever a session was and wherever it was cut off: what is fed back is whole, in order, and else unchanged."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flower_core.output_files import OutputFiles
from flower_core.sessions import Rewriter, expire, prune, trim
from tests.core.transcripts import ENDINGS, Author, Call, Entry, persisted

SIZES = (0, 60, 1999, 2000, 2001, 2500)
LINKS = ("parentUuid", "logicalParentUuid", "leafUuid", "sourceToolAssistantUUID")
SURELY = settings(max_examples=300, deadline=None, derandomize=True, database=None)


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> OutputFiles:
    return OutputFiles(tmp_path_factory.mktemp("outputs").resolve() / "spill", "en")


@st.composite
def calls(draw: st.DrawFn) -> Call:
    ending, size = draw(st.sampled_from(ENDINGS)), draw(st.sampled_from(SIZES))
    text = "x" * size
    return Call(
        command=draw(st.sampled_from(("ls", "git status", "pwd && ls", "make", "rm x", "ls > x"))),
        ending=ending,
        text=persisted("/nowhere/tool-results/a.txt", text) if ending == "raw" else text,
        blocks=draw(st.booleans()),
        hooked=draw(st.booleans()),
    )


@st.composite
def transcripts(draw: st.DrawFn) -> list[Entry]:
    """What the agent program may have written until it was cut off at any point."""
    author = Author(agent=draw(st.sampled_from(("", "a1"))))
    author.prompt()
    for _ in range(draw(st.integers(1, 12))):
        match draw(st.sampled_from(("reply",) * 8 + ("prompt", "error", "compaction"))):
            case "reply":
                made = draw(st.lists(calls(), max_size=4))
                order = draw(st.permutations(range(len(made))))
                said = draw(st.sampled_from(("", "", "I try.")))
                author.reply(*made, thought=draw(st.booleans()), text=said, order=order)
            case "prompt":
                author.prompt("And now")
            case "error":
                author.api_error()
            case "compaction":
                author.compaction(draw(st.integers(0, 5)))
    return author.entries[: draw(st.integers(0, len(author.entries)))]


@st.composite
def manners(draw: st.DrawFn) -> dict[str, dict[str, Any]]:
    """How to rewrite; few results are spared, so that short transcripts have old ones."""
    return {
        "expire": {"keep_last": draw(st.integers(0, 2))},
        "trim": {"keep_last": draw(st.integers(0, 4)), "everything": draw(st.booleans())},
        "prune": {"keep_denials": draw(st.integers(0, 3))},
    }


def chain(outputs: OutputFiles, how: dict[str, dict[str, Any]]) -> list[Rewriter]:
    return [
        partial(expire, lang="en", **how["expire"]),
        partial(trim, outputs=outputs, **how["trim"]),
        partial(prune, lang="en", **how["prune"]),
    ]


def through(rewriters: Sequence[Rewriter], entries: list[Entry]) -> list[Entry]:
    for rewrite in rewriters:
        entries = rewrite(entries)
    return entries


def blocks(entries: Sequence[Entry], kind: str) -> list[dict[str, Any]]:
    found = []
    for entry in entries:
        content = entry.get("message", {}).get("content")
        found += [block for block in content if block["type"] == kind] if isinstance(content, list) else []
    return found


def ids(entries: Sequence[Entry], kind: str, key: str) -> set[str]:
    return {block[key] for block in blocks(entries, kind)}


def assert_paired(before: list[Entry], after: list[Entry]) -> None:
    """Every result, and what a hook has added, has its call before it, and no call has lost its result."""
    known: set[str] = set()
    for entry in after:
        assert ids([entry], "tool_result", "tool_use_id") <= known
        assert entry.get("attachment", {}).get("toolUseID", "") in known | {""}
        known |= ids([entry], "tool_use", "id")
    open_before = ids(before, "tool_use", "id") - ids(before, "tool_result", "tool_use_id")
    assert known - ids(after, "tool_result", "tool_use_id") <= open_before


def assert_linked(before: list[Entry], after: list[Entry]) -> None:
    """Every link leads to an earlier entry that is there, and no chain breaks off that went on."""
    roots = {entry["uuid"] for entry in before if "uuid" in entry and entry["parentUuid"] is None}
    seen: set[str | None] = set()
    for entry in after:
        for link in LINKS:
            assert entry.get(link) is None or entry[link] in seen, link
        assert "uuid" not in entry or entry["parentUuid"] is not None or entry["uuid"] in roots
        seen.add(entry.get("uuid"))


def assert_within_reach(before: list[Entry], after: list[Entry]) -> None:
    """No reply with calls has lost all it had on the chain that ends with the last entry; the rest is found by that."""

    def on_the_chain(entries: list[Entry]) -> set[str]:
        known = {entry["uuid"]: entry for entry in entries if "uuid" in entry}
        at, found = next((entry["uuid"] for entry in reversed(entries) if "uuid" in entry), None), set()
        while at is not None:
            found.add(known[at].get("message", {}).get("id", ""))
            at = known[at]["parentUuid"]
        return found

    calling = {entry["message"]["id"] for entry in after if ids([entry], "tool_use", "id")}
    assert calling & on_the_chain(before) <= on_the_chain(after)


def assert_otherwise_the_same(before: list[Entry], after: list[Entry]) -> None:
    """What stays stays in its order and as it was, but for what results say and for the links."""

    def bare(entry: Entry) -> Entry:
        rest = {key: value for key, value in copy.deepcopy(entry).items() if key not in LINKS[:3]}
        for block in blocks([rest], "tool_result"):
            block.pop("content")
        return rest

    rest = iter([bare(entry) for entry in before])
    assert all(any(bare(entry) == other for other in rest) for entry in after)


def assert_only_the_misleading_is_gone(before: list[Entry], after: list[Entry], keep_denials: int) -> None:
    """Refusals but the last ones, failures of the API, and what belongs to them; nothing a compaction has preserved."""
    kept = {entry.get("uuid") for entry in after}
    abouts = [entry["compactMetadata"]["preservedMessages"] for entry in before if "compactMetadata" in entry]
    preserved = {uuid for about in abouts for uuid in about["uuids"]}
    denials = [entry for entry in before if "permissionDecision" in entry]
    refused = {entry["sourceToolAssistantUUID"] for entry in denials}
    names = ids(denials, "tool_result", "tool_use_id")
    for entry in before:
        if entry.get("uuid") not in kept:
            belongs = entry.get("attachment", {}).get("toolUseID") in names or bool(blocks([entry], "thinking"))
            misleading = entry.get("isApiErrorMessage") or entry in denials or entry["uuid"] in refused
            assert belongs or (misleading and entry["uuid"] not in preserved)
    free = [entry for entry in denials if not {entry["uuid"], entry["sourceToolAssistantUUID"]} & preserved]
    assert sum(entry["uuid"] in kept for entry in free) == min(keep_denials, len(free))
    assert all(entry["uuid"] in preserved for entry in after if entry.get("isApiErrorMessage"))


def assert_no_reply_ends_in_a_thought(before: list[Entry], after: list[Entry]) -> None:
    """But those that did before, as the agent program was cut off."""

    def ends(entries: list[Entry]) -> dict[str, str]:
        replies = [entry["message"] for entry in entries if entry["type"] == "assistant"]
        return {reply["id"]: reply["content"][-1]["type"] for reply in replies}

    was = ends(before)
    assert all(kind != "thinking" or was[reply] == "thinking" for reply, kind in ends(after).items())


@SURELY
@given(before=transcripts(), how=manners())
def test_a_session_cut_off_anywhere_is_fed_back_whole(
    outputs: OutputFiles, before: list[Entry], how: dict[str, dict[str, Any]]
) -> None:
    rewriters, given_in = chain(outputs, how), copy.deepcopy(before)
    after = through(rewriters, before)
    assert before == given_in
    assert_paired(before, after)
    assert_linked(before, after)
    assert_within_reach(before, after)
    assert_otherwise_the_same(before, after)
    assert_only_the_misleading_is_gone(before, after, how["prune"]["keep_denials"])
    assert_no_reply_ends_in_a_thought(before, after)
    assert through(rewriters, after) == after
    for rewrite in rewriters:
        assert rewrite(rewrite(before)) == rewrite(before)


KEYS = (
    *("type", "uuid", "parentUuid", "leafUuid", "message", "content", "id", "tool_use_id", "name", "input", "text"),
    *("command", "attachment", "toolUseID", "toolDenialKind", "permissionDecision", "compactMetadata", "model"),
    *("preservedMessages", "isApiErrorMessage"),
)
WORDS = ("user", "assistant", "tool_use", "tool_result", "Bash", "ls", "cancelled", "permission-rule", "text")
junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(WORDS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
    max_leaves=20,
)


@settings(SURELY, max_examples=100)
@given(before=st.lists(st.dictionaries(st.sampled_from(KEYS), junk, max_size=6), max_size=4), how=manners())
def test_entries_of_a_shape_nobody_knows_are_no_reason_to_fail(
    outputs: OutputFiles, before: list[Entry], how: dict[str, dict[str, Any]]
) -> None:
    assert len(through(chain(outputs, how), before)) <= len(before)
