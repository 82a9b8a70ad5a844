"""What is an entry in another program's file, and where is it?"""

from collections.abc import Mapping
from typing import Any

Json = Any
"""A value that JSON, TOML or YAML can express."""

Entry = Mapping[str, Json]
"""One server's settings."""

Path = tuple[str, ...]
"""The keys that lead to the servers of a file."""


def nested(keys: Path, value: Json) -> Json:
    """The value under these keys, one inside the other."""
    for key in reversed(keys):
        value = {key: value}
    return value
