"""`annai trust`: allow what a project's own files ask for."""

from pathlib import Path

import click

from annai.config import FoundSettings, find_settings, user_folder
from annai.interfaces.cli.conventions import Command, common_options
from annai.interfaces.cli.options import config_option, docs_dir_option
from annai.interfaces.terminal import echo, say
from annai.trust import TrustStore


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
    if revoke:
        say(f"{found.key} is no longer trusted." if store.revoke(found.key) else f"{found.key} was not trusted.")
        return
    if not found.is_trusted:
        _show(found)
        if not yes and not click.confirm("Trust this project with it?", err=True):
            say("Nothing was trusted.")
            return
        store.trust_file(found.key, found.digest)
        say(f"{found.key} is trusted until it changes; `annai trust --revoke` takes that back.")
    else:
        say("Everything here is trusted." if found.demands else "Nothing here needs your trust.")


def _show(found: FoundSettings) -> None:
    echo(f"{found.key} asks for:")
    for demand in found.demands:
        echo(f"  {demand.setting} = {demand.value!r}\n    {demand.consequence}")


def _list(store: TrustStore) -> None:
    for file in sorted(store.files()):
        echo(file)
    if not store.files():
        echo("Nothing is trusted on this machine.")
