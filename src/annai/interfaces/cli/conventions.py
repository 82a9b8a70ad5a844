"""What do all commands have in common? Examples in help, -q, -v and --color, a word for a typo, older spellings."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import click

CHATTY = (
    *("charset_normalizer", "filelock", "urllib3", "httpx", "httpx2", "httpcore", "httpcore2"),
    *("sentence_transformers", "transformers", "huggingface_hub", "torch"),
)
"""Libraries whose own words `--verbose` leaves out: they are many, and may hold what a request holds."""

# `annai --help` shows them, and so may not load the settings.
color_option = click.option("--color", type=click.Choice(["auto", "always", "never"]), help="When to use colours.")
quiet_option = click.option("-q", "--quiet", is_flag=True, help="Print results and errors, and nothing else.")
verbose_option = click.option("-v", "--verbose", is_flag=True, help="Log details and timings to standard error.")


def common_options(command: Callable[..., None]) -> Callable[..., None]:
    """Let the options that may stand before a command stand after it, too, and do what they say.

    The context keeps the colours that were asked for; a command that has none takes the option all the same.
    """

    @functools.wraps(command)
    def wrapped(color: str | None, quiet: bool, verbose: bool, **rest: Any) -> None:  # noqa: ANN401 - the command's own
        from annai.interfaces.terminal import set_quiet  # help needs none of it

        context = click.get_current_context()
        outer = context.obj or {}
        context.obj = outer | {"color": color or outer.get("color")}
        set_quiet(quiet := quiet or outer.get("quiet", False))
        _set_up_logging(verbose or outer.get("verbose", False), quiet=quiet)
        command(**rest)

    return color_option(quiet_option(verbose_option(wrapped)))


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


def _set_up_logging(verbose: bool, *, quiet: bool) -> None:
    """Send logs to standard error: warnings, everything when asked, or only errors."""
    import logging
    import sys

    from annai.text.escapes import LogFormatter

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogFormatter("%(levelname)s %(message)s" if verbose else "annai: %(message)s"))
    level = logging.DEBUG if verbose else logging.ERROR if quiet else logging.WARNING
    logging.basicConfig(handlers=[handler], level=level, force=True)
    for chatty in CHATTY:
        logging.getLogger(chatty).setLevel(logging.WARNING)
