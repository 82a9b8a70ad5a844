"""`annai setup`: tell an agent's program about this project."""

import click

from annai.config import Config
from annai.interfaces.cli.options import project_command
from annai.interfaces.setup.programs import PROGRAMS, apply_edit, plan_edit


@click.command()
@click.argument("client", type=click.Choice([*PROGRAMS]))
@click.option("--print", "only_print", is_flag=True, help="Show what would be written, and write nothing.")
@project_command(server=False)
def command(config: Config, client: str, only_print: bool) -> None:
    """Let an agent search this project.

    Writes `annai mcp` into the configuration of the agent's program. Whatever else
    is there stays as it is, and the file is copied before it is changed.
    """
    program = PROGRAMS[client]
    edit = plan_edit(config, program)
    if only_print:
        click.echo(f"{edit.file}:", err=True)
        click.echo(edit.snippet, nl=False)
        return
    if not edit.is_needed:
        click.echo(f"{edit.file} has it already.")
        return
    backup = apply_edit(edit)
    click.echo(f"Wrote {edit.file}" + (f"; what it was is in {backup.name}." if backup else "."))
    click.echo(program.next_step)
