"""`annai init`: write a settings file that explains itself."""

from pathlib import Path

import click

from annai.config import CONFIG_NAME
from annai.errors import ConfigError
from annai.interfaces.terminal import echo
from annai.settings import template


@click.command()
@click.option("--force", is_flag=True, help="Overwrite an existing settings file.")
def command(force: bool) -> None:
    """Write annai.toml, with every setting explained.

    The file is optional: without it, annai uses the defaults that it shows.
    """
    file = Path.cwd() / CONFIG_NAME
    if file.exists() and not force:
        raise ConfigError(f"{file} already exists; edit it, or overwrite it with --force.")
    try:
        file.write_text(template(), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{file} cannot be written: {error.strerror}.") from error
    echo(f"Wrote {file}")
