"""What do tests share? Small projects made of real files, and the program run as a user runs it."""

import contextlib
import io
import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from annai.config import Config, find_settings, load_config, override, user_folder
from annai.engine import Engine
from annai.interfaces.cli import run
from annai.state import locate
from annai.stores.sqlite.database import _connect
from annai.trust import TrustStore

# Machines are shared: how long an example takes says nothing about the code.
settings.register_profile("annai", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("annai")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A job in the background ignores Ctrl-C, and so would every program that a test starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)


EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture(autouse=True, scope="session")
def _own_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """All tests of a process keep their state in one place, which none of them share with the user."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("ANNAI_STATE", raising=False)
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.delenv("ANNAI_CONFIG", raising=False)
    monkeypatch.delenv("ANNAI_SERVER", raising=False)
    monkeypatch.delenv("ANNAI_TOKEN", raising=False)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """An empty folder for documents."""
    folder = tmp_path / "docs"
    folder.mkdir()
    return folder


@pytest.fixture
def write(docs: Path) -> Callable[[str, str], Path]:
    """Write a file below `docs`."""

    def write(path: str, text: str) -> Path:
        file = docs / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    return write


def trust(folder: Path) -> None:
    """Trust what the settings of a folder ask for, as `annai trust --yes` does."""
    found = find_settings(docs_dir=folder)
    TrustStore(user_folder()).trust_file(found.key, found.digest)


def state_of(folder: Path) -> Path:
    """Where the state of a project is."""
    return locate(folder.resolve())


def edit_index(folder: Path, *statements: str) -> None:
    """Change the index of a project behind annai's back, with checksums that are right."""
    connection = _connect(str(state_of(folder) / "index.sqlite"))
    for statement in statements:
        connection.execute(statement)
    connection.close()


def quick_config(folder: Path) -> Config:
    """The folder's settings with the embedder that needs no model."""
    return override(load_config(docs_dir=folder), "embedding", provider="hashing")


@pytest.fixture
def engine(docs: Path) -> Iterator[Engine]:
    """`docs` as a project, with the quick embedder."""
    with Engine(quick_config(docs)) as engine:
        yield engine


class Annai:
    """The program itself, in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(
        self, *arguments: str, code: int | None = 0, stdin: str = "", environment: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run `annai` in the folder, and expect this exit code; None for any."""
        done = subprocess.run(
            [sys.executable, "-m", "annai", *arguments],
            cwd=self.folder,
            env=os.environ | {"COLUMNS": "100"} | (environment or {}),
            input=stdin,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=120,
            check=False,
        )
        assert code is None or done.returncode == code, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr
        return done


class AnnaiHere(Annai):
    """The program in this process: quicker, where a process of its own is not the point."""

    def __call__(
        self, *arguments: str, code: int | None = 0, stdin: str = "", environment: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run `annai` in the folder, and expect this exit code; None for any."""
        assert not stdin
        assert not environment
        out, err, root = io.StringIO(), io.StringIO(), logging.getLogger()
        handlers, level = [*root.handlers], root.level
        with contextlib.chdir(self.folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                ended = run(list(arguments))
            finally:
                root.handlers[:] = handlers
                root.setLevel(level)
        assert code is None or ended == code, f"exit {ended}\n{out.getvalue()}\n{err.getvalue()}"
        return subprocess.CompletedProcess(arguments, ended, out.getvalue(), err.getvalue())


def results(annai: Annai, *arguments: str) -> list[dict[str, object]]:
    """The results of a search, as its JSON has them."""
    answer = json.loads(annai("search", *arguments, "--format", "json", code=None).stdout)
    return list(answer["results"])


@pytest.fixture
def annai(docs: Path) -> Annai:
    """The program, run in `docs` with the quick embedder."""
    (docs / "annai.toml").write_text('[embedding]\nprovider = "hashing"\n')
    return Annai(docs)


@pytest.fixture
def annai_here(annai: Annai) -> Annai:
    """The same in this process."""
    return AnnaiHere(annai.folder)
