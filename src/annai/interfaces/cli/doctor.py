"""`annai doctor`: what is wrong here, and how is it mended?"""

from dataclasses import asdict
from pathlib import Path

import click

from annai.interfaces.cli.conventions import Command, common_options
from annai.interfaces.cli.options import config_option, docs_dir_option, json_option
from annai.interfaces.doctor import Finding, examine
from annai.interfaces.render.records import print_json
from annai.interfaces.terminal import echo, is_quiet


@click.command(cls=Command, examples=("annai doctor", "annai doctor --json", "annai doctor -q"))
@json_option
@docs_dir_option
@config_option
@common_options
@click.pass_context
def command(context: click.Context, as_json: bool, config: Path | None, docs_dir: Path | None) -> None:
    """Check the installation, this project and its index.

    Each line is ok, warn or fail, with what to do; -q leaves out what is ok. The exit
    status is 1 if anything fails. The report holds no secrets and nothing of your
    documents: it is what a bug report needs.
    """
    findings = []
    for finding in examine(config=config or (context.obj or {}).get("config"), docs_dir=docs_dir):
        findings.append(finding)
        if not as_json and not (is_quiet() and finding.state == "ok"):
            _print(finding)
    if as_json:
        print_json([asdict(each) for each in findings])
    context.exit(any(each.state == "fail" for each in findings))


def _print(finding: Finding) -> None:
    echo(f"{finding.state:<4}  {finding.check:<9} {finding.text}")
    if finding.fix:
        echo(f"      {'':<9} → {finding.fix}")
