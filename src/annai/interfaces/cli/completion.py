"""`annai completion`: what can follow what was typed so far? Commands, options, documents and collections."""

import os
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    add_completion_class,
    get_completion_class,
)

from annai.interfaces.cli.conventions import Command, common_options
from annai.state import here

if TYPE_CHECKING:
    from pathlib import Path

    from annai.stores.base import DocumentReader


@click.command(
    cls=Command,
    examples=(
        """echo 'eval "$(annai completion bash)"' >> ~/.bashrc""",
        """echo 'eval "$(annai completion zsh)"' >> ~/.zshrc""",
        "annai completion fish > ~/.config/fish/completions/annai.fish",
    ),
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@common_options
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print the script that completes commands in your shell.

    Let your shell read it when it starts, as the examples show: then the Tab key
    completes commands, options, the paths of indexed documents and the names of
    collections. bash must be 4.4 or newer.
    """
    register_shells()
    script = get_completion_class(shell)
    assert script, shell  # noqa: S101 - click knows all three
    click.echo(script(context.find_root().command, {}, "annai", "_ANNAI_COMPLETE").source(), nl=False)


def complete_documents(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001 - click's signature
    """The indexed documents whose paths, seen from here, begin so; those above this folder only if asked for."""
    paths = _read(context, _paths_from_here)
    begin = os.path.join(os.curdir, "") if incomplete.startswith(os.path.join(os.curdir, "")) else ""  # noqa: PTH118
    shown = (begin + path for path in paths if incomplete.startswith("..") or not path.startswith(".."))
    return _items(shown, incomplete)


def complete_collections(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001 - click's signature
    """The collections whose names begin so."""
    return _items(_read(context, lambda _, sources: [*sources]), incomplete)


def register_shells() -> None:
    """Let names of documents reach the shells whole: they hold spaces and commas."""
    add_completion_class(_QuotingBash)
    add_completion_class(_SplittingFish)


class _SplittingFish(FishComplete):
    """Splits each line at its first comma only: click's script also splits names and descriptions."""

    source_template = FishComplete.source_template.replace('string split ","', 'string split --max 1 ","')


class _QuotingBash(BashComplete):
    """Escapes what bash would take apart; twice, since the script's `read` takes one backslash away."""

    def format_completion(self, item: CompletionItem) -> str:
        quoted = re.sub(r"[^\w@%+=:,./-]", r"\\\\\g<0>", item.value)
        return f"{item.type},{quoted}"


def _paths_from_here(store: "DocumentReader", sources: "dict[str, Path]") -> list[str]:
    return [
        os.path.relpath(folder / each.path, here())
        for name, folder in sources.items()
        for each in store.documents(name)
    ]


def _items(values: Iterable[str], incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(value) for value in sorted(values) if value.startswith(incomplete)]


def _read(context: click.Context, what: "Callable[[DocumentReader, dict[str, Path]], list[str]]") -> list[str]:
    """Something of the index as it is, with the folders of its collections; nothing if it cannot be read.

    Nothing is indexed, and nothing said: somebody is typing.
    """
    import logging

    from annai import collection
    from annai.config import load_config
    from annai.errors import AnnaiError
    from annai.stores.base import load_store

    logging.disable()
    try:
        config = load_config(config=context.params.get("config"), docs_dir=context.params.get("docs_dir"))
        if not config.database_path.exists():
            return []
        with load_store(config) as store:
            return what(store, collection.sources(store, config))
    except (AnnaiError, OSError):
        return []
    finally:
        logging.disable(logging.NOTSET)
