"""`annai init`: write a settings file that explains itself."""

import sys
from pathlib import Path

import click

from annai.config import CONFIG_NAME, check_settings, find_settings
from annai.errors import ConfigError
from annai.interfaces.ancestors import convert, settings_text
from annai.interfaces.cli.conventions import Command, common_options
from annai.interfaces.cli.trust import ask
from annai.interfaces.terminal import echo, is_terminal, say
from annai.settings import template


@click.command(cls=Command, examples=("annai init", "annai init --from ~/.config/mdvec/config.toml"))
@click.option("--force", is_flag=True, help="Overwrite an existing settings file.")
@click.option(
    "--from",
    "source",
    type=click.Path(path_type=Path),
    help="Take over the settings of mdvec (config.toml), local-rag (config.yaml) or search-docs (.search-docs.json).",
)
@common_options
def command(force: bool, source: Path | None) -> None:
    """Write annai.toml, with every setting explained.

    The file is optional: without it, annai uses the defaults that it shows.
    """
    file = Path.cwd() / CONFIG_NAME
    if file.is_symlink():
        raise ConfigError(f"{file} is a link", "edit the file that it leads to, or remove the link.")
    if file.exists() and not force:
        raise ConfigError(f"{file} already exists", "edit it, or overwrite it with --force.")
    converted = convert(source) if source else None
    text = settings_text(converted, source) if converted and source else template()
    check_settings(text, source or file)
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{file} cannot be written: {error.strerror}.") from error
    say(f"Wrote {file}")
    if converted and converted.unknown:
        echo(f"Without counterpart in annai: {', '.join(converted.unknown)}; docs/migrating.md says more.")
    asked = find_settings(docs_dir=file.parent)
    if asked.is_trusted:
        return
    if is_terminal(sys.stdin):
        ask(asked)
    else:
        names = ", ".join(demand.setting for demand in asked.demands)
        echo(f"It reaches beyond this folder ({names}); `annai trust` allows that.")
