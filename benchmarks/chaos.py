"""Does an index survive what happens to it? Kill, freeze, fill the disk, move the clock, delete the index, edit files.

    python benchmarks/chaos.py [--minutes 10] [--seed N] [--steps N] [--without disk,clock] [--engine chroma]
                               [--older CHECKOUT]

A real server and real command lines work on a folder while all of that happens at random. The seed decides what is
done; what it meets depends on the machine, so a second run with it is alike and not the same. Then everything is
stopped, the index is brought up to date, and it must hold and answer the same as a new index of the same folder. The
disk is a small tmpfs, which needs the right to mount; the clock is moved by a library, which needs a C compiler: what
is not there is left out, and said. With --engine, another store's folder is damaged too (lancedb, chroma), or its
server restarted (postgres); with --older, another version of annai works beside this one, on the same folder and state.
Exit code 1 means that something was lost or went wrong.
"""

import argparse
import json
import os
import random
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

import apsw
import psutil

from annai.answers import Mode
from annai.config import load_config
from annai.engine import Engine
from annai.errors import AnnaiError, StoreError
from annai.state import locate
from annai.stores.sqlite import database
from annai.upkeep import maintenance

MARK = "ANNAI_CHAOS"
"""Every process that this run starts has it in its environment, with the run's own value: so none is left behind."""

NO_FILE = ""
"""The name of the index file where a server has it."""

DISK_MB = 48
COMMANDS_AT_ONCE = 4
OLDER_SHARE = 0.3
"""Of the commands and servers, those of another version, if there is one."""

MOST_FROZEN_SECONDS = 3.0
HUNG_SECONDS = 150.0
"""A command that takes longer waits for nothing that could still come."""

FIRST_FILES = 280
MOST_FILES = 400

WORDS = (
    *"apple banana cherry deploy rollback token refresh server index query section folder window kernel socket".split(),
    *"auth login session cache vector keyword search rebuild import trust schema backup restore retry queue".split(),
    *"認証 設定 環境 構築 検索 索引 文書 送料 料金 手順 障害 復旧 更新 削除 監視 権限 期限 証明書".split(),
)
QUERIES = (
    *WORDS[::3],
    "how do I roll back a deploy",
    "環境構築の手順",
    "restore the backup",
    "証明書の更新",
    "refresh token",
)

SHIFTS = (-2 * 3600, 24 * 3600, -24 * 3600, -30 * 24 * 3600, 600, 0)
"""Seconds by which the clock is wrong."""

CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long shift(void) {
    char text[32] = {0};
    const char *name = getenv("ANNAI_CHAOS_CLOCK");
    int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return 0;
    ssize_t size = read(file, text, sizeof text - 1);
    close(file);
    return size > 0 ? atol(text) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, now);
    if (!result && clock == CLOCK_REALTIME) now->tv_sec += shift();
    return result;
}

int gettimeofday(struct timeval *now, void *zone) {
    struct timespec exact;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (now) *now = exact.tv_sec;
    return exact.tv_sec;
}
"""


def main() -> None:
    """Do it all, and print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--steps", type=int, default=sys.maxsize, help="end after this many steps")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000))
    parser.add_argument("--without", default="", help="leave out: disk, clock, index, freeze, kill, quiet")
    parser.add_argument("--engine", default="sqlite", choices=["sqlite", "lancedb", "chroma", "postgres"])
    parser.add_argument("--older", type=Path, help="a checkout of another version, with its .venv")
    options = parser.parse_args()
    print(f"seed {options.seed}, {options.engine}")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="annai-chaos-"))).resolve()
        left_out = {each: "by --without" for each in options.without.split(",") if each}
        if "disk" not in left_out and not stack.enter_context(small_disk(folder / "disk")):
            left_out["disk"] = "mounting a tmpfs is not allowed here"
        chance = random.Random(options.seed)  # noqa: S311 - the seed makes a run what it is
        chaos = stack.enter_context(Chaos(folder, chance, left_out, options.older))
        if options.engine == "postgres":
            chaos.use_postgres(stack)
        elif options.engine != "sqlite":
            chaos.use_engine(options.engine)
        deadline = time.monotonic() + 60 * options.minutes
        steps = 0
        while steps < options.steps and time.monotonic() < deadline:
            chaos.step()
            steps += 1
        chaos.calm_down()
        differences = compare(chaos)
    report(chaos, steps, differences)
    sys.exit(1 if chaos.faults or differences else 0)


