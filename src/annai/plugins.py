"""What comes from other packages? Embedders, stores, splitters and rerankers by entry points, and annai's own extras.

Built-in names win, and the installed packages are looked through only for a name that is not built in: that takes
longer than a search.
"""

import json
import shlex
import sys
from importlib.util import find_spec
from pathlib import Path
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


def install_command(extra: str) -> str:
    """The command that adds an extra to the annai that is running, by the program that installed it."""
    prefix = Path(sys.prefix)
    options, package = _source(extra)
    if (prefix / "uv-receipt.toml").exists():
        return f"uv tool install {options}{package}"
    if (prefix / "pipx_metadata.json").exists():
        return f"pipx install --force {options}{package}"
    if not find_spec("pip"):
        return f"uv pip install --python {shlex.quote(sys.executable)} {options}{package}"
    from shutil import which  # takes as long to load as comparing hundreds of files

    typed = which("pip")
    is_own = typed is not None and Path(typed).parent == Path(sys.executable).parent
    return f"{'pip' if is_own else f'{shlex.quote(sys.executable)} -m pip'} install {options}{package}"


def _source(extra: str) -> tuple[str, str]:
    """The options and the name by which an installer finds annai with an extra: a clone's path, or the package."""
    from importlib.metadata import PackageNotFoundError, distribution
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    try:
        record = json.loads(distribution("annai").read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, json.JSONDecodeError):
        record = {}
    url = str(record.get("url", ""))
    if url.startswith("file:"):
        path = url2pathname(urlsplit(url).path)
        is_editable = record.get("dir_info", {}).get("editable", False)
        if Path(path).is_dir():
            return "-e " if is_editable else "", f"'{path}[{extra}]'"
    if record.get("vcs_info"):
        return "", f"'annai[{extra}] @ {record['vcs_info']['vcs']}+{url}'"
    return "", f"'annai[{extra}]'"
