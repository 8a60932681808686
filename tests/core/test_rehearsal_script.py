"""The format of plays: what is refused, and which reply is chosen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flower_core.rehearsal import NAMED_ERRORS, Play, PlayError, shipped_plays
from flower_core.rehearsal.conversation import Conversation

USER = {"role": "user", "content": "Build it"}


def ask_and_result(name: str, result: str, tool_id: str = "t1") -> list[dict[str, Any]]:
    return [
        {"role": "assistant", "content": [{"type": "tool_use", "id": tool_id, "name": name, "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": tool_id, "content": result}]},
    ]


def said(play: dict[str, Any], *messages: dict[str, Any], request: int = 0, system: str = "") -> str:
    """What ``play`` says first in answer to ``messages``, "" when it has nothing to say."""
    loaded = Play.from_dict(play)
    talk = Conversation({"system": system, "messages": list(messages)})
    values = loaded.values(talk)
    reply = loaded.reply(talk, request, values)
    return str(reply.filled(values)[0]["text"]) if reply else ""


def test_every_shipped_play_loads_by_name() -> None:
    assert "starter" in shipped_plays()
    for name in shipped_plays():
        assert Play.load(name).title


def test_a_play_loads_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('[play]\ntitle = "Mine"\ngap = 0.5\n[[default]]\ntext = "hi"\n', encoding="utf-8")
    play = Play.load(file)
    assert (play.title, play.speakers["default"][0].gap) == ("Mine", 0.5)


def test_an_unknown_play_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(FileNotFoundError, match="starter"):
        Play.load("no-such-play")


def test_a_file_that_is_not_toml_is_refused_by_its_name(tmp_path: Path) -> None:
    file = tmp_path / "broken.toml"
    file.write_text("[[default]\n", encoding="utf-8")
    with pytest.raises(PlayError, match=r"broken\.toml: is not TOML"):
        Play.load(file)


@pytest.mark.parametrize(
    ("data", "where"),
    [
        ({}, "play"),
        ({"play": {"title": "x"}}, "play"),
        ({"play": {"speed": 1}, "default": [{"text": "x"}]}, "play.speed"),
        ({"default": []}, "default"),
        ({"default": {"text": "x"}}, "default"),
        ({"default": ["x"]}, "default[0]"),
        ({"default": [{"text": "x"}, {"txt": "x"}]}, "default[1].txt"),
        ({"default": [{"text": 1}]}, "default[0].text"),
        ({"default": [{}]}, "default[0]"),
        ({"default": [{"text": "x", "content": []}]}, "default[0].text"),
        ({"default": [{"content": "x"}]}, "default[0].content"),
        ({"default": [{"content": [{"text": "x"}]}]}, "default[0].content[0].type"),
        ({"default": [{"tools": "Read"}]}, "default[0].tools"),
        ({"default": [{"tools": [["Read"]]}]}, "default[0].tools[0]"),
        ({"default": [{"tools": [["Read", "x"]]}]}, "default[0].tools[0].input"),
        ({"default": [{"tools": [{"name": "Read", "inputs": {}}]}]}, "default[0].tools[0].inputs"),
        ({"default": [{"tools": [{"input": {}}]}]}, "default[0].tools[0].name"),
        ({"default": [{"error": "teapot"}]}, "default[0].error"),
        ({"default": [{"error": [200, "x", "y"]}]}, "default[0].error[0]"),
        ({"default": [{"error": [600, "x", "y"]}]}, "default[0].error[0]"),
        ({"default": [{"sse_error": ["x"]}]}, "default[0].sse_error"),
        ({"default": [{"text": "x", "delay": -1}]}, "default[0].delay"),
        ({"default": [{"text": "x", "gap": True}]}, "default[0].gap"),
        ({"default": [{"text": "x", "cut": "3"}]}, "default[0].cut"),
        ({"default": [{"text": "x", "usage": {"input_tokens": 1.5}}]}, "default[0].usage.input_tokens"),
        ({"default": [{"text": "x", "headers": {"retry-after": 1}}]}, "default[0].headers.retry-after"),
        ({"default": [{"text": "x", "when": {"prompt": "("}}]}, "default[0].when.prompt"),
        ({"default": [{"text": "x", "when": {"turn": [0, "1"]}}]}, "default[0].when.turn[1]"),
        ({"default": [{"text": "x", "when": {"request": -1}}]}, "default[0].when.request"),
        ({"default": [{"text": "x", "when": {"called": {"Read": 0}}}]}, "default[0].when.called.Read"),
        ({"default": [{"text": "x", "when": {"called": ["Read", 1]}}]}, "default[0].when.called[1]"),
        ({"default": [{"text": "x", "when": {"after": 1}}]}, "default[0].when.after"),
        ({"default": [{"text": "x", "when": {"result": {"Read": 1}}}]}, "default[0].when.result.Read"),
        ({"default": [{"text": "x", "when": {"not": {"promt": "x"}}}]}, "default[0].when.not.promt"),
        ({"default": [{"text": "x", "when": {"values": {"answr": "x"}}}]}, "default[0].when.values.answr"),
        ({"facts": {"a": {}}, "default": [{"text": "x"}]}, "facts.a"),
        ({"facts": {"a": {"pattern": "["}}, "default": [{"text": "x"}]}, "facts.a.pattern"),
        ({"facts": {"a": {"pattern": "x", "in": 3}}, "default": [{"text": "x"}]}, "facts.a.in"),
        ({"facts": {"A b": {"pattern": "x"}}, "default": [{"text": "x"}]}, "facts.A b"),
        ({"facts": {"task": {"pattern": "x"}}, "default": [{"text": "x"}]}, "facts.task"),
        ({"parameters": 3, "default": [{"text": "x"}]}, "parameters"),
        ({"parameters": {"n": 0}, "default": [{"text": "x"}]}, "parameters.n"),
        ({"parameters": {"N": 1}, "default": [{"text": "x"}]}, "parameters.N"),
        ({"parameters": {"pace": 1}, "default": [{"text": "x"}]}, "parameters.pace"),
        ({"parameters": {"a": 1}, "facts": {"a": {"pattern": "x"}}, "default": [{"text": "x"}]}, "facts.a"),
    ],
)
def test_what_is_wrong_is_named_by_its_key(data: dict[str, Any], where: str) -> None:
    with pytest.raises(PlayError) as caught:
        Play.from_dict(data)
    assert caught.value.where == where


def test_plain_replies_go_by_turn_and_the_last_one_repeats() -> None:
    play = {"default": [{"text": "one"}, {"text": "two"}]}
    answered = {"role": "assistant", "content": "x"}
    assert said(play, USER) == "one"
    assert said(play, USER, answered, USER) == "two"
    assert said(play, USER, answered, USER, answered, USER) == "two"


def test_a_reply_whose_condition_holds_comes_before_the_plain_ones() -> None:
    play = {"default": [{"text": "plain"}, {"text": "urgent", "when": {"prompt": "(?i)build"}}]}
    assert said(play, USER) == "urgent"
    assert said(play, {"role": "user", "content": "Rest"}) == "plain"


def test_the_first_of_several_replies_that_hold_wins() -> None:
    play = {"default": [{"text": "a", "when": {"turn": 0}}, {"text": "b", "when": {"prompt": "Build"}}]}
    assert said(play, USER) == "a"


def test_a_play_may_have_nothing_to_say() -> None:
    assert said({"default": [{"text": "x", "when": {"turn": 7}}]}, USER) == ""
    assert said({"judge": [{"text": "x"}]}, USER) == ""


@pytest.mark.parametrize(
    ("when", "holds"),
    [
        ({}, True),
        ({"turn": 1}, True),
        ({"turn": [0, 2]}, False),
        ({"request": 3}, True),
        ({"request": [0, 1]}, False),
        ({"prompt": "^Build it$"}, True),
        ({"prompts": "nowhere"}, False),
        ({"called": "Read"}, True),
        ({"called": ["Read", "Bash"]}, False),
        ({"called": {"Read": 2}}, False),
        ({"after": "Read"}, True),
        ({"after": ["Bash", "Read"]}, True),
        ({"after": "Bash"}, False),
        ({"result": {"Read": "one.*two"}}, True),
        ({"result": {"Read": "three"}}, False),
        ({"result": {"Bash": ""}}, False),
        ({"values": {"workspace": r"^/ws$"}}, True),
        ({"values": {"answer": r"\S"}}, False),
        ({"not": {"called": "Bash"}}, True),
        ({"not": {"called": "Bash", "turn": 1}}, False),
        ({"called": "Read", "turn": 0}, False),
    ],
)
def test_conditions(when: dict[str, Any], holds: bool) -> None:
    play = {"default": [{"text": "yes", "when": when}, {"text": "no"}]}
    read = ask_and_result("Read", "one\ntwo")
    found = said(play, USER, *read, request=3, system="Primary working directory: /ws")
    assert found == ("yes" if holds else "no")


def test_placeholders_are_filled_once_and_other_braces_left_alone() -> None:
    play = {"default": [{"text": "{task} {task!r} {unknown} {0} {len(x)} {{task}}"}]}
    task = {"role": "user", "content": 'Say "{prompt}"'}
    assert said(play, task) == """Say "{prompt}" 'Say "{prompt}"' {unknown} {0} {len(x)} {Say "{prompt}"}"""


def test_placeholders_are_filled_inside_tool_inputs() -> None:
    tools = [
        ["Agent", {"prompt": "{task}", "list": ["{task!line}", 3]}],
        {"name": "Bash", "input": {"x": "{workspace}"}},
    ]
    play = Play.from_dict({"default": [{"tools": tools}]})
    talk = Conversation({"messages": [{"role": "user", "content": "a\n b"}]})
    reply = play.reply(talk, 0, {})
    assert reply is not None
    assert reply.filled(play.values(talk)) == [
        {"type": "tool_use", "name": "Agent", "input": {"prompt": "a\n b", "list": ["a b", 3]}},
        {"type": "tool_use", "name": "Bash", "input": {"x": "."}},
    ]


def test_a_fact_is_the_first_group_of_the_newest_match_or_its_default() -> None:
    play = {"facts": {"name": {"pattern": r"name is (\w+)", "default": "you"}}, "default": [{"text": "Hi {name}"}]}
    one, two = ({"role": "user", "content": f"My name is {name}"} for name in ("Ann", "Bo"))
    assert said(play, USER) == "Hi you"
    assert said(play, one, {"role": "assistant", "content": "x"}, two) == "Hi Bo"


def test_a_joined_fact_holds_every_different_match_from_every_source() -> None:
    fact = {"in": ["prompts", "Read"], "pattern": r"\[(\w+)\]|<(\w+)>", "join": "+"}
    play = {"facts": {"all": fact}, "default": [{"text": "{all}"}]}
    prompt = {"role": "user", "content": "[a] <b> [a]"}
    assert said(play, prompt, *ask_and_result("Read", "[c]")) == "a+b+c"


def test_the_last_call_is_one_since_the_prompt() -> None:
    play = {"default": [{"text": "yes", "when": {"after": "Read"}}, {"text": "no"}]}
    assert said(play, USER, *ask_and_result("Bash", ""), *ask_and_result("Read", "", "t2")) == "yes"
    assert said(play, USER, *ask_and_result("Read", ""), *ask_and_result("Bash", "", "t2")) == "no"
    assert said(play, USER, *ask_and_result("Read", ""), {"role": "assistant", "content": "x"}, USER) == "no"


@pytest.fixture
def counting(tmp_path: Path) -> Path:
    """A play with two parameters, in a file whose name has a comma."""
    file = tmp_path / "one,two.toml"
    play = '[parameters]\ncount = 3\nwho = "you"\n[[default]]\ntext = "{count} for {who}"\ndelay = 2\n'
    file.write_text(play, encoding="utf-8")
    return file


def text_of(play: Play) -> str:
    talk = Conversation({"messages": [USER]})
    values = play.values(talk)
    reply = play.reply(talk, 0, values)
    assert reply is not None
    return str(reply.filled(values)[0]["text"])


def test_a_play_has_the_parameters_it_says_or_is_given(counting: Path, tmp_path: Path) -> None:
    plain = Play.load(counting)
    assert (text_of(plain), plain.pace) == ("3 for you", 1.0)
    other = counting.rename(tmp_path / "one.toml")
    play = Play.load(f"{other},count=12,who=me = us,pace=0.5")
    assert (text_of(play), play.pace) == ("12 for me = us", 0.5)
    assert Play.load("starter,pace=0").pace == 0.0


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ("count=0", "parameters.count"),
        ("count=-1", "parameters.count"),
        ("count=1.5", "parameters.count"),
        ("count=", "parameters.count"),
        ("count=1,count=2", "parameters.count"),
        ("size=1", "parameters.size"),
        ("pace=fast", "parameters.pace"),
        ("pace=-1", "parameters.pace"),
        ("pace=nan", "parameters.pace"),
        ("pace=101", "parameters.pace"),
        ("count", ""),
        ("=1", ""),
        ("", ""),
    ],
)
def test_a_parameter_that_cannot_be_is_refused_by_its_name(counting: Path, given: str, where: str) -> None:
    other = counting.rename(counting.with_name("one.toml"))
    with pytest.raises(PlayError) as caught:
        Play.load(f"{other},{given}")
    assert caught.value.where == (where or str(other))


def test_every_named_error_is_what_the_api_calls_it() -> None:
    for name, (status, error_type, message) in NAMED_ERRORS.items():
        play = Play.from_dict({"default": [{"error": name}]})
        assert play.speakers["default"][0].error == (status, error_type, message)
        assert 400 <= status <= 599
    assert NAMED_ERRORS["overloaded"][:2] == (529, "overloaded_error")
    assert NAMED_ERRORS["prompt-too-long"][2].startswith("prompt is too long")
