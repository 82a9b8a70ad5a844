"""Is an entry set and removed in JSON and TOML without a change to anything else in the text?"""

import json
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annai.errors import ConfigError
from annai.interfaces.setup.edits import Form, parse, remove_entry, set_entry

ENTRY = {"command": "annai", "args": ["mcp", "--docs-dir", "/a/フォルダー"]}

COMMENTED = """\
{
  // My servers
  "servers": {
    "one": { "command": "1", /* the first */ "args": [] }, // keep "this" { comment
    "two": {
      "command": "2" // and this one
    } // and this
  },
  "inputs": [], // trailing comma follows
}
"""


def test_comments_order_and_line_ends_of_json_stay() -> None:
    for text in (COMMENTED, COMMENTED.replace("\n", "\r\n")):
        changed = set_entry("json", text, ("servers",), "annai", ENTRY)
        assert parse("json", changed)["servers"]["annai"] == ENTRY
        ours = [line for line in changed.splitlines() if line not in text.splitlines()]
        kept = [line for line in changed.splitlines() if line in text.splitlines()]
        # The line of the member before ours gets a comma, and nothing else is different.
        assert [line for line in text.splitlines() if line not in kept] == ["    } // and this"]
        assert ours[0] == "    }, // and this"
        assert "\r\n" in changed or "\r" not in text
        assert set_entry("json", changed, ("servers",), "annai", ENTRY) == changed


def test_an_entry_that_is_there_keeps_what_a_user_added() -> None:
    text = '{"mcpServers": {"annai": {"command": "old", "env": {"A": "1"}}, "z": {}}}'
    changed = set_entry("json", text, ("mcpServers",), "annai", ENTRY)
    assert json.loads(changed) == {"mcpServers": {"annai": {"env": {"A": "1"}, **ENTRY}, "z": {}}}


TOML = """\
# my settings
model = "o5"  # the best

[mcp_servers.other]   # keep
command = "x"

[mcp_servers.annai]
# set by me
command = "old"
args = [
  "mcp",  # a comment
  "--docs-dir", "/old",
]
startup_timeout_sec = 20

[profile]
args = ["not ours"]
"""


def test_comments_and_order_of_toml_stay() -> None:
    changed = set_entry("toml", TOML, ("mcp_servers",), "annai", ENTRY)
    read = tomllib.loads(changed)
    assert read["mcp_servers"]["annai"] == {**ENTRY, "startup_timeout_sec": 20}
    assert read["profile"] == {"args": ["not ours"]}
    for line in ("# my settings", 'model = "o5"  # the best', "[mcp_servers.other]   # keep", "# set by me"):
        assert line in changed.splitlines()
    assert set_entry("toml", changed, ("mcp_servers",), "annai", ENTRY) == changed
    added = set_entry("toml", TOML, ("mcp_servers",), "annai-new", ENTRY)
    assert added.startswith(TOML)
    assert tomllib.loads(added)["mcp_servers"]["annai-new"] == ENTRY


@pytest.mark.parametrize(
    "text",
    [
        'mcp_servers = { other = { command = "x" } } # inline\n',
        'mcp_servers = { annai = { command = "old" }, other = { command = "x" } } # inline\n',
        '[mcp_servers] # inline\nother = { command = "x" }\n',
        '[mcp_servers] # inline\nannai = { command = "old" }\nother = { command = "x" }\n',
        'mcp_servers.other.command = "x" # inline\n[profile]\n',
        'mcp_servers.annai.command = "old"\nmcp_servers.other.command = "x" # inline\n[profile]\n',
        'x = """\n[mcp_servers.annai]\n""" # inline\n[mcp_servers.other]\ncommand = "x"\n',
        '[mcp_servers.other]\ncommand = "x"\n[z]\na = 1 # inline\n[mcp_servers."annai"]\ncommand = "old"\n[y]\n',
    ],
)
def test_every_way_to_write_a_table_in_toml_is_understood(text: str) -> None:
    entry = {**ENTRY, "http_headers": {"Authorization": "Bearer フ"}}
    changed = set_entry("toml", text, ("mcp_servers",), "annai", entry)
    assert tomllib.loads(changed)["mcp_servers"] == {"other": {"command": "x"}, "annai": entry}
    assert "# inline" in changed
    removed = remove_entry("toml", changed, ("mcp_servers",), "annai")
    assert tomllib.loads(removed)["mcp_servers"] == {"other": {"command": "x"}}
    assert "old" in text or removed.strip() == text.strip()


