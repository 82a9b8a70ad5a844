"""`annai setup`: tell an agent's program about this project."""

import click

from annai.config import Config
from annai.interfaces.cli.options import project_command
from annai.interfaces.setup.programs import PROGRAMS, apply_edit, plan_edit, plan_snippet
from annai.interfaces.terminal import echo


@click.command()
@click.argument("client", type=click.Choice([*PROGRAMS]))
@click.option("--print", "only_print", is_flag=True, help="Print what would be written, and write nothing.")
@project_command(server=False)
def command(config: Config, client: str, only_print: bool) -> None:
    """Let an agent search this project.

    Adds `annai mcp` to the agent's configuration file. The rest of the file stays the
    same, and a backup is made before it changes.
    """
    program = PROGRAMS[client]
    if only_print:
        file, snippet = plan_snippet(config, program)
        echo(f"{file}:", err=True)
        echo(snippet, nl=False)
        return
    edit = plan_edit(config, program)
    if not edit.is_needed:
        echo(f"{edit.file} already has this entry.")
        return
    backup = apply_edit(edit)
    echo(f"Wrote {edit.file}" + (f"; the old version is in {backup.name}." if backup else "."))
    echo(program.next_step)
