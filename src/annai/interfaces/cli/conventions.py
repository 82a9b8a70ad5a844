"""What do all commands have in common? Examples in their help, a word for a typing error, and older spellings."""

from collections.abc import Sequence
from typing import Any, NoReturn

import click


class Command(click.Command):
    """A command whose help ends with examples."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **rest: Any) -> None:  # noqa: ANN401 - click's own
        super().__init__(*args, **rest)
        self.examples = examples

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        """The examples."""
        _write_examples(self.examples, formatter)


class Group(click.Group):
    """A group of such commands that knows what was probably meant."""

    command_class = Command
    group_class = type

    def __init__(self, *args: Any, examples: Sequence[str] = (), **rest: Any) -> None:  # noqa: ANN401 - click's own
        super().__init__(*args, **rest)
        self.examples = examples

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        """The examples."""
        _write_examples(self.examples, formatter)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; of one that there is not, say which was probably meant."""
        if not ctx.resilient_parsing and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            self._refuse(ctx, args[0])
        return super().resolve_command(ctx, args)

    def _refuse(self, ctx: click.Context, name: str) -> NoReturn:
        from difflib import get_close_matches  # only where something is wrong

        close = get_close_matches(name, self.list_commands(ctx), n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"`{ctx.command_path} --help` lists the commands."
        raise click.UsageError(f"There is no command {name!r}; {hint}", ctx)


class Option(click.Option):
    """An option that also has an older spelling, which works and is not shown."""

    def __init__(self, *args: Any, old: Sequence[str] = (), **rest: Any) -> None:  # noqa: ANN401 - click's own
        super().__init__(*args, **rest)
        self.old = old

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:  # noqa: ANN401 - click's own, renamed between versions
        """Let the parser know both."""
        shown = self.opts
        self.opts = [*shown, *self.old]
        try:
            super().add_to_parser(parser, ctx)
        finally:
            self.opts = shown


def _write_examples(examples: Sequence[str], formatter: click.HelpFormatter) -> None:
    if examples:
        with formatter.section("Examples"):
            for line in examples:
                formatter.write(f"{'':{formatter.current_indent}}{line}\n")
