"""Do the examples of every help screen do what they show? Each is typed into a shell, where its files are there."""

import os
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from annai.engine import Engine
from tests.conftest import quick_config
from tests.interfaces.test_conventions import every_command

EXAMPLES = sorted({example for _, command in every_command() for example in command.examples})

NOT_RUN = {
    "annai store migrate --to postgres --url postgresql://me@host/annai": "it names a database of the reader's",
}

ENDLESS = {"annai server logs -f": "INFO", "annai mcp --http --port 8080": "Serving"}
"""What runs until Ctrl-C, and what it has printed once it runs."""

NEED_SERVER = ("annai server logs", "annai server restart", "annai server stop", "annai server status")

GUIDE = "# Guide\n\nHow do I roll back a bad deployment? With num_gpus=0.5, says error 1042.\n\n## Install it\n\n" + (
    "環境構築の方法: a token is a part of a word.\n" * 60
)


class Reader(NamedTuple):
    """A reader's home and project, and what is said in its shell."""

    project: Path
    environment: dict[str, str]

    def types(self, line: str) -> "subprocess.CompletedProcess[str]":
        """Run a line in a shell, with `y` for every question."""
        return subprocess.run(
            ["bash", "-c", line],
            cwd=self.project,
            env=self.environment,
            input="y\n" * 5,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=120,
            check=False,
        )


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    home, project, programs = tmp_path / "home", tmp_path / "project", tmp_path / "bin"
    files = {
        home / "notes" / "a.md": "# Notes\n\nMine.",
        home / "old-notes" / "a.md": "# Old notes\n\nMine.",
        home / ".config" / "mdvec" / "config.toml": "[database]\n[chunking]\nsize = 600\n",
        home / ".config" / "fish" / "completions" / "other.fish": "",
        home / ".cursor" / "mcp.json": "{}",
        project / "guide" / "setup.md": GUIDE,
        project / "glossary.md": "# Glossary\n\nThe words.",
        project / "api" / "a.md": "# API\n\nThe calls.",
        project / "docs" / "api" / "a.md": "# API\n\nThe calls.",
        project / "wiki" / "a.md": "# Wiki\n\nThe rest.",
        project / "questions.tsv": "how do I roll back?\tguide/setup.md\n",
        project / "answers.tsv": "1\tguide/setup.md\t1\n",
        project / "R.tsv": "1\tguide/setup.md\t1\n",
        project / "questions.jsonl": '{"id": "1", "text": "how do I roll back?"}\n',
        project / "Q.jsonl": '{"id": "1", "text": "how do I roll back?"}\n',
        programs / "annai": f'#!/bin/sh\nexec "{sys.executable}" -m annai "$@"\n',
        # A test has no systemd of its own; `tests/interfaces/test_conventions.py` reads what it would be told.
        programs / "systemctl": "#!/bin/sh\n",
        programs / "launchctl": "#!/bin/sh\n",
    }
    for file, text in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        file.chmod(0o755 if file.parent == programs else 0o644)
    settings = '[embedding]\nprovider = "hashing"\n[server]\nport = 0\n'
    (home / ".config" / "annai").mkdir()
    (home / ".config" / "annai" / "config.toml").write_text(settings)
    environment = os.environ | {
        "HOME": str(home),
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "VISUAL": "true",
        "BROWSER": "true",
    }
    reader = Reader(project, environment)
    yield reader
    for folder in (project, home / "notes"):
        reader.types(f"annai server stop --docs-dir '{folder}'")


def prepare(reader: Reader, example: str) -> None:
    """Do what somebody has done who comes to this example."""
    words = example.split()
    if words[1:3] != ["collection", "add"] and example != "annai import":
        with Engine(quick_config(reader.project)) as engine:
            for name in ("api", "wiki"):
                engine.add_collection(name, reader.project / name, keep_root=True)
    if example.startswith(("annai projects forget", "annai token revoke")):
        for folder in ("notes", "old-notes"):
            reader.types(f"annai search mine --docs-dir ~/{folder}; annai token add bot --docs-dir ~/{folder}")
        reader.types("annai token add alice")
    if example.startswith(NEED_SERVER):
        assert reader.types("annai server start").returncode == 0
        if "~/notes" in words:
            assert reader.types("annai server start --docs-dir ~/notes").returncode == 0
    if words[:3] == ["annai", "server", "uninstall"]:
        assert reader.types(example.replace("uninstall", "install")).returncode == 0


def free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return str(listener.getsockname()[1])


@pytest.mark.skipif(sys.platform == "win32", reason="the examples are typed into bash")
@pytest.mark.parametrize("example", [each for each in EXAMPLES if each not in NOT_RUN])
def test_an_example_can_be_run(reader: Reader, example: str) -> None:
    prepare(reader, example)
    line = example.replace("8080", free_port())
    if example in ENDLESS:
        _run_until_it_says(reader, line, ENDLESS[example])
        return
    done = reader.types(line)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), f"{done.stdout}\n{done.stderr}"


def _run_until_it_says(reader: Reader, line: str, word: str) -> None:
    with subprocess.Popen(
        shlex.split(line), cwd=reader.project, env=reader.environment, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout
            assert any(word in each for each in process.stdout)
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)
            assert process.returncode in (0, 130)
        finally:
            process.kill()


def test_what_is_not_run_is_still_an_example() -> None:
    assert {*NOT_RUN, *ENDLESS} <= {*EXAMPLES}
