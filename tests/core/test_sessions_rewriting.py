"""What expire, trim and prune each do to a session, and what they leave."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from flower_core.output_files import OutputFiles
from flower_core.sessions import expire, prune, rewriters, trim
from tests.core.transcripts import DENIED, STOPPED, Author, Call, Ending, Entry, persisted


@pytest.fixture
def outputs(tmp_path: Path) -> OutputFiles:
    return OutputFiles(tmp_path.resolve() / "space" / "spill", "en")


def session(*calls: Call, **more: Any) -> list[Entry]:
    """A session in which each call is a reply of its own."""
    author = Author()
    author.prompt()
    for call in calls:
        author.reply(call, **more)
    author.reply()
    return author.entries


def told(entries: Sequence[Entry]) -> list[Any]:
    """The content of every result, oldest first."""
    messages = [entry["message"]["content"] for entry in entries if entry["type"] == "user"]
    return [content[0]["content"] for content in messages if isinstance(content, list)]


def file_of(pointer: object) -> Path:
    """The file a pointer names, which is all there is to it."""
    found = re.fullmatch(r"\[\d+ characters of output; all of it is in (\S+)\. [^\n]*\]", str(pointer))
    assert found, pointer
    return Path(found[1])


# expire


def test_looks_older_than_the_last_six_of_them_expire() -> None:
    looks = [Call("ls", text=f"look {number}") for number in range(8)]
    after = told(expire(session(*looks, *[Call("make")] * 9), lang="en"))
    assert [text.startswith("[The result of this look has gone stale") for text in after[:3]] == [True, True, False]
    assert after[2:] == [*(look.text for look in looks[2:]), *["fine"] * 9]


@pytest.mark.parametrize(
    "call",
    [
        Call("make", text="of a command that does something"),
        Call("ls", text="x" * 2001),
        Call("ls > list.txt"),
        Call("ls", "rule", text="refused, and why"),
        Call("ls", "interrupted"),
        Call("ls", "died", text="[Tool call interrupted]"),
    ],
)
def test_nothing_else_expires(call: Call) -> None:
    entries = session(call, *[Call("ls")] * 7)
    assert told(expire(entries))[0] == told(entries)[0]


def test_a_look_of_just_the_greatest_length_expires_and_so_does_one_that_failed() -> None:
    after = told(expire(session(Call("ls", text="x" * 2000), Call("ls", "failed"), *[Call("ls")] * 6), lang="en"))
    assert ["gone stale" in text for text in after] == [True] * 2 + [False] * 6


# trim


@pytest.mark.parametrize("size", [1999, 2000])
def test_an_old_failure_goes_into_a_file_from_two_thousand_characters_on(outputs: OutputFiles, size: int) -> None:
    failure = Call(ending="failed", text="é" * size)
    first, *rest = told(trim(session(failure, *[failure] * 20), outputs=outputs))
    assert rest == [failure.text] * 20
    if size < 2000:
        assert first == failure.text
    else:
        assert file_of(first).read_text() == failure.text
        assert file_of(first).parent == outputs.folder


def test_a_result_that_went_well_goes_only_if_everything_does(outputs: OutputFiles) -> None:
    entries = session(Call(text="x" * 3000, blocks=True), *[Call()] * 20)
    assert trim(entries, outputs=outputs) == entries
    after = told(trim(entries, outputs=outputs, everything=True))
    assert file_of(after[0]).read_text() == "x" * 3000
    assert after[1:] == ["fine"] * 20


def test_refusals_and_interruptions_are_not_for_trim(outputs: OutputFiles) -> None:
    entries = session(*[Call(ending=ending, text="x" * 3000) for ending in (*DENIED, *STOPPED, "died")], *[Call()] * 20)
    assert trim(entries, outputs=outputs, everything=True) == entries


def test_what_is_no_text_in_a_result_stays(outputs: OutputFiles) -> None:
    entries = session(Call(text="x" * 3000, blocks=True), *[Call()] * 20)
    picture = {"type": "image", "source": {"type": "base64", "data": ""}}
    (result,) = [e for e in entries if "toolUseResult" in e and e["toolUseResult"]["stdout"].startswith("xxx")]
    result["message"]["content"][0]["content"].append(picture)
    pointer, kept = told(trim(entries, outputs=outputs, everything=True))[0]
    assert kept == picture
    assert file_of(pointer["text"]).read_text() == "x" * 3000


def raw(root: Path, where: str = "config/projects/p/s/tool-results/b1.txt") -> Call:
    """A call whose output lies raw below ``root``, as far as its result says."""
    file = root / where
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("all of it")
    return Call(ending="raw", text=persisted(str(file), "y" * 2000))


def test_of_a_raw_output_all_is_kept_and_what_is_recent_names_the_new_place(
    outputs: OutputFiles, tmp_path: Path
) -> None:
    output = raw(tmp_path)
    old, *_, recent = told(trim(session(output, *[Call()] * 19, output), outputs=outputs, raw_root=tmp_path / "config"))
    assert file_of(old).read_text() == "all of it"
    assert recent == output.text.replace(str(tmp_path / "config/projects/p/s/tool-results/b1.txt"), str(file_of(old)))


def test_of_a_raw_output_that_is_lost_the_beginning_is_kept(outputs: OutputFiles, tmp_path: Path) -> None:
    output = raw(tmp_path)
    (tmp_path / "config/projects/p/s/tool-results/b1.txt").unlink()
    old, *_, recent = told(trim(session(output, *[Call()] * 19, output), outputs=outputs, raw_root=tmp_path / "config"))
    assert file_of(old).read_text() == output.text
    assert recent == output.text


@pytest.mark.parametrize(
    "where", ["other/tool-results/b1.txt", "config/projects/secret.txt", "config/tool-results/../x"]
)
def test_a_command_cannot_have_another_file_copied_by_printing_its_name(
    outputs: OutputFiles, tmp_path: Path, where: str
) -> None:
    (tmp_path / "config" / "tool-results").mkdir(parents=True)
    output = raw(tmp_path, where)
    old, *_ = told(trim(session(output, *[Call()] * 20), outputs=outputs, raw_root=tmp_path / "config"))
    assert file_of(old).read_text() == output.text


def test_what_cannot_be_written_stays(outputs: OutputFiles) -> None:
    outputs.folder.parent.mkdir()
    outputs.folder.write_text("a file where the directory should be")
    entries = session(Call(ending="failed", text="x" * 3000), *[Call()] * 20)
    assert trim(entries, outputs=outputs) == entries


# prune


@pytest.mark.parametrize("keep", [0, 1, 2, 6])
@pytest.mark.parametrize("ending", DENIED)
def test_refused_calls_go_but_the_last(ending: Ending, keep: int) -> None:
    refused = [Call(f"rm {number}", ending, text=f"no {number}", hooked=True) for number in range(4)]
    after = prune(session(*refused, Call()), keep_denials=keep)
    assert told(after) == [*(call.text for call in refused[max(4 - keep, 0) :]), "fine"]
    assert sum("toolUseID" in entry.get("attachment", {}) for entry in after) == min(keep, 4)
    assert sum("rm " in str(entry) for entry in after if entry["type"] == "assistant") == min(keep, 4)


def test_of_parallel_calls_only_the_refused_go_and_what_was_said_stays() -> None:
    author = Author()
    author.prompt()
    calls = [Call("rm 1", "rule"), Call("make", text="made"), Call("rm 2", "rule")]
    author.reply(*calls, thought=True, text="I try.", order=(2, 1, 0))
    author.reply(Call("rm 3", "rule"), thought=True)
    after = prune(author.entries, keep_denials=0)
    assert told(after) == ["made"]
    said = [entry["message"]["content"][0]["type"] for entry in after if entry["type"] == "assistant"]
    assert said == ["thinking", "text", "tool_use"]


def test_the_chain_goes_on_from_what_is_left_of_a_reply_whose_refusal_came_last() -> None:
    author = Author()
    author.prompt()
    author.reply(Call("rm 1", "rule", hooked=True), Call("make"), order=(1, 0))
    author.reply(text="End")
    after = prune(author.entries, keep_denials=0)
    (call,) = (entry["uuid"] for entry in after if entry["type"] == "assistant" and "make" in str(entry))
    assert [entry["parentUuid"] for entry in after if "End" in str(entry)] == [call]


@pytest.mark.parametrize("ending", STOPPED)
def test_an_interruption_becomes_a_neutral_line(ending: Ending) -> None:
    neutral = {"en": "Nobody refused it", "zh": "没有人拒绝", "es": "Nadie la rechazó", "fr": "Personne ne l'a refusé"}
    for lang, word in neutral.items():
        entries = session(Call(ending=ending), Call(ending="died", text="outcome unknown"))
        stopped, died = told(prune(entries, lang=lang))
        assert word in stopped
        assert died == "outcome unknown"


def test_messages_about_failures_of_the_api_go_and_the_chain_closes() -> None:
    author = Author()
    author.prompt("one")
    author.api_error()
    author.prompt("two")
    after = prune(author.entries)
    uuids = [entry["uuid"] for entry in author.entries if "uuid" in entry and not entry.get("isApiErrorMessage")]
    assert [entry["uuid"] for entry in after if "uuid" in entry] == uuids
    assert [entry["parentUuid"] for entry in after if "uuid" in entry] == [None, *uuids[:-1]]


def test_links_of_other_kinds_lead_to_what_is_left() -> None:
    author = Author()
    author.prompt()
    left = author.entries[-1]["uuid"]
    author.reply(Call("rm 1", "rule"))
    author.compaction(0)
    after = prune(author.entries, keep_denials=0)
    assert [entry["leafUuid"] for entry in after if entry["type"] == "last-prompt"] == [left]
    assert [entry["logicalParentUuid"] for entry in after if "logicalParentUuid" in entry] == [left]
    assert [entry["parentUuid"] for entry in after if "logicalParentUuid" in entry] == [None]


def test_what_a_compaction_has_preserved_stays() -> None:
    author = Author()
    author.prompt()
    author.reply(Call("rm 1", "rule", text="no"))
    author.api_error()
    author.compaction(3)
    author.reply(Call("rm 2", "rule", text="neither"))
    after = prune(author.entries, keep_denials=0)
    assert told(after) == ["no"]
    assert sum("isApiErrorMessage" in entry for entry in after) == 1


# all of them


def test_they_come_in_the_order_expire_trim_prune_and_each_can_be_told(outputs: OutputFiles) -> None:
    def names(**how: Any) -> list[str]:
        return [getattr(rewrite, "func").__name__ for rewrite in rewriters(outputs=outputs, **how)]  # noqa: B009

    assert names() == ["expire", "trim", "prune"]
    assert names(ephemeral=False) == ["trim", "prune"]
    with pytest.raises(ValueError, match="keep_denials"):
        rewriters(outputs=outputs, keep_denials=-1)
