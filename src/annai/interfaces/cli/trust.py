"""`annai trust`: allow what a project's own files ask for."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import click

from annai.config import FoundSettings, find_settings, load_config, user_folder
from annai.engine.models import forget_models
from annai.errors import ConfigError
from annai.interfaces.cli.conventions import Command, common_options
from annai.interfaces.cli.options import config_option, docs_dir_option
from annai.interfaces.terminal import echo, say
from annai.trust import KINDS, Demand, TrustStore, model_folders

MAX_SHOWN_CHARACTERS = 200
"""Of one value: a longer one would push the others off the screen."""

_PLAIN = re.compile(r"[\w.:/\\~+-]+")
"""What no one can take for a sentence of annai's."""

_NOT_IN_A_HOST = re.compile(r"[\s/@?#&=,;:'\"()\[\]]+")


@click.command(cls=Command, examples=("annai trust", "annai trust --list", "annai trust --revoke"))
@click.option("-y", "--yes", is_flag=True, help="Trust without asking.")
@click.option("--list", "listing", is_flag=True, help="List what is trusted on this machine.")
@click.option("--revoke", is_flag=True, help="Stop trusting this project.")
@docs_dir_option
@config_option
@common_options
def command(yes: bool, listing: bool, revoke: bool, docs_dir: Path | None, config: Path | None) -> None:
    """Allow this project's files to reach beyond it.

    The settings of a cloned repository are somebody else's. Until you trust them,
    annai ignores what would contact another machine, read a key, load another model,
    or read or write outside the project. Trust is remembered by content: if the file
    changes, annai asks again.
    """
    store = TrustStore(user_folder())
    if listing:
        _list(store)
        return
    found = find_settings(config=config, docs_dir=docs_dir)
    key = _shown(str(found.key))
    if revoke:
        is_revoked = store.revoke(found.key)
        forget_models(load_config(config=config, docs_dir=docs_dir))
        say(f"{key} is no longer trusted." if is_revoked else f"{key} was not trusted.")
        return
    if found.is_trusted:
        say("Everything here is trusted." if found.demands else "Nothing here needs your trust.")
    else:
        ask(found, yes=yes)


def ask(found: FoundSettings, *, yes: bool = False) -> None:
    """Show what settings ask for, and trust them if the user agrees, or has agreed by `yes`."""
    key = _shown(str(found.key))
    if not (value := found.digest):
        folders = " and ".join(map(_shown, model_folders(found.demands)))
        raise ConfigError(f"{folders} holds too many files for a model", "name a folder with nothing else in it.")
    _show(key, found.demands)
    if not yes and not click.confirm("Trust this project with it?", err=True):
        say("Nothing was trusted.")
        return
    TrustStore(user_folder()).trust_file(found.key, value)
    say(f"{key} is trusted until it changes; `annai trust --revoke` takes that back.")


def _show(key: str, demands: Sequence[Demand]) -> None:
    """Show what is asked for by what it does, the most dangerous last, where the question follows."""
    echo(f"{key} asks for:")
    counts = []
    for kind, does in KINDS.items():
        asked = [each for each in demands if each.kind == kind]
        if not asked:
            continue
        counts.append(f"{len(asked)} would {does}")
        echo(f"\nTo {does}:")
        # Code that comes with a model can do everything else, too.
        for demand in sorted(asked, key=lambda each: each.setting.endswith(".trust_remote_code")):
            echo(f"  {_shown(demand.setting)} = {_quoted(demand.value)}\n    {demand.consequence}")
            for note in _notes(demand):
                echo(f"    {note}")
    echo(f"\nOf its settings, {', '.join(counts)}.")


def _notes(demand: Demand) -> Iterator[str]:
    """What a value does not show by itself: which host it means, and that a folder's files are trusted with it."""
    if demand.kind in ("network", "server"):
        for part in _NOT_IN_A_HOST.split(demand.value):
            if not part.isascii():
                yield f"{_quoted(part)} is not written in ASCII; the host of that name is {_quoted(_in_ascii(part))}"
        if "://" in demand.value and (host := _host(demand.value)) not in demand.value.split("/"):
            yield f"the host in it is {_quoted(host)}"
    if demand.value in model_folders([demand]):
        yield "a folder: if any file in it changes, annai asks again"


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _in_ascii(host: str) -> str:
    """An internationalized host name as the network knows it."""
    try:
        return host.encode("idna").decode()
    except UnicodeError:
        return ".".join(f"xn--{label.encode('punycode').decode()}" for label in host.split("."))


def _shown(text: str) -> str:
    """A name or a path, in quotes if it could be taken for anything else: whoever wrote it chose it."""
    return text if _PLAIN.fullmatch(text) and len(text) <= MAX_SHOWN_CHARACTERS else _quoted(text)


def _quoted(text: str) -> str:
    """A text as Python writes it: on one line, and what cannot be seen escaped. The middle of a long one is cut."""
    half = MAX_SHOWN_CHARACTERS // 2
    if len(text) <= MAX_SHOWN_CHARACTERS:
        return repr(text)
    return f"{text[:half]!r} … {len(text) - 2 * half:,} more characters … {text[-half:]!r}"


def _list(store: TrustStore) -> None:
    for file in sorted(store.files()):
        echo(_shown(file))
    if not store.files():
        echo("Nothing is trusted on this machine.")
