"""`annai setup`: tell an agent's program about this project."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from annai.config import Config, load_config
from annai.errors import ConfigError
from annai.interfaces.cli import FAILED
from annai.interfaces.cli.conventions import Command
from annai.interfaces.cli.options import project_command
from annai.interfaces.setup.aliases import ALIASES, add_aliases, remove_aliases
from annai.interfaces.setup.edits import BOM
from annai.interfaces.setup.entries import (
    Target,
    apply_edit,
    is_installed,
    is_set_up,
    levels,
    plan_edit,
    plan_removal,
    snippet,
    target,
    workspace,
)
from annai.interfaces.setup.json_text import line_beyond_json
from annai.interfaces.setup.programs import PROGRAMS, Level, Program
from annai.interfaces.terminal import echo, is_terminal, say, warn
from annai.text.escapes import escape_line


@click.command(cls=Command, examples=("annai setup", "annai setup claude-code --print", "annai setup --all --user"))
@click.argument("programs", nargs=-1, type=click.Choice([*PROGRAMS, "aliases"]), metavar="[PROGRAM]...")
@click.option("--all", "every", is_flag=True, help="Every program that is installed here.")
@click.option("--remove", is_flag=True, help="Remove this project from the programs again.")
@click.option("--project", "level", flag_value="project", help="Write the file of this project (the default).")
@click.option("--user", "level", flag_value="user", help="Write the file for all your projects.")
@click.option("--http", is_flag=True, help="Let the programs use the project's server, with its token.")
@click.option("--print", "only_print", is_flag=True, help="Print what would be written, and write nothing.")
@click.option("-y", "--yes", is_flag=True, help="Write without asking where a link leads out of the project.")
@project_command(server=False)
def command(
    config: Config,
    programs: tuple[str, ...],
    every: bool,
    remove: bool,
    level: Level | None,
    http: bool,
    only_print: bool,
    yes: bool,
) -> None:
    """Let an agent search this project.

    Adds `annai mcp` to the configuration file of each PROGRAM. The rest of the file stays
    the same, and a backup is made before it changes. Where a link in the project leads to
    a file outside of it, annai asks first. Without a PROGRAM, lists those that are
    installed here, and where this project is set up.

    `annai setup aliases` lets annai answer to the names of two predecessors, mdvec and
    search-docs.
    """
    if every and programs:
        raise click.UsageError("Name programs, or use --all.")
    if remove and (http or only_print):
        raise click.UsageError("--remove goes with neither --http nor --print.")
    if "aliases" in programs:
        _set_aliases(is_alone=len(programs) == 1, remove=remove)
        return
    if not (every or programs):
        if remove or http or only_print or level:
            raise click.UsageError("Name a program, or use --all.")
        _list(config)
        return
    if not remove:
        config = _with_folder(config)
    chosen = [PROGRAMS[name] for name in programs] or [
        each for each in PROGRAMS.values() if remove or (is_installed(each) and _takes(config, each, level, http=http))
    ]
    if not chosen:
        raise ConfigError("No program that annai knows is installed here", "name one, and its file is written anyway.")
    if remove:
        _for_each(chosen, lambda program: _remove(config, program, level, is_quiet=every, yes=yes))
    else:
        _for_each(chosen, lambda program: _add(config, program, level, http=http, only_print=only_print, yes=yes))


def _for_each(programs: Sequence[Program], work: Callable[[Program], None]) -> None:
    """Change the files of all; one that cannot be changed does not keep the others from it."""
    failures = 0
    for program in programs:
        try:
            work(program)
        except ConfigError as error:
            if len(programs) == 1:
                raise
            warn(str(error))
            failures += 1
    if failures:
        raise click.exceptions.Exit(FAILED)


def _set_aliases(*, is_alone: bool, remove: bool) -> None:
    if not is_alone:
        raise click.UsageError("Set up aliases by themselves: annai setup aliases.")
    names = " and ".join(ALIASES)
    if remove:
        say("\n".join(f"Removed {place}." for place in remove_aliases()) or f"annai does not answer to {names}.")
    else:
        say("\n".join(f"Wrote {place}." for place in add_aliases()) or f"annai already answers to {names}.")


def _with_folder(config: Config) -> Config:
    """The project; where it would be the home folder or the whole file system, the folder that the user names."""
    from annai.engine import check_root  # not before it is needed

    try:
        check_root(config)
    except ConfigError as error:
        if not is_terminal(sys.stdin):
            raise
        warn(error)
        folder = click.prompt("Folder of documents", err=True)
        return load_config(docs_dir=Path(folder).expanduser())
    return config


def _takes(config: Config, program: Program, level: Level | None, *, http: bool) -> bool:
    """Whether a program that was not named has a file for what was asked."""
    return (level is None or level in levels(config, program)) and bool(program.url_key or not http)


def _add(config: Config, program: Program, level: Level | None, *, http: bool, only_print: bool, yes: bool) -> None:
    if http and not program.url_key:
        raise ConfigError(f"{program.title} starts its servers itself", "leave out --http.")
    if not levels(config, program):
        echo(snippet(Target(config, program, "user", workspace(config), http)), nl=False)
        echo(f"{program.title} has no file for this. {program.next_step}", err=True)
        return
    place = target(config, program, _level(config, program, level), http=http)
    if only_print:
        echo(f"{place.file}:", err=True)
        echo(snippet(place), nl=False)
        return
    edit = plan_edit(place)
    if program.rejects_comments and (line := line_beyond_json((edit.after or "").removeprefix(BOM))):
        warn(
            f"{program.title} reads no comments and no trailing commas, so it rejects all of {edit.file} because of "
            f"line {line}; remove what is not plain JSON."
        )
    if not edit.is_needed:
        say(f"{edit.file} already has this entry.")
        return
    if not _may_write(place, yes=yes):
        return
    backup = apply_edit(edit)
    say(f"Wrote {edit.file}" + (f"; the old version is in {backup.name}." if backup else "."))
    if http:
        echo("It contains the server's token: do not commit it. `annai server start` starts the server.")
    say(program.next_step)


def _may_write(place: Target, *, yes: bool) -> bool:
    """Whether the file may be written: outside of the project only if the user says so, since a clone brings links."""
    if yes or not place.leads_outside:
        return True
    where = f"A link in this project leads to {place.file}, outside of it"
    if not is_terminal(sys.stdin):
        raise ConfigError(f"{where}, so it is left as it is", "--yes writes there.")
    if click.confirm(escape_line(f"{where}. Write there?"), err=True):
        return True
    say(f"Left {place.file} as it is.")
    return False


def _remove(config: Config, program: Program, level: Level | None, *, is_quiet: bool, yes: bool) -> None:
    """Remove the project from a program's files, at one level or at all."""
    if not levels(config, program):
        if not is_quiet:
            say(f"annai changes no file of {program.title}; remove the entry where you added it.")
        return
    found = False
    for each in (level,) if level else levels(config, program):
        place = target(config, program, _level(config, program, each))
        edit = plan_removal(place)
        if not edit.is_needed:
            continue
        found = True
        if not _may_write(place, yes=yes):
            continue
        if backup := apply_edit(edit):
            say(f"Removed this project from {edit.file}; the old version is in {backup.name}.")
        else:
            say(f"Deleted {edit.file}, which had nothing else in it.")
    if not (found or is_quiet):
        say(f"{program.title} has no entry for this project.")


def _level(config: Config, program: Program, level: Level | None) -> Level:
    """The level that was asked for, or the program's usual one."""
    has = levels(config, program)
    if level == "project" and level not in has:
        raise ConfigError(f"{program.title} has no file for one project here", "use --user.")
    return level or has[0]


def _list(config: Config) -> None:
    """Say which programs are installed, and where this project is set up."""
    missing = []
    for name, program in PROGRAMS.items():
        files = []
        for level in levels(config, program):
            place = target(config, program, level)
            try:
                files += [str(place.file)] if is_set_up(place) else []
            except ConfigError as error:
                files.append(str(error))
        if files:
            echo(f"{name:15} set up in {', '.join(files)}")
        elif is_installed(program):
            echo(f"{name:15} installed, not set up")
        else:
            missing.append(name)
    if missing:
        echo(f"Not found here: {', '.join(missing)}.")
    echo("`annai setup PROGRAM` adds this project to a program, `annai setup --all` to all that are installed.")
