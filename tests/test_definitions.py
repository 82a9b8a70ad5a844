"""Is a value what Python's own frozen dataclass with slots is, and a pattern what it compiles?"""

import copy
import dataclasses
import inspect
import pickle
import re
from collections.abc import Callable
from typing import Any

import pytest

from annai import definitions


def point(dataclass: Callable[..., Any]) -> Any:  # noqa: ANN401 - a class that the test makes
    @dataclass(frozen=True, slots=True)
    class Point:
        """Where something is."""

        x: int
        y: int = 0
        tags: list[str] = dataclasses.field(default_factory=list)
        note: str = dataclasses.field(default="", compare=False)

        @property
        def sum(self) -> int:
            return self.x + self.y

    return Point


Record = point(definitions.dataclass)
Own = point(dataclasses.dataclass)
Record.__qualname__ = "Record"


def test_it_is_made_and_shown_as_pythons_own() -> None:
    for arguments in ((1,), (1, 2), (1, 2, ["a"]), (1, 2, ["a"], "b")):
        assert repr(Record(*arguments)) == repr(Own(*arguments)).replace(Own.__qualname__, "Record")
        assert dataclasses.asdict(Record(*arguments)) == dataclasses.asdict(Own(*arguments))
    assert Record(x=1, y=2).sum == 3
    assert Record(1).tags is not Record(1).tags
    assert str(inspect.signature(Record)).replace("=0", " = 0").startswith("(x: int, y: int = 0, tags: list[str] = ")
    with pytest.raises(TypeError):
        Record()
    with pytest.raises(TypeError):
        Record(1, 2, [], "", 5)
    with pytest.raises(TypeError):
        Record(1, z=2)


def test_it_is_compared_by_its_fields_and_its_class() -> None:
    assert Record(1, 2) == Record(1, 2) != Record(1, 3)
    assert Record(1, 2, note="a") == Record(1, 2, note="b")
    assert Record(1, 2) != Own(1, 2)
    assert Record(1, 2) != (1, 2, [])
    assert len({Record(1, 2, ()), Record(1, 2, ()), Record(2, 2, ())}) == 2


def test_it_cannot_be_changed() -> None:
    value = Record(1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        value.x = 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        del value.x
    assert not hasattr(value, "__dict__")
    assert dataclasses.replace(value, y=5) == Record(1, 5)


def test_it_can_be_copied_and_sent_to_another_process() -> None:
    value = Record(1, 2, ["a"])
    assert pickle.loads(pickle.dumps(value)) == value  # noqa: S301 - our own bytes
    assert copy.deepcopy(value) == value
    assert copy.deepcopy(value).tags is not value.tags


def test_a_pattern_is_compiled_when_it_is_used_and_not_before() -> None:
    pattern = definitions.lazy_pattern("A+", re.IGNORECASE)
    assert pattern.findall("aA b a") == ["aA", "a"]
    assert pattern.sub("-", "aA b a") == "- b -"
    assert pattern.pattern == "A+"
    wrong = definitions.lazy_pattern("(")
    with pytest.raises(re.error):
        wrong.match("")


def test_other_dataclasses_are_pythons_own() -> None:
    with pytest.raises(TypeError):
        definitions.dataclass(frozen=False, slots=True)
    with pytest.raises(TypeError, match="Named"):

        @definitions.dataclass(frozen=True, slots=True)
        class Named:
            name: str = dataclasses.field(kw_only=True)
