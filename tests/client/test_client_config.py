"""Where the command finds its server and its token."""

from __future__ import annotations

from pathlib import Path

import pytest
from flower_client import ConfigError
from flower_client.config import Settings, config_path, resolve


def stored(home: Path, text: str, mode: int = 0o600) -> dict[str, str]:
    path = home / "flower" / "client.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return {"XDG_CONFIG_HOME": str(home)}


def test_without_anything_it_is_this_machine_without_a_token(tmp_path: Path) -> None:
    settings = resolve(None, None, {"XDG_CONFIG_HOME": str(tmp_path)})
    assert settings == Settings("http://127.0.0.1:8420", "")


def test_the_file_is_where_the_platform_wants_it(tmp_path: Path) -> None:
    assert config_path({"XDG_CONFIG_HOME": "/x"}) == Path("/x/flower/client.toml")
    assert config_path({"HOME": "/h"}) == Path("/h/.config/flower/client.toml")
    assert config_path({"HOME": "/h", "XDG_CONFIG_HOME": "relative"}) == Path("/h/.config/flower/client.toml")


def test_flag_or_variable_beat_the_file(tmp_path: Path) -> None:
    env = stored(tmp_path, 'url = "http://a:1"\ntoken = "stored"\n')
    assert resolve(None, None, env) == Settings("http://a:1", "stored")
    assert resolve(None, "given", env) == Settings("http://a:1", "given")
    assert resolve("http://b:2", "given", env) == Settings("http://b:2", "given")


def test_a_stored_token_is_never_sent_to_another_address(tmp_path: Path) -> None:
    env = stored(tmp_path, 'url = "http://a:1"\ntoken = "stored"\n')
    assert resolve("http://b:2", None, env).token == ""
    assert resolve("http://a:1/", None, env).token == "stored"


def test_a_stored_token_without_an_address_goes_to_the_one_given(tmp_path: Path) -> None:
    assert resolve("http://b:2", None, stored(tmp_path, 'token = "stored"')).token == "stored"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644])
def test_a_file_that_others_can_get_at_is_refused(tmp_path: Path, mode: int) -> None:
    env = stored(tmp_path, 'token = "stored"', mode)
    with pytest.raises(ConfigError, match="mode 0") as refused:
        resolve(None, None, env)
    assert "chmod 600" in refused.value.hint
    assert "stored" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [('tokn = "secret1"', "tokn"), ("token = 5", "must be a string"), ('token = "secret1', "not valid TOML")],
)
def test_a_wrong_file_is_refused_by_name_and_the_token_stays_unseen(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as refused:
        resolve(None, None, stored(tmp_path, text))
    assert "secret1" not in f"{refused.value} {refused.value.hint}"


def test_the_token_is_in_no_repr() -> None:
    assert "secret" not in repr(Settings("http://a", "secret"))
