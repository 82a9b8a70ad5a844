"""Which files does a path prefix name? The file itself, or everything in the folder."""

from collections.abc import Sequence


def trim_prefix(prefix: str) -> str:
    """A path prefix without the slashes and dots that people type around it."""
    return prefix.removeprefix("./").strip("/")


def is_under(path: str, prefixes: Sequence[str]) -> bool:
    """Whether the path is one of the prefixes or lies in a folder that is."""
    return any(path == prefix or path.startswith(prefix + "/") for prefix in map(trim_prefix, prefixes))


def path_prefixes(path: str) -> list[str]:
    """Every prefix that names the path: the folders around it and the path itself."""
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]
