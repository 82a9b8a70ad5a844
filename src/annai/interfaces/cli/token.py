"""`annai token …`: who may use this project's server, and for what."""

import getpass

import click

from annai.config import Config
from annai.errors import CollectionError
from annai.interfaces.cli.conventions import Group
from annai.interfaces.cli.options import collection_option, format_option, project_command
from annai.interfaces.render.records import print_json
from annai.interfaces.render.table import print_table
from annai.interfaces.render.units import time_ago
from annai.interfaces.terminal import echo, say
from annai.opening import open_project
from annai.serving.daemon import required_token
from annai.serving.tokens import TokenFile
from annai.types import IMPLICIT_COLLECTION
from annai.values import suggest

_name = click.argument("name", metavar="NAME")


@click.group(cls=Group, examples=("annai token add alice", "annai token ls"))
def command() -> None:
    """Let others use this project's server.

    Each token has a name, may only read or also change the index, and is for all
    collections or some. They are kept as hashes in your own settings folder, on the
    machine of the server; a running server follows every change at once.
    """


@command.command("add", examples=("annai token add alice", "annai token add bot -c wiki -c api"))
@_name
@click.option("--admin", is_flag=True, help="Let it change the index too; without, it can only read.")
@collection_option("Only for this collection; repeatable.", multiple=True)
@project_command(server=False)
def add(config: Config, name: str, admin: bool, names: tuple[str, ...]) -> None:
    """Make a token, and print it: it is shown this once."""
    if names:
        with open_project(config) as project:
            known = [*(each.name for each in project.list_collections()), IMPLICIT_COLLECTION]
        if unknown := next((each for each in names if each not in known), None):
            raise CollectionError(f"There is no collection {unknown!r}", suggest(unknown, known))
    token = TokenFile(config).add(name, "admin" if admin else "read", names)
    _note(config, "token_add", {"name": name, "access": "admin" if admin else "read", "collections": names})
    echo(token)
    can = "read and change" if admin else "read"
    echo(f"It can {can} {', '.join(names) or 'all collections'}, and is shown this once: keep it safe.", err=True)
    echo("Clients send it as `Authorization: Bearer …`; annai itself takes it from ANNAI_TOKEN.", err=True)


@command.command("owner", examples=("annai token owner", "annai token owner --docs-dir ~/notes"))
@project_command(server=False)
def owner(config: Config) -> None:
    """Print the token of the project's owner, which may do everything.

    annai's own commands find it by themselves. Give others a token of their own.
    """
    echo(required_token(config))


@command.command("ls", examples=("annai token ls", "annai token ls --json"))
@format_option()
@project_command(server=False)
def ls(config: Config, form: str | None) -> None:
    """List the tokens: names and what they are for, never themselves."""
    tokens = TokenFile(config).tokens()
    if (form or config.display.default_format) == "json":
        print_json(
            [
                {
                    "name": each.name,
                    "access": each.access,
                    "collections": each.collections,
                    "created_at": each.created_at,
                }
                for each in tokens
            ]
        )
    elif not tokens:
        echo("There are no tokens; `annai token add NAME` makes one.", err=True)
    else:
        rows = [
            (each.name, each.access, ", ".join(each.collections) or "all", time_ago(each.created_at)) for each in tokens
        ]
        print_table(("name", "access", "collections", "made"), rows, config)


@command.command("revoke", examples=("annai token revoke alice", "annai token revoke bot --docs-dir ~/notes"))
@_name
@project_command(server=False)
def revoke(config: Config, name: str) -> None:
    """Make a token worthless at once."""
    TokenFile(config).revoke(name)
    _note(config, "token_revoke", {"name": name})
    say(f"Revoked {name}.")


def _note(config: Config, action: str, arguments: dict[str, object]) -> None:
    """Note the change in the server's audit log, if there is one already."""
    if config.audit_path and config.audit_path.exists():
        from annai.interfaces.audit import Audit  # most projects have none

        audit = Audit(config.audit_path)
        audit.note(f"{getpass.getuser()} (command line)", action, arguments)
        audit.close()
