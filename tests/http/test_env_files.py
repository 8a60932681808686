"""Where a variable is looked for, in which order, and what is said of the files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flower_http.env_files import gather, masked, user_file
from flower_http.errors import SettingsError
from flower_http.settings import Settings

KEY = "sk-ant-0123456789abcdefghij"


class Places:
    """The three files, none of which is there yet."""

    def __init__(self, home: Path) -> None:
        self.named = home / "named.env"
        self.here = home / "here" / ".env"
        self.users = home / "config" / "flower" / ".env"

    def write(self, file: Path, text: str, mode: int = 0o600) -> str:
        """Make ``file``; its path."""
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        file.chmod(mode)
        return str(file)


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    made = Places(tmp_path)
    made.here.parent.mkdir()
    monkeypatch.chdir(made.here.parent)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return made


@pytest.mark.skipif(os.name != "posix", reason="the directory is another one elsewhere")
def test_the_users_file_lies_in_the_configuration_directory(places: Places) -> None:
    assert user_file() == places.users


def test_every_variable_is_taken_from_the_first_source_that_holds_it(places: Places) -> None:
    names = [f"V{number}" for number in range(5)]
    process = {"FLOWER_ENV": str(places.named), "V0": "process"}
    for count, file in enumerate((places.named, places.here, places.users), 2):
        places.write(file, "".join(f"{name}={file.parent.name}\n" for name in names[:count]))
    found = gather(process, ())
    assert [found.values.get(name) for name in names] == ["process", places.named.parent.name, "here", "flower", None]
    assert [found.origin.get(name) for name in names[:4]] == [
        "the environment",
        *map(str, (places.named, places.here, places.users)),
    ]


@pytest.mark.parametrize("empty", ["", '""', "''", '"  "'])
def test_an_empty_value_is_none_and_the_next_source_is_asked(places: Places, empty: str) -> None:
    places.write(places.named, f"ANTHROPIC_API_KEY={empty}\n")
    places.write(places.here, "ANTHROPIC_API_KEY\n")
    places.write(places.users, f"ANTHROPIC_API_KEY={KEY}\n")
    settings = Settings.load({}, {"FLOWER_ENV": str(places.named), "ANTHROPIC_API_KEY": ""})
    assert settings.model_env == {"ANTHROPIC_API_KEY": KEY}
    assert settings.model_origin == {"ANTHROPIC_API_KEY": str(places.users)}


def test_a_flag_beats_a_variable_and_a_variable_beats_the_files(places: Places) -> None:
    places.write(places.named, "FLOWER_PORT=1\nFLOWER_THREADS=2\nFLOWER_RING=3\n")
    places.write(places.here, "FLOWER_RING=4\nFLOWER_QUEUE=5\n")
    places.write(places.users, "FLOWER_QUEUE=6\nFLOWER_LANG=zh\n")
    environ = {"FLOWER_ENV": str(places.named), "FLOWER_PORT": "10", "FLOWER_THREADS": "20"}
    settings = Settings.load({"port": "100", "threads": None}, environ)
    assert (settings.port, settings.threads, settings.ring) == (100, 20, 3)
    assert (settings.queue, settings.lang) == (5, "zh")


def test_the_files_are_read_as_python_dotenv_does(places: Places) -> None:
    lines = ["# a comment", "export A=plain # another", r"B='single \' quoted'", r'C="two\nlines"', "D=${A}-${NO:-no}"]
    places.write(places.here, "\n".join(lines))
    held = gather({}, ()).values
    assert held == {"A": "plain", "B": "single ' quoted", "C": "two\nlines", "D": "plain-no"}


def test_a_named_file_must_be_there_and_the_others_need_not(places: Places, tmp_path: Path) -> None:
    assert gather({}, ()).values == {}
    with pytest.raises(SettingsError) as refused:
        gather({"FLOWER_ENV": str(tmp_path / "gone.env")}, ())
    said = "cannot be read: No such file or directory; correct it, or what FLOWER_ENV names"
    assert str(refused.value) == f"{tmp_path / 'gone.env'} {said}"


def test_a_file_that_is_no_text_is_named_and_not_shown(places: Places) -> None:
    places.here.write_bytes(b"ANTHROPIC_API_KEY=\xff\xfesecret")
    with pytest.raises(SettingsError, match=r"here/\.env cannot be read: it is not UTF-8") as refused:
        Settings.load({}, {})
    assert "secret" not in str(refused.value)


def test_a_virtual_environment_called_dot_env_is_no_file(places: Places) -> None:
    places.here.mkdir()
    assert gather({}, ()).values == {}


@pytest.mark.skipif(os.name != "posix", reason="there are no modes")
@pytest.mark.parametrize(
    ("text", "mode", "told"),
    [
        (f"ANTHROPIC_API_KEY={KEY}\n", 0o644, True),
        (f"FLOWER_TOKEN={KEY}\n", 0o640, True),
        (f"ANTHROPIC_API_KEY={KEY}\n", 0o600, False),
        ("FLOWER_PORT=1\nANTHROPIC_API_KEY=\n", 0o644, False),
    ],
)
def test_secrets_that_others_can_read_are_warned_about(places: Places, text: str, mode: int, told: bool) -> None:
    places.write(places.here, text, mode)
    warnings = Settings.load({}, {}).warnings
    expected = f"{places.here} has mode {mode:04o}, so others can read the secrets in it: chmod 600 {places.here}"
    assert list(warnings) == ([expected] if told else [])
    assert KEY not in str(warnings)


def test_a_file_that_is_named_and_lies_here_is_read_and_warned_about_once(places: Places) -> None:
    places.write(places.here, f"FLOWER_TOKEN={KEY}\n", 0o644)
    found = gather({"FLOWER_ENV": ".env"}, ("FLOWER_TOKEN",))
    assert found.origin["FLOWER_TOKEN"] == str(places.here)
    assert len(found.warnings) == 1


@pytest.mark.parametrize(
    ("secret", "shown"), [(KEY, "…ghij"), ("x" * 15 + "abcde", "…bcde"), ("x" * 19, "…"), ("", "…")]
)
def test_a_secret_is_shown_by_its_end_and_a_short_one_not_at_all(secret: str, shown: str) -> None:
    assert masked(secret) == shown


def test_credentials_are_told_with_their_source_and_missing_ones_with_where_to_put_them(places: Places) -> None:
    with pytest.raises(SettingsError) as missing:
        Settings.load({}, {}).require_credentials()
    assert str(missing.value) == (
        "no credentials: set ANTHROPIC_API_KEY, ANTHROPIC_AUTH_TOKEN or CLAUDE_CODE_OAUTH_TOKEN in the environment, "
        f"./.env or {places.users}, or try it out with --rehearse"
    )
    places.write(places.users, f"ANTHROPIC_API_KEY={KEY}\n")
    found = Settings.load({}, {"ANTHROPIC_AUTH_TOKEN": "short"}).require_credentials()
    assert found == f"ANTHROPIC_API_KEY …ghij from {places.users}, ANTHROPIC_AUTH_TOKEN … from the environment"
    assert Settings.load({"rehearse": "yes"}, {}).require_credentials() == ""
