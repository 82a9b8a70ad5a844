"""Does the command line behave as people expect of one? Every command, every option, in a shell and in a pipe."""

import json
import os
import plistlib
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click
import pytest

from annai.config import load_config
from annai.interfaces.cli import COMMANDS, cli
from annai.interfaces.cli.conventions import Command, Group
from annai.interfaces.cli.server import log_lines
from annai.interfaces.cli.service import service_of
from annai.interfaces.render.units import counted, time_ago
from tests.conftest import Annai, state_of

Write = Callable[[str, str], Path]

ROOT = Path(__file__).parent.parent.parent


def every_command() -> Iterator[tuple[str, Command | Group]]:
    def walk(command: click.Command, path: str) -> Iterator[tuple[str, Command | Group]]:
        assert isinstance(command, Command | Group), path
        yield path, command
        if isinstance(command, Group):
            context = click.Context(command, **cli.context_settings)
            for name in command.list_commands(context):
                inner = command.get_command(context, name)
                assert inner
                yield from walk(inner, f"{path} {name}")

    return walk(cli, "annai")


def test_every_option_is_described() -> None:
    for path, command in every_command():
        for each in command.params:
            assert not isinstance(each, click.Option) or each.hidden or each.help, f"{path} {each.opts} says nothing"


def test_every_help_has_two_examples_that_can_be_typed() -> None:
    commands = {tuple(path.split()): command for path, command in every_command()}
    assert len(commands) > 40
    # Commands remember which options are for help.
    root = click.Context(cli, **cli.context_settings)
    for path, command in commands.items():
        assert len(command.examples) >= 2, path
        for example in command.examples:
            typed = re.search(r"annai .*?(?= >|\)|$)", example)
            assert typed, example
            words = shlex.split(typed[0])
            own = max((each for each in commands if words[: len(each)] == [*each]), key=len)
            assert own[: len(path)] == path, f"{example} is no example of {path}"
            rest = words[len(own) :]
            if rest != ["--help"] and not isinstance(commands[own], Group):
                # Raises what a user would be told.
                commands[own].make_context(own[-1], rest, parent=root)


def test_a_short_option_means_one_thing() -> None:
    meanings: dict[str, set[str]] = {}
    for _, command in every_command():
        for parameter in command.params:
            if isinstance(parameter, click.Option) and not parameter.hidden:
                long = [each for each in parameter.opts if each.startswith("--")]
                for short in set(parameter.opts) - set(long):
                    meanings.setdefault(short, set()).add(long[0])
    assert {short: names for short, names in meanings.items() if len(names) > 1} == {}
    assert meanings["-n"] == {"--limit"}
    assert {"-q", "-v", "-V", "-c", "-f", "-y"} <= set(meanings)


def test_what_is_listed_without_loading_commands_is_what_they_say() -> None:
    commands = dict(every_command())
    for name, (_, summary) in COMMANDS.items():
        if summary:
            assert commands[f"annai {name}"].get_short_help_str(200) == summary


def test_help_fits_eighty_columns() -> None:
    """docs/commands.md is the golden file: tests/test_docs.py compares it with the program."""
    text = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    assert [line for line in text.splitlines() if len(line) > 80] == []


def test_help_loads_no_command(tmp_path: Path) -> None:
    code = "from annai.interfaces.cli import run\nrun(['--help'])\nimport sys\nprint('loaded', *sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    loaded = done.stdout.partition("\nloaded ")[2].split()
    assert {name for name in loaded if name.startswith("annai")} == {
        *("annai", "annai.errors", "annai.interfaces", "annai.interfaces.cli", "annai.interfaces.cli.conventions"),
    }
    assert not {"logging", "numpy", "rich"} & {*loaded}


@pytest.fixture
def project(annai_here: Annai, write: Write) -> Annai:
    write("guide/roll back.md", "# Rolling back\n\nHow do I roll back a deployment? With care -really.")
    write("案内/手順.md", "# 手順\n\n環境構築の方法")
    annai_here("import")
    return annai_here


def test_a_question_needs_no_quotes_and_may_begin_with_a_dash(project: Annai) -> None:
    assert "guide/roll back.md:3" in project("search", "how", "do", "I", "roll", "back", "-n", "1").stdout
    told = json.loads(project("search", "--json", "--", "deployment", "-手順").stdout)
    assert (told["query"], told["excluded"]) == ("deployment -手順", ["手順"])
    refused = project("search", "deployment", "-zue", code=2).stderr
    assert "There is no option -z." in refused
    assert "annai search -- routing -vue" in refused
    assert "Did you mean '--limit'?" in project("search", "x", "--limti", "3", code=2).stderr
    assert "Missing argument 'QUERY" in project("search", code=2).stderr
    both = project("search", "x", "--json", "--format", "files", code=2).stderr
    assert "--json means --format json" in both


