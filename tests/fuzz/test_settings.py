"""Can any settings file break annai, or make it reach beyond the project? Not before the user trusts it."""

from dataclasses import fields
from pathlib import Path
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from annai.config import CONFIG_NAME, Config, load_config, user_folder
from annai.errors import ConfigError
from annai.settings import SECTIONS
from annai.trust import BUNDLED_PROVIDERS, demands, is_inside, is_loopback, without_demands
from annai.values import Limits, TypeHint
from tests.fuzz import FUZZ, attempt
from tests.fuzz.strategies import TEXTS, like

TEMPTING = (
    *(
        "/",
        "..",
        "~",
        "~root",
        "~no-such-user/x",
        "../../x",
        "/etc/passwd",
        "a/../../b",
        ".annai/../..",
        "C:\\x",
        "//host/x",
    ),
    *("host=example.com dbname=d", "http:/\t/example.com", "https:example.com", "vectors"),
    *("https://example.com", "http://127.0.0.1:1", "postgresql://h/d", "file:///etc", "AWS_SECRET_ACCESS_KEY"),
    *("openai", "sentence_transformers", "hashing", "static", "sqlite", "postgres", "memory", "::", "2130706433"),
    *("localhost", "LOCALHOST", "localhost.", "127.0.0.1", "0.0.0.0", "org/model", "", ".", "\0", "x" * 5000),  # noqa: S104 - nothing is bound
)
WORDS = st.one_of(*[st.sampled_from(TEMPTING)] * 4, TEXTS)

SCALARS = st.one_of(
    WORDS, st.booleans(), st.integers(), st.just(10**400), st.floats(), st.dates(), st.datetimes(), st.times()
)
ANYTHING: st.SearchStrategy[Any] = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3), max_leaves=4
)


def section(name: str) -> st.SearchStrategy[dict[str, Any]]:
    """The values of one section, mostly ones that it has."""
    known = {each.name: value_of(each.type, each.metadata["limits"]) for each in fields(SECTIONS[name])}
    some = st.lists(st.sampled_from(sorted(known)), max_size=3, unique=True)
    return some.flatmap(lambda names: st.fixed_dictionaries({each: known[each] for each in names}))


def value_of(hint: TypeHint, limits: Limits) -> st.SearchStrategy[Any]:
    """Values for a setting: most of them are allowed."""
    if limits.choices:
        fitting: st.SearchStrategy[Any] = st.sampled_from(limits.choices)
    elif hint in (int, float) and limits.minimum is not None:
        low = int(limits.minimum)
        fitting = st.integers(low, int(low + 100 if limits.maximum is None else limits.maximum))
    else:
        fitting = like(hint, WORDS)
    return st.integers(0, 19).flatmap(lambda chance: ANYTHING if chance == 19 else fitting)


COLLECTIONS = st.dictionaries(WORDS, st.fixed_dictionaries({"embedding": section("embedding")}), max_size=2)
TABLES = st.lists(st.sampled_from([*sorted(SECTIONS), "collections"]), max_size=4, unique=True).flatmap(
    lambda names: st.fixed_dictionaries({name: section(name) if name in SECTIONS else COLLECTIONS for name in names})
)


@FUZZ
@example({"collections": {"a.b": {"embedding": {"provider": "openai", "api_key_env": "AWS_SECRET_ACCESS_KEY"}}}})
@example({"store": {"engine": "postgres", "url": "host=example.com dbname=d"}})
@example({"store": {"engine": "qdrant", "url": "http:/\t/example.com:6333"}})
@example({"project": {"root": "x" * 5000}})
@example({"embedding": {"model": "x" * 5000}})
@example({"rerank": {"model": "~no-such-user/x"}})
@example({"embedding": {"model": "\0"}})
@example({"server": {"idle_shutdown_minutes": 10**400}})
@given(TABLES)
def test_no_settings_of_a_project_reach_beyond_it(docs: Path, table: dict[str, Any]) -> None:
    (docs / CONFIG_NAME).write_bytes(toml(table))
    config = attempt(ConfigError, lambda: load_config(start=docs))
    if isinstance(config, ConfigError):
        return
    assert config.root.is_relative_to(docs.resolve())
    for path in (config.database_path, config.log_path):
        assert path.parent == config.state_folder
    assert is_loopback(config.server.host)
    assert (config.server.token, config.search.rerank) == ("", "off")
    # Without any of these it is no URL, and no connection string of PostgreSQL either.
    assert is_inside(config.root, config.store.url)
    assert not set(config.store.url) & set(":=\t\r\n")
    for embedding in (config.embedding, *config.collections.values()):
        assert embedding.provider in BUNDLED_PROVIDERS
        assert (embedding.model, embedding.base_url, embedding.api_key_env) == ("", "", "")
        assert not embedding.trust_remote_code
    assert (config.rerank.model, config.rerank.base_url, config.rerank.api_key_env) == ("", "", "")


@FUZZ
@given(TABLES)
def test_what_is_left_without_trust_asks_for_nothing(docs: Path, table: dict[str, Any]) -> None:
    (docs / CONFIG_NAME).write_bytes(toml(table))
    if isinstance(attempt(ConfigError, lambda: load_config(start=docs)), ConfigError):
        return
    asked = [*demands(table, docs)]
    assert not [*demands(without_demands(table, asked), docs)]


@FUZZ
@example(CONFIG_NAME, b"[chunking]\nheading_levels = [0]")
@given(
    st.sampled_from([CONFIG_NAME, "pyproject.toml", "user"]),
    st.binary(max_size=200) | st.tuples(TABLES, st.text(max_size=3)).map(lambda pair: toml(pair[0]) + pair[1].encode()),
)
def test_any_bytes_are_settings_or_refused_with_a_sentence(docs: Path, name: str, data: bytes) -> None:
    file = user_folder() / "config.toml" if name == "user" else docs / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    found = attempt(ConfigError, lambda: load_config(start=docs))
    file.unlink()
    assert isinstance(found, Config) or str(found).startswith(str(file))


def toml(table: dict[str, Any]) -> bytes:
    """A table as a TOML file: every section on one line."""
    return "\n".join(f"{_toml(name)} = {_toml(values)}" for name, values in table.items()).encode("utf-8", "replace")


def _toml(value: Any) -> str:  # noqa: ANN401 - whatever TOML has
    if isinstance(value, str):
        return '"' + "".join(_escaped(character) for character in value) + '"'
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_toml(str(key))} = {_toml(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return value.isoformat() if hasattr(value, "isoformat") else repr(value)


def _escaped(character: str) -> str:
    return f"\\U{ord(character):08x}" if character in '"\\' or not character.isprintable() else character
