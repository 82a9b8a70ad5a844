"""Which embedders, stores, splitters and rerankers come from other packages? Entry points, by the name in the settings.

Built-in names win, and the installed packages are looked through only for a name that is not built in: that takes
longer than a search.
"""

from typing import Any

from annai.errors import AnnaiError

BUILT_IN = {
    "annai.embedders": ("static", "sentence-transformers", "onnx", "gemini", "openai", "use", "hashing"),
    "annai.stores": ("sqlite", "lancedb", "chroma", "postgres", "qdrant", "memory"),
    "annai.splitters": ("sections", "tokens", "headings"),
    "annai.rerankers": ("off", "cross-encoder", "http"),
}
"""Group of entry points → the names that are annai's own."""

Plugin = Any
"""What an entry point names: the function that makes an embedder or a reranker, opens a store, or splits a document."""


def installed(group: str) -> list[str]:
    """The names of installed plugins, without those that a built-in one hides; imports none of them."""
    from importlib.metadata import entry_points  # slow, and most settings name what is built in

    return sorted({entry.name for entry in entry_points(group=group)} - set(BUILT_IN[group]))


def load(group: str, name: str, error: type[AnnaiError]) -> Plugin:
    """What a plugin's entry point names. Raises `error` if there is none of this name, or if it cannot be imported."""
    from importlib.metadata import entry_points  # as above

    found = [*entry_points(group=group, name=name)]
    if not found:
        names = ", ".join((*BUILT_IN[group], *installed(group)))
        raise error(f"There is no {name!r} among {group}: {names}; install the package that brings it.")
    origin = found[0].dist.name if found[0].dist else found[0].value
    try:
        plugin = found[0].load()
    except Exception as problem:  # a package of somebody else's may fail in any way
        raise error(
            f"The plugin {name!r} of the package {origin} cannot be loaded ({type(problem).__name__}: {problem}); "
            "update it, or choose another in annai.toml."
        ) from problem
    if not callable(plugin):
        raise error(
            f"The plugin {name!r} of the package {origin} is no function; docs/extending.md says what it needs."
        )
    return plugin