def test_a_question_comes_from_standard_input(project: Annai) -> None:
    annai = Annai(project.folder)
    assert annai("search", "-", "--format", "files", stdin="環境構築の方法\n").stdout.startswith("案内/手順.md:")
    assert "annai: " in annai("search", "-", stdin="", code=2).stderr


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (["serch", "x"], "There is no command 'serch'; did you mean 'search'?"),
        (["server", "stauts"], "There is no command 'stauts'; did you mean 'status'?"),
        (["zzz"], "There is no command 'zzz'; `annai --help` lists the commands."),
    ],
)
def test_a_typing_error_is_told_what_was_meant(annai_here: Annai, typed: list[str], meant: str) -> None:
    assert meant in annai_here(*typed, code=2).stderr


def test_what_may_stand_before_a_command_may_stand_after_it() -> None:
    common = {option for parameter in cli.params for option in parameter.opts} & {"-q", "-v", "--color"}
    for path, command in every_command():
        if not isinstance(command, Group):
            assert common <= {option for parameter in command.params for option in parameter.opts}, path


def test_quiet_says_nothing_where_nothing_is_wrong(project: Annai) -> None:
    for typed in (("trust", "-q"), ("init", "--force", "-q"), ("store", "vacuum", "-q"), ("store", "check", "-q")):
        done = project(*typed)
        assert (done.stdout, done.stderr) == ("", ""), typed


def test_what_was_done_is_told_as_json_too(project: Annai, write: Write) -> None:
    write("new.md", "# New\n\nfresh")
    told = json.loads(project("import", "--json").stdout)
    assert (told["added"], told["unchanged"], told["failed"]) == (1, 2, 0)
    assert json.loads(project("index", "rebuild", "--force", "--json", "new.md").stdout)["updated"] == 1
    assert json.loads(project("store", "check", "--json").stdout) == {"faults": [], "repaired": 0}


def test_quiet_leaves_results_and_errors(project: Annai) -> None:
    for quiet in (("-q", "import"), ("import", "--quiet"), ("collection", "disable", "root", "-q")):
        done = project(*quiet, code=None)
        assert done.stdout == ""
        assert done.stderr == "" or done.returncode
    assert project("search", "-q", "zzzz qqqq", "--mode", "keyword", code=1).stderr == ""
    assert "Nothing found" in project("search", "zzzz qqqq", "--mode", "keyword", code=1).stderr
    assert "annai: There is no collection 'nope'" in project("-q", "search", "x", "-c", "nope", code=2).stderr


