"""`annai init`: write a settings file that explains itself."""

from pathlib import Path

import click

from annai.config import CONFIG_NAME
from annai.errors import ConfigError
from annai.settings import template


@click.command()
@click.option("--force", is_flag=True, help="Overwrite a settings file that is there already.")
def command(force: bool) -> None:
    """Write annai.toml, with every setting explained.

    Nothing needs it: without settings annai uses the values that the file shows.
    """
    file = Path.cwd() / CONFIG_NAME
    if file.exists() and not force:
        raise ConfigError(f"{file} exists already; edit it, or overwrite it with --force.")
    try:
        file.write_text(template(), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{file} cannot be written: {error.strerror}.") from error
    click.echo(f"Wrote {file}")
