"""Flags win over the environment, that over the file, that over the defaults; mistakes are named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest
from typer.testing import CliRunner

from pollerd.api.settings import ApiSettings, hash_of
from pollerd.app.config import Config, load
from pollerd.app.environment import client_defaults
from pollerd.app.options import NEEDS_RESTART, OPTIONS, SECRETS, Applies, Option, Options, options_of
from pollerd.cli import serving
from pollerd.cli.run import app as run_app
from pollerd.cli.run import flag_of
from pollerd.errors import ConfigError, InvalidValueError
from pollerd.site_settings import Kind, RespectTtl

Loading = Callable[..., Config]


@pytest.fixture
def loading(tmp_path: Path) -> Loading:
    """`loading("toml text", ENV="...", flags={...})`."""

    def do(toml: str | None = None, flags: dict[str, Any] | None = None, **environ: str) -> Config:
        file = None
        if toml is not None:
            file = tmp_path / "pollerd.toml"
            file.write_text(toml)
        return load(flags or {}, file=file, environ=environ)

    return do


def test_nothing_set_is_all_defaults(loading: Loading) -> None:
    config = loading()
    assert config.options == Options()
    assert set(config.sources.values()) == {"default"}
    assert not any(config.is_set(name) for name in OPTIONS)
    assert (config.daemon.budget, config.scheduling.host_interval_seconds, config.api.port) == (5.0, 1.0, 8080)


def test_flags_over_environment_over_file_over_default(loading: Loading) -> None:
    toml = "budget = 1\nhost_interval = 2\nmin_interval = 3\n"
    config = loading(toml, {"budget": 10.0, "contact": None}, POLLERD_BUDGET="20", POLLERD_HOST_INTERVAL="30")
    options = config.options
    assert (options.budget, options.host_interval, options.min_interval, options.contact) == (10.0, 30.0, 3.0, None)
    sources = [config.sources[name] for name in ("budget", "host_interval", "min_interval", "contact")]
    assert sources[:2] == ["flag", "environment"]
    assert sources[2].startswith("file ")
    assert sources[2].endswith("pollerd.toml")
    assert sources[3] == "default"
    assert (config.daemon.budget, config.scheduling.host_interval_seconds) == (10.0, 30.0)


def test_the_file_may_be_named_by_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "other.toml"
    file.write_text("budget = 7.5")
    assert load({}, environ={"POLLERD_CONFIG": str(file)}).options.budget == 7.5
    with pytest.raises(ConfigError, match=r"config file: there is no file .*absent\.toml"):
        load({}, environ={"POLLERD_CONFIG": str(tmp_path / "absent.toml")})


BY_KIND: dict[Kind, tuple[str, Any]] = {
    Kind.SECONDS: ("1.5m", 90.0),
    Kind.RATE: ("120/min", 2.0),
    Kind.SHARE: ("2%", 0.02),
    Kind.COUNT: ("60", 60),
    Kind.SIZE: ("2MiB", 2 * 1024**2),
    Kind.SWITCH: ("yes", True),
    Kind.TRUST: ("strict", RespectTtl.STRICT),
    Kind.PATH: ("some/file.toml", Path("some/file.toml")),
}
BY_NAME: dict[str, tuple[str, Any]] = {
    "allocator": ("uniform", "uniform"),
    "objective": ("freshness", "freshness"),
    "shadow": ("htraa, uniform", ("htraa", "uniform")),
    "database": ("sqlite:///x.db", "sqlite:///x.db"),
    "node": ("auto", "auto"),
    "nodes_wanted": ("3", 3),
    "node_address": ("http://n.example:8080", "http://n.example:8080"),
    "listen": ("127.0.0.1:99", "127.0.0.1:99"),
    "contact": ("me@example.org", "me@example.org"),
    "public_url": ("https://a.org", "https://a.org"),
    "callback_url": ("https://hooks.a.org/x", "https://hooks.a.org/x"),
    "token": ("sesame-sesame-16", "sesame-sesame-16"),
    "read_token": ("peek-peek-peek-16", "peek-peek-peek-16"),
    "allowed_host": ("a.example, b.example:8080", ("a.example", "b.example:8080")),
    "trusted_proxy": ("10.0.0.0/8, ::1", ("10.0.0.0/8", "::1")),
    "user_header": ("X-Remote-User", "X-Remote-User"),
    "secret_key": ("A" * 43 + "=", "A" * 43 + "="),
    "proxy": ("http://me:sesame@p.example:3128", "http://me:sesame@p.example:3128"),
    "log_format": ("json", "json"),
    "log_level": ("debug", "debug"),
    "ca_file": ("ca.pem", "ca.pem"),
    "browser": ("/usr/bin/chromium", "/usr/bin/chromium"),
    "browser_proxy": ("pollerd:3129", "pollerd:3129"),
}
VALUES = {name: BY_NAME[name] if name in BY_NAME else BY_KIND[one.kind] for name, one in OPTIONS.items()}
"""Setting -> a value as users write it, and what it is. A setting without one here fails below."""
SHOWN = {"proxy": "http://p.example:3128", **dict.fromkeys(("token", "read_token", "secret_key"), "***")}
NEEDED = {"user_header": {"POLLERD_TRUSTED_PROXY": "::1"}}


def of_flags(monkeypatch: pytest.MonkeyPatch, *words: str) -> dict[str, Any]:
    """The flags that `pollerd run` hands on."""
    given: dict[str, Any] = {}
    monkeypatch.setattr(serving, "serve", lambda flags, config: given.update(flags))
    done = CliRunner().invoke(run_app, words)
    assert done.exit_code == 0, done.output
    return given


def assert_set(config: Config, name: str, source: str) -> None:
    """Every way out has the value: the options, `config show`, and what differs from the defaults."""
    text, value = VALUES[name]
    assert getattr(config.options, name) == value != getattr(Options(), name)
    assert config.sources[name].startswith(source)
    needed = {"trusted_proxy"} if name == "user_header" else set()
    assert {other for other in OPTIONS if config.is_set(other)} == {name} | needed
    shown, origin = config.shown()[name]
    assert origin == config.sources[name]
    as_text = ", ".join(value) if isinstance(value, tuple) else str(value)
    assert shown == (value.name.lower() if isinstance(value, RespectTtl) else SHOWN.get(name, as_text))
    assert text not in repr(config.options)


@pytest.mark.parametrize("name", OPTIONS)
def test_every_setting_by_each_way_in_is_read_by_each_way_out(
    loading: Loading, name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    text, _ = VALUES[name]
    needed = NEEDED.get(name, {})
    assert_set(loading(**{f"POLLERD_{name.upper()}": text}, **needed), name, "environment")
    assert_set(loading(f'{name} = "{text}"', **needed), name, "file ")
    if name in SECRETS:
        (tmp_path / "secret").write_text(f"{text}\n")
        path = str(tmp_path / "secret")
        assert_set(loading(**{f"POLLERD_{name.upper()}_FILE": path}, **needed), name, "environment")
        assert_set(loading(f'{name}_file = "{path}"', **needed), name, "file ")
    option = OPTIONS[name]
    words = [option.flag_name, str(tmp_path / "secret") if option.flag else text]
    if option.kind is Kind.SWITCH:
        words = words[:1]
    if name == "urls":
        monkeypatch.chdir(tmp_path)
        Path(text).parent.mkdir()
        Path(text).touch()
        words = words[1:]
    assert_set(loading(flags=of_flags(monkeypatch, *words), **needed), name, "flag")


def test_a_setting_more_in_the_table_is_found_by_every_way(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass(frozen=True, repr=False)
    class WithGrace(Options):
        grace: Annotated[float, Option(Kind.SECONDS, "How long.", applies=Applies.RESTART)] = 5.0

    more = options_of(WithGrace)
    assert list(more) == [*OPTIONS, "grace"]
    monkeypatch.setattr("pollerd.app.config.OPTIONS", more)
    monkeypatch.setattr("pollerd.app.config.Options", WithGrace)
    for config in (
        load({"grace": "1.5m"}, environ={}),
        load({}, environ={"POLLERD_GRACE": "1.5m"}),
    ):
        assert config.options.grace == 90.0  # type: ignore[attr-defined]
        assert config.shown()["grace"][0] == "90.0"
    with pytest.raises(InvalidValueError, match="POLLERD_GRACE: must be seconds"):
        load({}, environ={"POLLERD_GRACE": "soon"})
    flag = flag_of(more["grace"])
    assert (flag.name, flag.annotation.__metadata__[0].help) == ("grace", "How long. Default: 5s.")
    assert flag.annotation.__metadata__[0].default == "--grace"  # where Typer keeps the first name


@pytest.mark.parametrize(("text", "size"), [("7", 7), ("1KiB", 1024), ("1.5 mib", 1_572_864), ("2GiB", 2 * 1024**3)])
def test_sizes(loading: Loading, text: str, size: int) -> None:
    assert loading(POLLERD_MAX_BODY_BYTES=text).fetching.max_body_bytes == size
    with pytest.raises(InvalidValueError, match="POLLERD_MAX_BODY_BYTES: must be a whole number of bytes"):
        loading(POLLERD_MAX_BODY_BYTES=f"{text}x")


@pytest.mark.parametrize(
    ("toml", "sentence"),
    [
        ("budget = true", "budget: must be polls per second"),
        ("min_interval = [1]", "min_interval: must be seconds"),
        ("max_inflight = 1.5", "max_inflight: must be a whole number"),
        ("max_inflight = true", "max_inflight: must be a whole number"),
        ("sync = 2", "sync: must be true or false"),
        ("shadow = [1]", "shadow: must be names"),
        ("contact = 5", "contact: must be text"),
        ("urls = 5", "urls: must be text"),
        ("token = 5", r"token: must be text$"),
        ("objective = 1", "objective: must be text"),
    ],
)
def test_toml_of_another_type_is_refused(loading: Loading, toml: str, sentence: str) -> None:
    with pytest.raises(InvalidValueError, match=sentence):
        loading(toml)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90.0), ("1.5h", 5400.0), ("2d", 172_800.0), ("45s", 45.0), ("10 m", 600.0), (" 3 ", 3.0), ("1e2", 100.0)],
)
def test_durations(loading: Loading, text: str, seconds: float) -> None:
    assert loading(POLLERD_MIN_INTERVAL=text).scheduling.min_interval_seconds == seconds
    assert loading(f'min_interval = "{text}"').scheduling.min_interval_seconds == seconds
    assert loading(flags={"min_interval": text}).scheduling.min_interval_seconds == seconds


@pytest.mark.parametrize("text", ["soon", "", "5w", "h", ".", "1..2", "1e999", "nan", "-5"])
def test_durations_that_are_none(loading: Loading, text: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        loading(POLLERD_MIN_INTERVAL=text)
    error = caught.value
    assert error.field == "POLLERD_MIN_INTERVAL"
    assert "second" in error.allowed
    assert "convert" not in str(error), "a person's words"


@pytest.mark.parametrize(
    ("text", "budget"),
    [("5", 5.0), ("5/s", 5.0), ("20/min", 1 / 3), ("300/h", 1 / 12), ("5000/d", 5000 / 86_400), (" 1.5 / m ", 0.025)],
)
def test_budgets(loading: Loading, text: str, budget: float) -> None:
    assert loading(POLLERD_BUDGET=text).daemon.budget == pytest.approx(budget)
    assert loading(f'budget = "{text}"').daemon.budget == pytest.approx(budget)
    assert loading(flags={"budget": text}).daemon.budget == pytest.approx(budget)


@pytest.mark.parametrize("text", ["", "fast", "5/w", "/h", "5//s", "nan", "1e999", "20 per min", "0/s", "-1", "1/d"])
def test_budgets_that_are_none(loading: Loading, text: str) -> None:
    with pytest.raises(InvalidValueError, match="POLLERD_BUDGET: must be polls per second"):
        loading(POLLERD_BUDGET=text)


@pytest.mark.parametrize(
    ("text", "share"), [("1%", 0.01), ("0.01", 0.01), ("0", 0.0), (" 2.5 % ", 0.025), ("99%", 0.99)]
)
def test_shares(loading: Loading, text: str, share: float) -> None:
    assert loading(POLLERD_MIN_YIELD=text).scheduling.min_yield == pytest.approx(share)
    assert loading(f'min_yield = "{text}"').scheduling.min_yield == pytest.approx(share)
    assert loading(flags={"min_yield": text}).scheduling.min_yield == pytest.approx(share)


@pytest.mark.parametrize(
    ("flags", "saving", "share"),
    [
        ({}, 20.0, 0.0),
        ({"min_saving": "2m"}, 120.0, 0.0),
        ({"min_saving": "0"}, 0.0, 0.0),
        ({"min_yield": "0"}, 0.0, 0.0),
        ({"min_yield": "1%"}, 20.0, 0.01),
        ({"min_yield": "0", "min_saving": "20s"}, 20.0, 0.0),
        ({"min_yield": "1%", "min_saving": "0"}, 0.0, 0.01),
    ],
)
def test_a_min_yield_of_nothing_is_no_saving_either(
    loading: Loading, flags: dict[str, str], saving: float, share: float
) -> None:
    """Whoever wrote that before there was a min_saving wants every site to be polled always, from wherever it comes."""
    variables = {f"POLLERD_{name.upper()}": value for name, value in flags.items()}
    file = "".join(f'{name} = "{value}"\n' for name, value in flags.items())
    for config in (loading(flags=flags), loading(**variables), loading(file)):
        found = config.scheduling
        assert (found.min_saving_seconds, found.min_yield) == (saving, share)


@pytest.mark.parametrize("text", ["", "%", "1 percent", "100%", "1", "-1%", "1.5", "nan", "inf"])
def test_shares_that_are_none(loading: Loading, text: str) -> None:
    with pytest.raises(InvalidValueError, match="POLLERD_MIN_YIELD: must be a"):
        loading(POLLERD_MIN_YIELD=text)


def test_unknown_names_are_errors_that_tell_the_known_ones(loading: Loading) -> None:
    with pytest.raises(ConfigError, match=r"unknown POLLERD_BUGDET \(did you mean POLLERD_BUDGET\?\)"):
        loading(POLLERD_BUGDET="1")
    with pytest.raises(ConfigError, match=r"unknown bugdet \(did you mean budget\?\)"):
        loading("bugdet = 1")
    with pytest.raises(ConfigError, match="unknown run"):
        loading("[run]\nbudget = 1\n")
    assert loading(PATH="/bin", OTHER_BUDGET="x").options.budget == 5.0


@pytest.mark.parametrize("toml", ["budget = ", "= 1", "budget = 1\nbudget = 2", "[x"])
def test_a_file_that_is_no_toml(loading: Loading, toml: str) -> None:
    with pytest.raises(ConfigError, match=r"config file .*pollerd\.toml: "):
        loading(toml)


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    file = tmp_path / "binary.toml"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="config file"):
        load({}, file=file, environ={})


def test_secrets_from_files(loading: Loading, tmp_path: Path) -> None:
    token, database = tmp_path / "token", tmp_path / "database"
    token.write_text("sesame\n")
    database.write_text("postgresql://u:pw@db/x\n")
    config = loading(POLLERD_TOKEN_FILE=str(token), POLLERD_DATABASE_FILE=str(database))
    assert config.options.token == "sesame"
    assert config.options.database == "postgresql://u:pw@db/x"
    with pytest.raises(ConfigError, match="POLLERD_TOKEN and POLLERD_TOKEN_FILE are both set"):
        loading(POLLERD_TOKEN="x", POLLERD_TOKEN_FILE=str(token))
    with pytest.raises(ConfigError, match="POLLERD_TOKEN_FILE"):
        loading(POLLERD_TOKEN_FILE=str(tmp_path / "absent"))
    with pytest.raises(ConfigError, match="POLLERD_BUDGET_FILE"):
        loading(POLLERD_BUDGET_FILE=str(token))


def test_secrets_from_files_named_by_flags_and_toml(loading: Loading, tmp_path: Path) -> None:
    token, proxy = tmp_path / "token", tmp_path / "proxy"
    token.write_text("sesame\n")
    proxy.write_text("http://me:pw@proxy.example:3128\n")
    config = loading(f'proxy_file = "{proxy}"\ntoken = "other"', {"token_file": token})
    assert (config.options.token, config.sources["token"]) == ("sesame", "flag")
    assert config.fetching.proxy == "http://me:pw@proxy.example:3128"
    with pytest.raises(ConfigError, match=r"^token and token_file are both set"):
        loading(f'token = "x"\ntoken_file = "{token}"')
    with pytest.raises(ConfigError, match=r"--read-token-file: there is no file .*absent"):
        loading(flags={"read_token_file": tmp_path / "absent"})


def test_a_token_may_be_given_as_its_hash(loading: Loading) -> None:
    config = loading(POLLERD_TOKEN=hash_of("sesame"), POLLERD_LISTEN="0.0.0.0:80")
    assert config.api.tokens == ApiSettings.listening("127.0.0.1:0", token="sesame").tokens
    for wrong in ("sha256:", "sha256:" + "0" * 63, "sha256:" + "G" * 64):
        with pytest.raises(InvalidValueError, match=r"POLLERD_TOKEN: .* hexadecimal digits$"):
            loading(POLLERD_TOKEN=wrong)
    with pytest.raises(InvalidValueError, match="token: must be the token itself"):
        client_defaults({"POLLERD_TOKEN": hash_of("sesame")})


def test_the_proxy_and_the_key_are_secret(loading: Loading) -> None:
    config = loading(POLLERD_PROXY="http://me:sesame@P.example:3128", POLLERD_SECRET_KEY="A" * 43 + "=")
    assert config.shown()["proxy"] == ("http://p.example:3128", "environment")
    assert config.shown()["secret_key"] == ("***", "environment")
    assert "sesame" not in repr(config)
    assert "AAAA" not in repr(config)
    for name, value in (("PROXY", "ftp://me:sesame@p"), ("SECRET_KEY", "sesame")):
        with pytest.raises(InvalidValueError, match=f"POLLERD_{name}: must be") as caught:
            loading(**{f"POLLERD_{name}": value})
        assert "sesame" not in str(caught.value)


def test_secrets_are_never_shown(loading: Loading) -> None:
    config = loading(
        POLLERD_TOKEN="open-sesame", POLLERD_READ_TOKEN="peek-sesame", POLLERD_DATABASE="postgresql://me:sesame@db/x"
    )
    shown = config.shown()
    assert "sesame" not in str(shown)
    assert "sesame" not in repr(config)
    assert shown["token"] == ("***", "environment")
    assert shown["database"][0] == "postgresql://me:***@db/x"
    assert "sesame" not in repr(config.api)


@pytest.mark.parametrize(
    "database",
    [
        "postgresql://me:se@sa:me@db/x",
        "postgresql://me:se/same@db/x",
        "postgresql://:sesame@db/x",
        "postgresql+asyncpg://db/x?user=me&password=sesame",
    ],
)
def test_passwords_of_any_spelling_are_not_shown(loading: Loading, database: str) -> None:
    shown = loading(POLLERD_DATABASE=database).shown()["database"][0]
    assert "same" not in shown
    assert "sa:me" not in shown
    assert "db/x" in shown


def test_bad_secrets_are_refused_without_being_shown(loading: Loading) -> None:
    for name in ("POLLERD_TOKEN", "POLLERD_READ_TOKEN"):
        with pytest.raises(InvalidValueError) as caught:
            loading(**{name: "with space"})
        assert "with space" not in str(caught.value)
    with pytest.raises(InvalidValueError, match="POLLERD_READ_TOKEN"):
        loading(POLLERD_TOKEN="same", POLLERD_READ_TOKEN="same")


@pytest.mark.parametrize(
    ("variables", "field", "given"),
    [
        ({"POLLERD_BUDGET": "0"}, "budget", 0.0),
        ({"POLLERD_BUDGET": "20000"}, "budget", 20_000.0),
        ({"POLLERD_BUDGET": "nan"}, "budget", None),
        ({"POLLERD_BUDGET": "much"}, "budget", "much"),
        ({"POLLERD_ALLOCATOR": "oracle"}, "allocator", "oracle"),
        ({"POLLERD_OBJECTIVE": "fame"}, "objective", "fame"),
        ({"POLLERD_MAX_INFLIGHT": "0"}, "max_inflight", 0),
        ({"POLLERD_HOST_INTERVAL": "-1"}, "host_interval", -1.0),
        ({"POLLERD_MIN_INTERVAL": "60", "POLLERD_MAX_INTERVAL": "30"}, "max_interval", 30.0),
        ({"POLLERD_TOTAL_TIMEOUT": "0"}, "total_timeout", 0.0),
        ({"POLLERD_CONTACT": "\n"}, "contact", "\n"),
        ({"POLLERD_KEEP_CONTENTS": "1"}, "keep_contents", 1),
        ({"POLLERD_POLL_RETENTION": "0"}, "poll_retention", 0.0),
        ({"POLLERD_CONTENT_RETENTION": "0"}, "content_retention", 0.0),
        ({"POLLERD_CHANGE_RETENTION": "0"}, "change_retention", 0.0),
        ({"POLLERD_LISTEN": "somewhere"}, "listen", "somewhere"),
        ({"POLLERD_LISTEN": "127.0.0.1:70000"}, "listen", "127.0.0.1:70000"),
        ({"POLLERD_LOG_LEVEL": "loud"}, "log_level", "loud"),
        ({"POLLERD_SYNC": "perhaps"}, "sync", "perhaps"),
        ({"POLLERD_MAX_BODY_BYTES": "1.5"}, "max_body_bytes", "1.5"),
    ],
)
def test_what_is_out_of_range_is_named(loading: Loading, variables: dict[str, str], field: str, given: object) -> None:
    with pytest.raises(InvalidValueError) as caught:
        loading(**variables)
    error = caught.value
    variable = f"POLLERD_{field.upper()}"
    assert error.field == variable
    if given is not None:
        assert repr(given) in str(error)
    assert str(error).startswith((f"{variable}: must be ", f"{variable}: unknown "))


def test_other_addresses_need_a_token(loading: Loading) -> None:
    for listen in ("0.0.0.0:8080", "[::]:8080", "192.0.2.1:8080", "example.org:80"):
        with pytest.raises(InvalidValueError, match="POLLERD_LISTEN: must be a loopback address"):
            loading(POLLERD_LISTEN=listen)
        assert loading(POLLERD_LISTEN=listen, POLLERD_TOKEN="sesame").api.tokens
    for listen in ("127.8.9.1:0", "[::1]:8080", "localhost:8080"):
        assert isinstance(loading(POLLERD_LISTEN=listen).api, ApiSettings)


def test_what_client_commands_start_from() -> None:
    assert client_defaults({}) == ("http://127.0.0.1:8080", None)
    assert client_defaults({"POLLERD_URL": "http://x", "POLLERD_TOKEN": "t"}) == ("http://x", "t")
    assert load({}, environ={"POLLERD_URL": "http://x"}).options == Options()


def test_the_browsers_address_shows_no_token(loading: Loading) -> None:
    config = loading(POLLERD_BROWSER="wss://user:s3cret@b.example/?token=s3cret", POLLERD_BROWSER_PAGES="3")
    assert config.shown()["browser"] == ("wss://b.example", "environment")
    assert (config.rendering.browser_pages, config.rendering.starts_browser) == (3, False)
    assert "s3cret" not in repr(config)
    with pytest.raises(InvalidValueError, match="POLLERD_BROWSER_DEADLINE: must be seconds above 0") as refused:
        loading(POLLERD_BROWSER_DEADLINE="0")
    assert refused.value.field == "POLLERD_BROWSER_DEADLINE"


@pytest.mark.parametrize(
    ("given", "value"),
    [
        (None, RespectTtl.HINT),
        ("true", RespectTtl.STRICT),
        ("1", RespectTtl.STRICT),
        ("strict", RespectTtl.STRICT),
        ("false", RespectTtl.OFF),
        ("off", RespectTtl.OFF),
        ("Hint", RespectTtl.HINT),
    ],
)
def test_whether_ttls_are_respected_is_read_as_before_and_in_words(given: str | None, value: RespectTtl) -> None:
    found = load({}, environ={} if given is None else {"POLLERD_RESPECT_TTL": given})
    assert found.scheduling.respect_ttl is value
    assert found.shown()["respect_ttl"][0] == value.name.lower()


@pytest.mark.parametrize(
    ("given", "value"), [("true", RespectTtl.STRICT), ("false", RespectTtl.OFF), ('"hint"', RespectTtl.HINT)]
)
def test_the_file_may_say_true_or_a_word(tmp_path: Path, given: str, value: RespectTtl) -> None:
    file = tmp_path / "pollerd.toml"
    file.write_text(f"respect_ttl = {given}\n", encoding="utf-8")
    assert load({}, file=file, environ={}).scheduling.respect_ttl is value
    file.write_text("respect_ttl = 3\n", encoding="utf-8")
    with pytest.raises(InvalidValueError, match="off, hint or strict"):
        load({}, file=file, environ={})


@pytest.mark.parametrize(
    ("environ", "short"),
    [
        ({}, []),
        ({"POLLERD_TOKEN": "sesame"}, ["token"]),
        ({"POLLERD_TOKEN": "x" * 15, "POLLERD_READ_TOKEN": "y" * 16}, ["token"]),
        ({"POLLERD_READ_TOKEN": "sesame"}, ["read_token"]),
        ({"POLLERD_TOKEN": hash_of("sesame")}, []),
    ],
)
def test_short_tokens_are_named(environ: dict[str, str], short: list[str], tmp_path: Path) -> None:
    assert load({}, environ=environ).short_tokens() == short
    for name, value in environ.items():
        (tmp_path / name).write_text(value + "\n", encoding="utf-8")
    files = {f"{name}_FILE": str(tmp_path / name) for name in environ}
    assert load({}, environ=files).short_tokens() == short


def test_what_a_reload_does_not_apply_is_named() -> None:
    """A setting that no reload applies is reported, instead of being taken as changed."""
    read_when_needed = {name for name, one in OPTIONS.items() if one.applies is Applies.USE}
    assert read_when_needed == {"urls", "sync", "no_wait"}
    assert {"database", "listen", "max_inflight", "browser", "public_url"} <= NEEDS_RESTART
    assert not NEEDS_RESTART & {"budget", "host_interval", "token", "log_level", "keep_contents", "browser_pages"}
