from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from flower_http.errors import SettingsError
from flower_http.settings import TABLE, Settings, default_max_runs, is_loopback

COMPUTED = {"model_env", "model_origin", "base_env", "warnings"}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working directory and a configuration directory without a .env of anybody's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def test_every_setting_has_a_row_and_every_row_a_field() -> None:
    assert {row.name for row in TABLE} == {field.name for field in fields(Settings)} - COMPUTED
    assert [row.name for row in TABLE if not row.flag] == ["token"], "a secret has no flag: flags are seen in ps"


def test_with_nothing_set_the_defaults_hold() -> None:
    settings = Settings.load({}, {})
    assert (settings.host, settings.port, settings.threads, settings.queue) == ("127.0.0.1", 8420, 4, 100)
    assert (settings.ring, settings.lang, settings.flow, settings.rehearse) == (2000, "en", {}, "")
    assert settings.max_runs == default_max_runs() >= 1
    assert settings.data_dir.is_absolute()
    assert settings.workspace_root == settings.data_dir / "workspaces"


BAD = [
    ("port", "65536"),
    ("port", "0x10"),
    ("port", "８０"),
    ("port", " 80"),
    ("port", "-1"),
    ("host", "http://localhost"),
    ("host", "a b"),
    ("threads", "0"),
    ("max_runs", "0"),
    ("queue", "many"),
    ("ring", "1.5"),
    ("lang", "xx"),
    ("flow", "mine"),
    ("flow", "starter=module:flow"),
    ("flow", "a=module"),
    ("flow", "a=m:x;a=m:y"),
    ("flow", "a b=m:x"),
    ("allow_bypass", "maybe"),
    ("no_resume", "2"),
    ("log_format", "xml"),
    ("agent_user", "a;b"),
]


@pytest.mark.parametrize(("name", "text"), BAD)
def test_an_impossible_value_is_refused_naming_flag_and_variable(name: str, text: str) -> None:
    row = next(row for row in TABLE if row.name == name)
    for flags, environ in (({name: text}, {}), ({}, {row.variable: text})):
        with pytest.raises(SettingsError) as refused:
            Settings.load(flags, environ)
        assert row.variable in str(refused.value)
        assert row.flag in str(refused.value)
        assert "\n" not in str(refused.value)


def test_a_bad_token_is_refused_without_showing_it() -> None:
    with pytest.raises(SettingsError) as refused:
        Settings.load({}, {"FLOWER_TOKEN": "my secret"})
    assert "FLOWER_TOKEN" in str(refused.value)
    assert "secret" not in str(refused.value)


def test_secrets_stay_out_of_the_printed_form() -> None:
    settings = Settings.load({}, {"FLOWER_TOKEN": "t0ps3cret", "ANTHROPIC_API_KEY": "sk-key"})
    assert "t0ps3cret" not in repr(settings)
    assert "sk-key" not in repr(settings)


@pytest.mark.parametrize(
    ("text", "play"),
    [("starter", "starter"), ("1", "starter"), ("yes", "starter"), ("plays/x.toml", "plays/x.toml"), ("0", "")],
)
def test_rehearse_takes_a_play_or_a_yes(text: str, play: str) -> None:
    assert Settings.load({}, {"FLOWER_REHEARSE": text}).rehearse == play


def test_what_is_handed_on_to_agents_holds_nothing_of_ours() -> None:
    settings = Settings.load(
        {}, {"FLOWER_TOKEN": "t" * 20, "PATH": "/bin", "ANTHROPIC_MODEL": "m", "ANTHROPIC_BASE_URL": ""}
    )
    assert settings.base_env == {"PATH": "/bin", "ANTHROPIC_MODEL": "m", "ANTHROPIC_BASE_URL": ""}
    assert settings.model_env == {"ANTHROPIC_MODEL": "m"}
    assert settings.model_origin == {"ANTHROPIC_MODEL": "the environment"}


def test_flows_are_taken_apart() -> None:
    settings = Settings.load({"flow": "a=pkg.mod:make;b=/srv/my flows/b.py:flow"}, {})
    assert settings.flow == {"a": "pkg.mod:make", "b": "/srv/my flows/b.py:flow"}


def test_a_misspelt_variable_is_reported_and_the_clients_are_not() -> None:
    warnings = Settings.load({}, {"FLOWER_PROT": "1", "FLOWER_URL": "x", "FLOWER_TOKEN": "short"}).warnings
    assert len(warnings) == 2
    assert "FLOWER_PROT" in warnings[0]
    assert "FLOWER_TOKEN" in warnings[1]
    assert "short enough" in warnings[1]


@pytest.mark.parametrize("name", ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"])
def test_any_one_credential_will_do(name: str) -> None:
    Settings.load({}, {name: "x"}).require_credentials()


def test_without_credentials_only_a_rehearsal_can_start() -> None:
    with pytest.raises(SettingsError, match=r"ANTHROPIC_API_KEY.*--rehearse"):
        Settings.load({}, {"ANTHROPIC_API_KEY": ""}).require_credentials()
    Settings.load({"rehearse": "yes"}, {}).require_credentials()


def test_other_clouds_are_refused_until_they_are_supported() -> None:
    with pytest.raises(SettingsError, match="CLAUDE_CODE_USE_BEDROCK"):
        Settings.load({}, {"CLAUDE_CODE_USE_BEDROCK": "1"})
    Settings.load({}, {"CLAUDE_CODE_USE_BEDROCK": "0"})


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),  # noqa: S104
        ("::", False),
        ("a.b", False),
    ],
)
def test_what_only_this_machine_can_reach(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


def test_the_number_of_runs_follows_what_a_container_may_use(tmp_path: Path) -> None:
    limit = tmp_path / "memory.max"
    for text, runs in (
        ("max", default_max_runs(())),
        ("1610612736", 2),
        ("1000", 1),
        ("nonsense", default_max_runs(())),
    ):
        limit.write_text(text)
        assert default_max_runs([limit, tmp_path / "missing"]) == runs
