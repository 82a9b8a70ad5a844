"""How are classes and patterns defined so that no command waits for them?

Python writes and compiles six methods for each frozen dataclass with slots: a search would wait 30 ms for those of the
values it knows. `dataclass` here compiles only `__init__`, and the other methods are the same for all classes.
To compile all patterns takes as long, and a search uses few: a `lazy_pattern` is compiled when it is used.
"""

import dataclasses
import re
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError
from operator import attrgetter
from types import FunctionType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

T = TypeVar("T")

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass  # noqa: PLC0414 - whoever checks types may take it for Python's own
else:

    def dataclass(*, frozen: bool, slots: bool) -> Callable[[type[T]], type[T]]:
        """Make the class of a value; `fields`, `replace`, `asdict` and pickle take it as they take any dataclass."""
        if not (frozen and slots):
            raise TypeError("This makes values, which are frozen and have slots; `dataclasses.dataclass` makes others.")
        return _make


def lazy_pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    """As `re.compile`, but when the pattern is first used: one with Chinese characters takes up to 5 ms."""
    return cast(re.Pattern[str], _LazyPattern(text, flags))


def _make(cls: type[T]) -> type[T]:
    made: Any = dataclasses.dataclass(init=False, repr=False, eq=False, slots=True)(cls)
    made.__dataclass_params__.frozen = True
    fields = dataclasses.fields(made)
    if not all(each.init and each.repr and each.hash is None and not each.kw_only for each in fields):
        raise TypeError(f"A field of {cls.__name__} needs what only `dataclasses.dataclass` does.")
    made.__init__ = _initializer(made, fields)
    made._values = property(attrgetter(*(each.name for each in fields if each.compare)))
    for name, method in _METHODS.items():
        if name not in cls.__dict__:
            setattr(made, name, method)
    return cast(type[T], made)


def _initializer(made: type, fields: tuple["Field[Any]", ...]) -> Callable[..., None]:
    """An `__init__` that takes the fields and sets them."""
    # Slots are set by their descriptors, which do not ask `__setattr__`.
    names: dict[str, object] = {f"set_{each.name}": getattr(made, each.name).__set__ for each in fields}
    parameters, lines = ["self"], []
    for each in fields:
        value = each.name
        if each.default_factory is not MISSING:
            names |= {f"default_{each.name}": MISSING, f"make_{each.name}": each.default_factory}
            value = f"make_{each.name}() if {each.name} is default_{each.name} else {each.name}"
        elif each.default is not MISSING:
            names[f"default_{each.name}"] = each.default
        parameters.append(f"{each.name}=default_{each.name}" if f"default_{each.name}" in names else each.name)
        lines.append(f" set_{each.name}(self, {value})")
    exec(f"def __init__({', '.join(parameters)}):\n" + "\n".join(lines), names)  # noqa: S102 - names of fields
    made_init = cast(FunctionType, names["__init__"])
    made_init.__annotations__ = {each.name: each.type for each in fields} | {"return": None}
    made_init.__qualname__ = f"{made.__qualname__}.__init__"
    return made_init


class _Methods:
    """What Python would write for each class."""

    _values: Any
    """Of the fields that count when two are compared, in their order."""

    def __repr__(self) -> str:
        named = ", ".join(f"{name}={value!r}" for name, value in _state(self).items())
        return f"{type(self).__qualname__}({named})"

    def __eq__(self, other: object) -> bool:
        return bool(self._values == other._values) if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._values)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise FrozenInstanceError(f"{name} cannot be set; make another {type(self).__name__}")

    def __delattr__(self, name: str) -> NoReturn:
        raise FrozenInstanceError(f"{name} cannot be deleted; make another {type(self).__name__}")

    def __getstate__(self) -> dict[str, object]:
        return _state(self)

    def __setstate__(self, state: dict[str, object]) -> None:
        for name, value in state.items():
            object.__setattr__(self, name, value)


def _state(value: Any) -> dict[str, object]:  # noqa: ANN401 - of any such class
    return {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}


_METHODS = {name: method for name, method in vars(_Methods).items() if isinstance(method, FunctionType)}


class _LazyPattern:
    """Takes the methods of the compiled pattern for its own, each when it is first called."""

    def __init__(self, text: str, flags: int) -> None:
        self._arguments = text, flags

    def __getattr__(self, name: str) -> object:
        # What was compiled before, Python remembers.
        method: object = getattr(re.compile(*self._arguments), name)
        setattr(self, name, method)
        return method