@dataclass
class Running:
    """A process that this run started."""

    process: subprocess.Popen[str]
    name: str
    is_older: bool = False
    """Whether it is the other version's: what it says is not this one's fault."""
    started: float = field(default_factory=time.monotonic)
    frozen_until: float = 0.0
    was_killed: bool = False


class Chaos:
    """A folder, the processes that work on it, and what is done to both."""

    def __init__(
        self, folder: Path, chance: random.Random, left_out: dict[str, str], older: Path | None = None
    ) -> None:
        self.left_out = left_out | ({} if older else {"another version": "--older names none"})
        self._older = older
        self.chance = chance
        self.tree = folder / "disk" / "tree"
        self.aside = folder / "aside"
        self.home = folder / "home"
        self.own_settings = self.home / "annai" / "config.toml"
        self.done: Counter[str] = Counter()
        self.ended: Counter[str] = Counter()
        self.faults: list[str] = []
        self._mark = secrets.token_hex(8)
        self._clock = folder / "clock"
        self._commands: list[Running] = []
        self._frozen_helpers: dict[psutil.Process, float] = {}
        """Processes that ours started and that are stopped, and until when."""
        self.index_name = "index.sqlite"
        self._server: Running | None = None
        self._output = folder / "output"
        self._numbers = iter(range(10**9))
        for each in (self.tree, self.aside, self.home, self._output):
            each.mkdir(parents=True)
        self._clock.write_text("0")
        for _ in range(FIRST_FILES):
            self._write(self._new_file())
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith("ANNAI_")}
        self.environment |= {"HOME": str(self.home), "XDG_CONFIG_HOME": str(self.home), MARK: self._mark}
        # On the disk that gets full.
        self.environment["XDG_STATE_HOME"] = str(folder / "disk" / "state")
        self.state = locate(self.tree, self.environment)
        if "clock" not in left_out:
            library = shifted_clock(folder)
            self.environment |= {"LD_PRELOAD": str(library), "ANNAI_CHAOS_CLOCK": str(self._clock)} if library else {}
            self.left_out |= {} if library else {"clock": "there is no C compiler"}
        actions: list[tuple[int, str, Callable[[], object]]] = [
            (12, "edit", self.edit),
            (4, "create", self.create),
            (4, "rename", self.rename),
            (4, "delete", self.delete),
            (2, "rename_folder", self.rename_folder),
            (3, "quiet", self.edit_quietly),
            (12, "search", lambda: self.command("search", chance.choice(QUERIES), "--format", "json")),
            (5, "import", lambda: self.command("import", "-m", chance.choice(["update", "update", "replace"]))),
            (2, "rebuild", lambda: self.command("index", "rebuild", *chance.choice([(), ("--force",)]))),
            (3, "status", lambda: self.command("status", "--format", "json")),
            (2, "check", lambda: self.command("store", "check")),
            (6, "server", self.start_server),
            (2, "stop", lambda: self.command("server", "stop")),
            (6, "kill", self.kill),
            (5, "freeze", self.freeze),
            (3, "index", self.lose_index),
            (2, "disk", self.fill_disk),
            (3, "clock", self.move_clock),
        ]
        self._actions = [each for each in actions if each[1] not in left_out]

    def use_engine(self, engine: str) -> None:
        """Keep the index beside another engine, whose folder is damaged from now on."""
        self._set_store(f'engine = "{engine}"')
        self.index_name = f"index.{engine}.sqlite"
        self._actions.append((3, "engine", self.damage_engine))

    def use_postgres(self, stack: ExitStack) -> None:
        """Keep the index in a PostgreSQL, which is restarted from now on, whoever works with it."""
        sys.path.insert(0, str(Path(__file__).parents[1]))
        from tests.postgresql import running_cluster

        cluster = stack.enter_context(running_cluster())
        cluster.administer("CREATE ROLE annai LOGIN PASSWORD 'annai'")
        for name in ("annai", "fresh"):
            cluster.administer(f"CREATE DATABASE {name} OWNER annai")
            cluster.administer("CREATE EXTENSION vector", database=name)
        self.index_name = NO_FILE
        self._set_store(f'engine = "postgres"\nurl = "{cluster.url("annai", "annai", "annai")}"\nlease_seconds = 5')
        modes = ("fast", "fast", "immediate")
        restart = lambda: cluster.control("restart", "-m", self.chance.choice(modes))  # noqa: E731
        self._actions = [each for each in self._actions if each[1] not in ("index", "disk")]
        self._actions.append((2, "postgres", restart))
        stack.callback(self.end_everything)

    def _set_store(self, settings: str) -> None:
        """As the user's own settings: those of the folder would wait for trust."""
        self.own_settings.parent.mkdir()
        self.own_settings.write_text(f"[store]\n{settings}\n")

    def __enter__(self) -> "Chaos":
        return self

    def __exit__(self, *_: object) -> None:
        self.end_everything()

    def step(self) -> None:
        """Do one thing, whatever runs meanwhile."""
        weights = [weight for weight, _, _ in self._actions]
        _, name, action = self.chance.choices(self._actions, weights)[0]
        with suppress(FileNotFoundError, FileExistsError):
            if action() is not False:
                self.done[name] += 1
        self.look_after()
        time.sleep(self.chance.uniform(0.01, 0.25))

    # What happens to files

    def edit(self) -> None:
        """Write other text into a file, in place or by replacing it."""
        self._write(self._any_file(), replace=self.chance.random() < 0.5)

    def edit_quietly(self) -> None:
        """Change a file without changing its size and its time, as some programs do."""
        file = self._any_file()
        status, text = file.stat(), file.read_bytes()
        letters = bytes(each ^ 1 if 0x61 <= each <= 0x79 else each for each in text)
        file.write_bytes(letters)
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))

    def create(self) -> bool:
        """Write a file that was not there."""
        if len(self._files()) >= MOST_FILES:
            return False
        self._write(self._new_file())
        return True

    def rename(self) -> None:
        """Give a file another name, perhaps one that another file has."""
        source = self._any_file()
        source.replace(self.chance.choice([self._new_file(), self._any_file()]))

    def delete(self) -> bool:
        """Delete a file."""
        if len(self._files()) < FIRST_FILES // 2:
            return False
        self._any_file().unlink()
        return True

    def rename_folder(self) -> None:
        """Give a folder another name."""
        folders = sorted(each for each in self.tree.glob("[!.]*") if each.is_dir())
        self.chance.choice(folders).rename(self.tree / f"folder{next(self._numbers)}")

    # What runs

    def command(self, *arguments: str) -> bool:
        """Start a command line; it ends when it ends."""
        if len(self._commands) >= COMMANDS_AT_ONCE:
            return False
        self._commands.append(self._start(arguments))
        return True

    def start_server(self) -> bool:
        """Start a server, unless one runs."""
        if self._server and self._server.process.poll() is None:
            return False
        self._server = self._start(("server", "start", "--foreground", "--port", "auto"))
        return True

    def look_after(self) -> None:
        """Let frozen processes go on, and see what became of those that ended."""
        now = time.monotonic()
        for helper in [each for each, until in self._frozen_helpers.items() if now > until]:
            del self._frozen_helpers[helper]
            with suppress(psutil.NoSuchProcess):
                helper.resume()
        for each in self._running():
            if each.frozen_until and now > each.frozen_until:
                each.frozen_until = 0.0
                self._signal(each, signal.SIGCONT)
                each.started += MOST_FROZEN_SECONDS
            elif each.process.poll() is None and each is not self._server and now - each.started > HUNG_SECONDS:
                self.faults.append(f"`annai {each.name}` did not end within {HUNG_SECONDS:.0f} seconds")
                self._kill(each)
        ended = [each for each in self._commands if each.process.poll() is not None]
        self._commands = [each for each in self._commands if each not in ended]
        if self._server and self._server.process.poll() is not None:
            ended.append(self._server)
            self._server = None
        for each in ended:
            self._judge(each)

    def kill(self) -> bool:
        """Kill a process, or one that it started."""
        if not (running := self._running()):
            return False
        target = self.chance.choice(running)
        if helper := self._helper_of(target):
            with suppress(psutil.NoSuchProcess):
                helper.kill()
            self.done["kill of a helper"] += 1
            return True
        self._kill(target)
        return True

    def freeze(self) -> bool:
        """Stop a process for a while, or one that it started."""
        if not (running := [each for each in self._running() if not each.frozen_until]):
            return False
        target = self.chance.choice(running)
        until = time.monotonic() + self.chance.uniform(0.2, MOST_FROZEN_SECONDS)
        if helper := self._helper_of(target):
            with suppress(psutil.NoSuchProcess):
                helper.suspend()
                self._frozen_helpers[helper] = until
            self.done["freeze of a helper"] += 1
            return True
        target.frozen_until = until
        self._signal(target, signal.SIGSTOP)
        return True

    def _helper_of(self, target: Running) -> psutil.Process | None:
        """A process that this one started: every other time, if there is any."""
        with suppress(psutil.NoSuchProcess):
            children = psutil.Process(target.process.pid).children(recursive=True)
            if children and self.chance.random() < 0.5:
                return self.chance.choice(children)
        return None

    # What happens to the index and to the machine

    def damage_engine(self) -> bool:
        """Do something to the files of the engine beside the index: what a bad disk does, or a careless hand."""
        folder = self.state / self.index_name.removesuffix(".sqlite")
        files = sorted(each for each in folder.rglob("*") if each.is_file())
        if not files:
            return False
        file, how = self.chance.choice(files), self.chance.choice(["cut", "overwrite", "delete", "all"])
        if how == "cut":
            os.truncate(file, self.chance.randrange(file.stat().st_size + 1))
        elif how == "overwrite":
            with file.open("r+b") as stream:
                stream.seek(self.chance.randrange(file.stat().st_size + 1))
                stream.write(self.chance.randbytes(self.chance.randrange(1, 5_000)))
        elif how == "delete":
            file.unlink()
        else:
            shutil.rmtree(folder.rename(self.tree.parent / f"gone{next(self._numbers)}"), ignore_errors=True)
        self.done[f"engine: {how}"] += 1
        return True

    def lose_index(self) -> None:
        """Delete the index, or annai's whole folder, or put an older state in its place."""
        state = self.state
        what = self.chance.choice(["index", "index", "folder", "older", "older"])
        if what == "index":
            for file in sorted(state.glob(f"{self.index_name}*")):
                file.unlink(missing_ok=True)
        elif what == "folder" or not (self.aside / self.index_name).exists():
            shutil.rmtree(state.rename(self.tree.parent / f"gone{next(self._numbers)}"), ignore_errors=True)
        else:
            older, gone = (self.tree.parent / f"{name}{next(self._numbers)}" for name in ("older", "gone"))
            older.mkdir(mode=0o700)
            shutil.copy(self.aside / self.index_name, older / self.index_name)
            state.rename(gone)
            with suppress(OSError):  # a process was quicker, and made a new one
                older.rename(state)
            for each in (older, gone):
                shutil.rmtree(each, ignore_errors=True)
        self.done[f"index: {what}"] += 1

    def keep_index(self) -> None:
        """Keep a copy of the index for later."""
        file = self.state / self.index_name
        with suppress(apsw.Error):
            source = apsw.Connection(f"file:{file}?mode=ro", flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
            draft = self.aside / "draft.sqlite"
            draft.unlink(missing_ok=True)
            # What is still in the log gets its checksums as it is written here, if there is a header that says so.
            target = apsw.Connection(str(draft), vfs=database.VERIFYING if database.can_verify() else None)
            target.reserve_bytes("main", source.reserve_bytes("main"))
            target.execute("CREATE TABLE before (x)")
            with target.backup("main", source, "main") as backup:
                backup.step()
            target.close()
            source.close()
            draft.replace(self.aside / self.index_name)

    def fill_disk(self) -> None:
        """Leave no space for a while, with commands at work."""
        ballast = self.tree.parent / "ballast"
        try:
            with suppress(OSError), ballast.open("wb", buffering=0) as stream:
                while True:
                    stream.write(bytes(65_536))
            self.command("search", self.chance.choice(QUERIES), "--format", "json")
            until = time.monotonic() + self.chance.uniform(0.3, 2.0)
            while time.monotonic() < until:
                self.look_after()
                time.sleep(0.05)
        finally:
            ballast.unlink(missing_ok=True)

    def move_clock(self) -> None:
        """Set the clock of every process of ours."""
        self._clock.write_text(str(self.chance.choice(SHIFTS)))

    # The end

    def calm_down(self) -> None:
        """Stop what runs, and put the clock right."""
        self._clock.write_text("0")
        deadline = time.monotonic() + HUNG_SECONDS
        self._frozen_helpers = dict.fromkeys(self._frozen_helpers, 0.0)
        if self._server:
            self._server.frozen_until = 0.0
            self._signal(self._server, signal.SIGCONT)
            self._signal(self._server, signal.SIGTERM)
        while (self._commands or self._server) and time.monotonic() < deadline:
            self.look_after()
            time.sleep(0.05)
        if self._server:
            self.faults.append(f"the server did not end within {HUNG_SECONDS:.0f} seconds of SIGTERM")
        if left := self.end_everything():
            self.faults.append(f"{left} processes were left behind")

    def end_everything(self) -> int:
        """End every process that this run started, and return how many there still were."""
        deadline = time.monotonic() + 10  # an indexing process ends by itself when its server has
        while (alive := self._marked()) and time.monotonic() < deadline and not self._running():
            time.sleep(0.1)
        for process in alive:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        for each in self._running():
            each.process.wait()
        return len(alive)

    def run(self, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        """Run one command to its end, undisturbed."""
        return subprocess.run(
            [sys.executable, "-m", "annai", *arguments],
            cwd=cwd,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    def _start(self, arguments: tuple[str, ...]) -> Running:
        is_older = self._older is not None and self.chance.random() < OLDER_SHARE
        python = str(self._older / ".venv" / "bin" / "python") if self._older and is_older else sys.executable
        output = self._output / str(next(self._numbers))
        with output.with_suffix(".out").open("w") as stdout, output.with_suffix(".err").open("w") as stderr:
            process = subprocess.Popen(
                [python, "-m", "annai", "--verbose", *arguments],
                cwd=self.tree,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                text=True,
            )
        process.args = output
        return Running(process, " ".join(arguments), is_older)

    def _judge(self, ended: Running) -> None:
        """Note how a process ended; a traceback, or an answer that cannot be read, is a fault."""
        code, output = ended.process.returncode, Path(str(ended.process.args))
        said = output.with_suffix(".err").read_text(errors="replace")
        name = ended.name.split(" ", 1)[0]
        if ended.is_older:
            self.done[f"another version: {name}"] += 1
            return
        self.ended[f"{name}: {'killed' if ended.was_killed else f'exit {code}'}"] += 1
        if "Traceback" in said or "unexpected error" in said:
            self.faults.append(f"`annai {name}`: {failure(said)}")
        elif code not in (0, 1, 2, -signal.SIGTERM) and not ended.was_killed:
            self.faults.append(f"`annai {ended.name}` ended with {code}: {last_line(said)}")
        elif code == 0 and name == "search":
            try:
                json.loads(output.with_suffix(".out").read_text())
            except ValueError as error:
                self.faults.append(f"`annai {ended.name}` did not answer in JSON: {error}")
        if code == 0 and name == "import" and self.chance.random() < 0.5:
            self.keep_index()
        if code in (1, 2) and said and name != "server":
            self.ended[f"  {name} said: {shortened(last_line(said), self.tree)}"] += 1

    def _running(self) -> list[Running]:
        known = [*self._commands, *([self._server] if self._server else [])]
        return [each for each in known if each.process.poll() is None]

    def _signal(self, target: Running, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            target.process.send_signal(number)

    def _kill(self, target: Running) -> None:
        target.was_killed = True
        target.process.kill()

    def _marked(self) -> list[psutil.Process]:
        """The processes of this run that live: its children, and theirs."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.environ().get(MARK) == self._mark and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def _files(self) -> list[Path]:
        return sorted(each for each in self.tree.glob("[!.]*/*") if each.is_file())

    def _any_file(self) -> Path:
        return self.chance.choice(self._files())

    def _new_file(self) -> Path:
        suffix = self.chance.choice([".md", ".md", ".rst", ".txt"])
        return (
            self.tree / f"part{self.chance.randrange(5)}" / f"{self.chance.choice(WORDS)}{next(self._numbers)}{suffix}"
        )

    def _write(self, file: Path, *, replace: bool = False) -> None:
        with suppress(OSError):  # no space, or its folder has another name by now
            file.parent.mkdir(exist_ok=True)
            target = file.with_name(f".{file.name}.draft") if replace else file
            target.write_text(self._text(), encoding="utf-8")
            target.replace(file)

    def _text(self) -> str:
        sections = (
            f"## {self._words(3)}\n\n{self._words(self.chance.randrange(5, 80))}.\n"
            for _ in range(self.chance.randrange(6))
        )
        title = f"{self._words(2)} {self.chance.randrange(10**6)}"
        return f"# {title}\n\n{self._words(20)}.\n\n" + "\n".join(sections)

    def _words(self, count: int) -> str:
        return " ".join(self.chance.choices(WORDS, k=count))


def compare(chaos: Chaos) -> list[str]:
    """Bring the index up to date, and compare it with a new one of the same folder."""
    os.environ |= {name: chaos.environment[name] for name in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME")}
    fresh = chaos.aside / chaos.tree.name
    shutil.copytree(chaos.tree, fresh)
    try:
        with brought_up_to_date(chaos, chaos.tree) as old:
            if chaos.index_name == NO_FILE:
                # One database holds one project.
                settings = chaos.own_settings.read_text()
                chaos.own_settings.write_text(re.sub(r'/annai"$', '/fresh"', settings, flags=re.MULTILINE))
            with brought_up_to_date(chaos, fresh) as new:
                faults = [f"check: {fault}" for fault in maintenance.check(old.store)]
                return faults + differing_documents(old, new) + differing_answers(old, new)
    except AnnaiError as error:
        return [f"the index cannot be read: {error}"]


@contextmanager
def brought_up_to_date(chaos: Chaos, folder: Path) -> Iterator[Engine]:
    """The folder's project, in this process, once a command has indexed what there is."""
    done = chaos.run("import", "-m", "update", "--allow-deletions", cwd=folder)
    if done.returncode:
        raise StoreError(last_line(done.stderr))
    with Engine(load_config(docs_dir=folder)) as engine:
        yield engine


def differing_documents(old: Engine, new: Engine) -> list[str]:
    """Documents and sections that are in one index and not in the other."""
    found: list[str] = []
    listed = [contents(each) for each in (old, new)]
    for path in sorted({*listed[0], *listed[1]}):
        if path not in listed[0]:
            found.append(f"{path} is missing")
        elif path not in listed[1]:
            found.append(f"{path} is still there")
        elif listed[0][path] != listed[1][path]:
            found.append(f"{path} is not what the file says")
    waiting = old.store.requests.due()
    return [*found, *([f"{waiting} requests still wait"] if waiting else [])]


def contents(engine: Engine) -> dict[str, object]:
    """What an index holds of each file: its problem, or its text and its sections."""
    found: dict[str, object] = {}
    for collection in engine.store.collections():
        for path, state in engine.store.states(collection.name).items():
            document = engine.store.document(collection.name, path)
            sections = [each.section for each in engine.store.sections(collection.name, path)]
            found[f"{collection.name}:{path}"] = (state.hash, state.problem, document and document.text, sections)
    return found


def differing_answers(old: Engine, new: Engine) -> list[str]:
    """Questions that the two answer differently; a graph that grew in another order may find other neighbours."""
    modes = ("keyword",) if old.config.store.engine in ("lancedb", "chroma") else get_args(Mode)
    found = []
    for query in QUERIES:
        for mode in modes:
            known, wanted = (answers(each, query, mode) for each in (old, new))
            if known != wanted:
                parts = next(pair for pair in zip(known, wanted, strict=True) if pair[0] != pair[1])
                found.append(f"{query!r} ({mode}) is answered differently: {parts[0]} and not {parts[1]}")
    return found


def answers(engine: Engine, query: str, mode: Mode) -> tuple[object, ...]:
    """What a question finds, by score; of those that share the last place, which ones there are is chance."""
    answer = engine.search(query, mode=mode, limit=20, refresh=False)
    rows = sorted((-round(hit.score, 4), hit.path, hit.start_line) for hit in answer)
    last = rows[-1][0] if rows else 0
    states = {hit.index_status for hit in answer}
    return answer.total, [row for row in rows if row[0] != last], [row[0] for row in rows], states, answer.corrected


@contextmanager
def small_disk(folder: Path) -> Iterator[bool]:
    """A file system that is soon full; whether it could be made."""
    folder.mkdir()
    mount = shutil.which("mount")
    options = ["-t", "tmpfs", "-o", f"size={DISK_MB}m", "annai-chaos", str(folder)]
    if not mount or subprocess.run([mount, *options], capture_output=True, check=False).returncode:
        yield False
        return
    try:
        yield True
    finally:
        # Chroma keeps files open in this process until it ends.
        subprocess.run([str(shutil.which("umount")), "--lazy", str(folder)], check=True)


def shifted_clock(folder: Path) -> Path | None:
    """A library that moves the clock of the processes that load it; None where there is no compiler.

    libfaketime cannot be used: with it `time.sleep` fails, or the monotonic clock jumps too, which real ones never do.
    """
    compiler = shutil.which("cc")
    source, library = folder / "clock.c", folder / "clock.so"
    source.write_text(CLOCK)
    command = [str(compiler), "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"]
    if compiler is None or subprocess.run(command, capture_output=True, check=False).returncode:
        return None
    return library


def report(chaos: Chaos, steps: int, differences: list[str]) -> None:
    """Print what was done, how it ended and what was found."""
    print(f"\n| what was done in {steps:,} steps | times |\n|---|---|")
    for name, times in sorted(chaos.done.items()):
        print(f"| {name} | {times:,} |")
    for name, reason in sorted(chaos.left_out.items()):
        print(f"| {name} | left out: {reason} |")
    print("\n| how commands ended | times |\n|---|---|")
    for name, times in sorted(chaos.ended.items()):
        print(f"| {name} | {times:,} |")
    print()
    for each in (*dict.fromkeys(chaos.faults), *differences):
        print(f"found: {each}")
    if not chaos.faults and not differences:
        print("The index is the same as a new one of the same folder, and nothing went wrong.")


def last_line(text: str) -> str:
    """The last line that says something."""
    return next((line for line in reversed(text.splitlines()) if line.strip()), "it said nothing")


def failure(said: str) -> str:
    """The error of the last traceback, and the last place of annai's own in it."""
    trace = said[said.rfind("Traceback") :].splitlines()
    places = [line.partition("src/annai/")[2] for line in trace if "src/annai/" in line]
    error = next((line for line in trace[1:] if line and not line.startswith(" ")), last_line(said))
    return f"{error} ({places[-1] if places else 'nowhere in annai'})"


def shortened(line: str, tree: Path) -> str:
    """A line without what differs from run to run."""
    return line.removeprefix("annai: ").replace(str(tree), "TREE")[:150]


if __name__ == "__main__":
    main()