NAMES = st.text(alphabet=st.sampled_from('ab"\\/{}[],: \n//漢'), max_size=6)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | NAMES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)


@given(
    st.dictionaries(NAMES, VALUES, max_size=4),
    st.none() | st.dictionaries(NAMES, st.dictionaries(NAMES, VALUES, max_size=2), max_size=3),
    st.sampled_from([None, 2, "\t"]),
)
def test_any_json_keeps_its_values(
    outer: dict[str, Any], servers: dict[str, Any] | None, indent: int | str | None
) -> None:
    before = {**outer, **({} if servers is None else {"servers": servers})}
    changed = set_entry("json", json.dumps(before, indent=indent), ("servers",), "annai", ENTRY)
    expected = {**before, "servers": {**(servers or {}), "annai": ENTRY}}
    assert json.loads(changed) == expected
    assert [*json.loads(changed)] == [*expected]
    removed = remove_entry("json", changed, ("servers",), "annai")
    # A section without servers goes with its last one.
    assert json.loads(removed) == before if servers else json.loads(removed) == outer
    assert removed == json.dumps(before, indent=indent) or servers == {}


@pytest.mark.parametrize("text", ["", "\n", "{}", "{ }", "// nothing yet\n", "{\n  // nothing yet\n}\n", '{"a": 1,}'])
def test_files_with_little_in_them_work_too(text: str) -> None:
    changed = set_entry("json", text, ("servers",), "annai", ENTRY)
    assert parse("json", changed)["servers"] == {"annai": ENTRY}
    assert ("nothing yet" in changed) == ("nothing yet" in text)


@pytest.mark.parametrize(
    ("form", "text", "expected"),
    [
        ("json", '{"s": {"annai": {}, "b": {}}}', '{"s": {"b": {}}}'),
        ("json", '{"s": {\n  // keep\n  "annai": {} // and\n}}', '{"s": {\n  // keep\n // and\n}}'),
        ("json", '{"s": {\n  // keep\n  "annai": {}, "b": {}\n}}', '{"s": {\n  // keep\n "b": {}\n}}'),
        ("json", '{"s": {\n  "b": {}, // one\n  "annai": {} }}', '{"s": {\n  "b": {} // one\n }}'),
        ("json", '{"s": {\n  "annai": {},\n  // two\n  "b": {}\n}}', '{"s": {\n  // two\n  "b": {}\n}}'),
        ("toml", "[s.annai]\na = 1\n[s.annai.env]\nb = 2\n\n# c\n[s.c]\n", "\n# c\n[s.c]\n"),
        ("toml", "[s]\nannai = { a = 1 }\n# c\nc = { a = 1 }\n", "[s]\n# c\nc = { a = 1 }\n"),
        ("toml", 's.c.a = 1 # c\ns.annai.a = 1\ns.annai.b = "x"\n', "s.c.a = 1 # c\n"),
    ],
)
def test_removing_leaves_neighbours_and_comments(form: Form, text: str, expected: str) -> None:
    assert remove_entry(form, text, ("s",), "annai") == expected


def test_what_is_no_object_is_refused() -> None:
    for text in ("[1]", '{"servers": []}', '{"servers": {"annai": 1}}'):
        with pytest.raises(ConfigError, match="not an object"):
            set_entry("json", text, ("servers",), "annai", ENTRY)