def test_colour_can_be_asked_for_and_refused(project: Annai, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b[" in project("search", "roll", "back", "--color", "always").stdout
    assert "\x1b[" in project("--color", "always", "search", "roll", "back").stdout
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" not in project("search", "roll", "back", "--color", "never").stdout


def test_importing_again_brings_up_to_date_and_old_spellings_work(project: Annai, write: Write) -> None:
    write("new.md", "# New\n\nfresh")
    assert "added 1, unchanged 2" in project("import").stdout
    project("collection", "add", "guide", "-s", "guide", "-d", "Guides")
    assert project("status", "-n", "guide").stdout == project("status", "-c", "guide").stdout
    assert "name one with `-c NAME`" in project("import", code=2).stderr
    assert "added 1" in project("import", "--name", "guide").stdout
    assert "Missing argument 'NAME'" in project("collection", "enable", code=2).stderr
    assert project("collection", "disable", "-n", "guide").stdout.startswith("Disabled guide.")
    assert "-n" not in project("status", "--help").stdout.split()


COMPLETE = """
eval "$(annai completion bash)"
complete_words() {
  COMP_WORDS=("$@") COMP_CWORD=$(( $# - 1 )) COMPREPLY=()
  _annai_completion annai
  printf '%s\\n' "${COMPREPLY[@]}"
}
complete_words annai se
complete_words annai get gu
complete_words annai search 手順 --path 案
complete_words annai status -c r
"""


Shell = Callable[..., list[str]]


@pytest.fixture
def shell(project: Annai, write: Write, tmp_path: Path) -> Shell:
    """Run a script in a shell that finds `annai`; what it prints, line by line."""
    write("x, y.md", "# Comma\n\nname")
    project("import")
    program = tmp_path / "bin" / "annai"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m annai "$@"\n')
    program.chmod(0o700)
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "LC_ALL": "C.UTF-8", "TERM": "dumb"}

    def run(*command: str) -> list[str]:
        done = subprocess.run(
            command, cwd=project.folder, env=environment, capture_output=True, encoding="utf-8", check=True, timeout=60
        )
        return done.stdout.splitlines()

    return run


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
def test_bash_completes_commands_documents_and_collections(shell: Shell) -> None:
    assert shell("bash", "--norc", "-c", COMPLETE) == [
        *("search", "server", "setup"),
        *("guide/roll\\ back.md", "案内/手順.md", "root"),
    ]


@pytest.mark.skipif(not shutil.which("fish"), reason="needs fish: apt-get install fish")
def test_fish_completes_commands_documents_and_collections(shell: Shell) -> None:
    asked = "; ".join(f"complete -C '{typed}'" for typed in ("annai get x", "annai get 案", "annai status -c r"))
    assert shell("fish", "--no-config", "-c", f"annai completion fish | source; {asked}; complete -C 'annai ge'") == [
        *("x, y.md", "案内/手順.md", "root"),
        "get\tShow documents, sections or lines.",
    ]


TAB = """
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell 'PS1=; autoload -U compinit && compinit -u -D; eval "$(annai completion zsh)"; echo REA""DY'
zpty -r shell shown '*READY*'
press_tab() {
  zpty -n -w shell "$1"$'\t'
  zpty -r shell shown "*$2*" && print -r -- "$2"
  zpty -n -w shell $'\\C-a\\C-k'
}
press_tab 'annai sea' 'annai search'
press_tab 'annai get x' 'annai get x,\\ y.md'
press_tab 'annai get 案' '案内/手順.md'
zpty -d shell
"""


@pytest.mark.skipif(not shutil.which("zsh"), reason="needs zsh: apt-get install zsh")
def test_zsh_completes_commands_and_documents_when_tab_is_pressed(shell: Shell) -> None:
    # It waits until each has appeared.
    assert len(shell("zsh", "-f", "-c", TAB)) == 3


def test_other_shells_are_told_which_there_are(annai_here: Annai) -> None:
    assert "'bash', 'zsh', 'fish'" in annai_here("completion", "tcsh", code=2).stderr


def test_completing_makes_no_index(annai: Annai) -> None:
    asking = {"_ANNAI_COMPLETE": "bash_complete", "COMP_WORDS": "annai get ", "COMP_CWORD": "2"}
    assert annai(environment=asking).stdout == "\n"
    assert not state_of(annai.folder).exists()


def test_a_log_is_followed_through_its_rotation(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("one\ntwo\nthree\n", encoding="utf-8")
    assert [*log_lines(log, 2, follow=False)] == ["two\n", "three\n"]
    lines = log_lines(log, 1, follow=True)
    assert next(lines) == "three\n"
    with log.open("a", encoding="utf-8") as stream:
        stream.write("四\n")
    assert next(lines) == "四\n"
    log.rename(tmp_path / "server.log.1")
    log.write_text("five\n", encoding="utf-8")
    assert next(lines) == "five\n"


def test_the_service_is_the_systems_own_kind(tmp_path: Path) -> None:
    root = tmp_path / '手順 "50%" $HOME'
    root.mkdir()
    config = load_config(docs_dir=root)
    command = [sys.executable, "-m", "annai", "--log", str(root / "a.log")]
    linux = service_of(config, command, "linux")
    assert linux.file.parent == Path.home() / ".config" / "systemd" / "user"
    assert linux.file.name.isascii()
    assert f'WorkingDirectory={tmp_path}/手順 "50%%" $HOME\n' in linux.content
    assert '手順 \\"50%%\\" $$HOME/a.log"' in linux.content
    mac = service_of(config, command, "darwin")
    told = plistlib.loads(mac.content.encode())
    assert (told["Label"], told["ProgramArguments"]) == (mac.file.stem, command)
    assert mac.file.parent == Path.home() / "Library" / "LaunchAgents"


@pytest.mark.skipif(sys.platform != "linux", reason="it is of systemd")
def test_a_service_is_installed_and_removed(annai_here: Annai, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a systemctl that only writes down what it is told: a test has no systemd of its own."""
    told = tmp_path / "told"
    program = tmp_path / "bin" / "systemctl"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$@" >> "{told}"\n')
    program.chmod(0o700)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    shown = annai_here("server", "install", "--print")
    assert not told.exists()
    file = Path(shown.stderr.removesuffix(":\n"))
    annai_here("server", "install")
    assert file.read_text(encoding="utf-8") == shown.stdout
    annai_here("server", "uninstall")
    assert not file.exists()
    assert told.read_text().splitlines() == [
        "--user daemon-reload",
        f"--user enable --now {file.name}",
        f"--user disable --now {file.name}",
        "--user daemon-reload",
    ]
    program.write_text("#!/bin/sh\necho 'no bus here.' >&2\nexit 1\n")
    failed = annai_here("server", "install", code=2).stderr
    assert "`systemctl --user daemon-reload` failed (no bus here). Nothing was installed" in failed
    assert not file.exists()


@pytest.mark.parametrize(
    ("ago", "said"),
    [
        (timedelta(seconds=5), "just now"),
        (timedelta(seconds=-5), "just now"),
        (timedelta(minutes=1, seconds=30), "1 minute ago"),
        (timedelta(minutes=59), "59 minutes ago"),
        (timedelta(hours=23, minutes=59), "23 hours ago"),
        (timedelta(days=1, hours=3), "1 day ago"),
        (timedelta(days=29), "29 days ago"),
    ],
)
def test_times_are_told_as_people_tell_them(ago: timedelta, said: str) -> None:
    assert time_ago((datetime.now(UTC) - ago).isoformat()) == said


def test_long_ago_is_a_date_and_one_is_singular() -> None:
    assert time_ago("2020-05-05T12:00:00+00:00") == "2020-05-05"
    assert time_ago("") == ""
    assert [counted(number, "result") for number in (0, 1, 1000)] == ["0 results", "1 result", "1,000 results"]
