"""How hard are the fuzz tests? A quick and stable part runs with every run of the tests; `make fuzz` runs the rest."""

import os
from collections.abc import Callable
from typing import TypeVar

from hypothesis import HealthCheck, settings

from annai.errors import AnnaiError

T = TypeVar("T")
E = TypeVar("E", bound=AnnaiError)

EXAMPLES = int(os.environ.get("ANNAI_FUZZ", "0"))
"""Examples of each test; without ANNAI_FUZZ a few, the same in every run."""

# What is found is kept as an `@example`, or as a file in corpus/: hypothesis' own database is not in the repository.
FUZZ = settings(
    max_examples=EXAMPLES or 60,
    derandomize=not EXAMPLES,
    database=None,
    deadline=None,
    print_blob=bool(EXAMPLES),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large],
)


def attempt(refusal: type[E], work: Callable[[], T]) -> T | E:
    """What came of it, or the sentence with which it was refused; any other error is a failure."""
    try:
        return work()
    except refusal as error:
        refused = error
    assert str(refused).strip()
    return refused
