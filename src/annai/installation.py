"""How was annai installed, and what adds an extra to it? Asked only when something is missing."""

import json
import shlex
import sys
from importlib.util import find_spec
from pathlib import Path


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
