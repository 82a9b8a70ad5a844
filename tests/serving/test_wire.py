"""Do values survive the wire? Whatever they hold; and does what is no such value get a sentence?"""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annai.answers import Answer, Hit, Query
from annai.errors import QueryError
from annai.serving.wire import from_json, plain, to_json
from annai.types import (
    Collection,
    Document,
    FileState,
    ImportSummary,
    Outline,
    Problem,
    Request,
    Section,
    Selection,
    Status,
    StoredSection,
)
from annai.values import decode

TEXTS = st.text(max_size=20)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
PATHS = TEXTS.map(Path)
JSON: st.SearchStrategy[object] = st.recursive(
    st.none() | st.booleans() | st.integers() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)
st.register_type_strategy(Path, PATHS)
st.register_type_strategy(float, NUMBERS)

DOCUMENTS = st.builds(
    Document,
    state=st.builds(FileState, problem=st.none() | st.builds(Problem)),
    front_matter=st.dictionaries(TEXTS, JSON, max_size=3),
    outline=st.builds(Outline),
)
SECTIONS = st.builds(StoredSection, section=st.builds(Section), problem=st.none() | st.builds(Problem))
PLACES = st.builds(Selection, document=DOCUMENTS, sections=st.lists(SECTIONS, max_size=3), section=SECTIONS)
VALUES: st.SearchStrategy[object] = st.one_of(
    PLACES,
    DOCUMENTS,
    st.builds(Query),
    st.builds(Answer, results=st.lists(st.builds(Hit), max_size=2).map(tuple)),
    st.builds(Collection),
    st.builds(Request),
    st.builds(ImportSummary),
    st.from_type(Status),
)


@given(VALUES)
def test_every_value_survives_the_wire(value: object) -> None:
    assert decode(type(value), from_json(to_json(plain(value)))) == value


def test_names_of_files_that_are_no_text_survive_the_wire() -> None:
    assert from_json(to_json(plain(Path("a\udcff/日本.md")))) == "a\udcff/日本.md"


@pytest.mark.parametrize(
    ("kind", "value", "sentence"),
    [
        (int, "x", "limit must be a whole number, not 'x'."),
        (int, True, "limit must be a whole number, not True."),
        (int, 1.5, "limit must be a whole number, not 1.5."),
        (int, None, "limit must be a whole number, not None."),
        (bool, 1, "limit must be true or false, not 1."),
        (str, ["a"], "limit must be a string, not ['a']."),
        (float, "1", "limit must be a number, not '1'."),
        (Path, 3, "limit must be a path, not 3."),
        (tuple[str, ...], "abc", "limit must be a list of strings, not 'abc'."),
        (tuple[str, ...], ["a", 1], "each of limit must be a string, not 1."),
        (tuple[int, int], [1], "limit must be a list of 2, not [1]."),
        (Collection, [], "limit must be an object, not []."),
        (Collection, {"name": "a"}, "limit must have 'source'."),
        (Problem, {"kind": "other", "reason": ""}, "kind must be one of skipped, failed, not 'other'."),
        (Problem, {"kind": ["skipped"], "reason": ""}, "kind must be one of skipped, failed, not ['skipped']."),
        (Problem, {"kind": "failed", "raeson": ""}, "limit has no 'raeson'; did you mean 'reason'?"),
        (str, ["x" * 1000], "limit must be a string, not ['" + "x" * 57 + "…."),
    ],
)
def test_a_wrong_value_gets_a_sentence(kind: Any, value: object, sentence: str) -> None:  # noqa: ANN401 - a type
    with pytest.raises(QueryError) as caught:
        decode(kind, value, "limit")
    assert str(caught.value) == sentence


@pytest.mark.parametrize("text", [b"", b"{", b"NaN", b'{"a": Infinity}', b"\xff", b"[" * 100_000, b"1" * 10_000])
def test_what_is_not_json_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match=r".*"):
        from_json(text)


def test_what_cannot_travel_is_a_mistake() -> None:
    with pytest.raises(TypeError):
        plain({1, 2})
