"""Does a damaged index answer wrongly? Flip single bits of its files, or cut off their ends, and ask.

    python benchmarks/flips.py [--flips 1000] [--cuts 200] [--seed 1] [--jobs 2] [--minutes M] [--only N] [--unverified]

The index has two registered collections beside the root. It is damaged as the last writer left it: with a log that
SQLite has not copied into the file yet, or without one. What a user would type follows, in this process: searches in
the three modes, `collection ls`, every document, `store check`, `import -m replace`, and the searches again. When a
command names the way out, it is typed, and everything starts again. Counted is the worst that happened:

    right         every answer was that of the sound index
    told          a sentence named the way out, and after it every answer was right
    lost          after the way out an answer was wrong, or the sentence came again
    silent        an answer was wrong, and nothing was said
    unexpected    an error that annai does not raise on purpose, or that names no way out
    hang          a command did not end

`--unverified` leaves out the checksums of pages, as where apsw comes without them. Exit code 1 means that something was
lost, silent, unexpected or hung.
"""

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from time import perf_counter
from types import FrameType
from typing import TextIO

from annai.config import load_config
from annai.engine import Engine
from annai.errors import AnnaiError
from annai.interfaces.cli import run
from annai.state import locate
from annai.stores.sqlite import database

HERE = Path(__file__).parents[1]

QUESTIONS = ("how do I roll back a deployment", "環境構築の手順")
MODES = ("hybrid", "vector", "keyword")
WAY_OUT = "annai store check --repair"

HANG_SECONDS = 60
LOG_SHARE = 0.6
"""How much of the damage is done to the log, where there is one."""
HEADER_EVERY, HEADER_BYTES = 20, 100
"""One damage in so many is done to the header of a file: it says how all the rest is read."""

BAD = ("lost", "silent", "unexpected", "hang")


@dataclass(frozen=True, slots=True)
class Damage:
    """What is done to an index: which bit is flipped, or where it is cut off."""

    number: int
    prepared: str
    """Which index: the one with a log, or the one without."""
    file: str
    place: float
    """Where in the file, as a share of its length; in its header, if it is negative."""
    bit: int | None
    """None: the file is cut off there."""

    def apply(self, state: Path) -> None:
        """Damage the files of a project."""
        file = state / self.file
        whole = bytearray(file.read_bytes())
        at = int(self.place * len(whole)) if self.place >= 0 else int(-self.place * HEADER_BYTES)
        if self.bit is None:
            del whole[at:]
        else:
            whole[at] ^= 1 << self.bit
        file.write_bytes(whole)

    def __str__(self) -> str:
        what = "cut off" if self.bit is None else f"bit {self.bit} flipped"
        return f"{self.number}: {self.prepared}, {self.file} {what} at {self.place:.5f}"


class Hang(BaseException):
    """A command did not end in time."""


@dataclass(frozen=True, slots=True)
class Result:
    """What became of an index that was damaged."""

    damage: Damage
    outcome: str
    detail: str = ""


def main() -> None:
    """Damage, ask, and print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flips", type=int, default=1000)
    parser.add_argument("--cuts", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--minutes", type=float, default=60.0, help="end after so long, whatever is left")
    parser.add_argument("--only", type=int, help="do the damage of this number alone, and print what was said")
    parser.add_argument("--unverified", action="store_true")
    options = parser.parse_args()
    start = perf_counter()
    damages = choose(options.flips, options.cuts, options.seed)
    if options.only is not None:
        damages = [each for each in damages if each.number == options.only]
    with tempfile.TemporaryDirectory(prefix="annai-flips-") as folder, ProcessPoolExecutor(options.jobs) as pool:
        jobs = [
            pool.submit(
                endure,
                Path(folder).resolve() / str(job),
                damages[job :: options.jobs],
                start + 60 * options.minutes,
                unverified=options.unverified,
            )
            for job in range(min(options.jobs, len(damages)))
        ]
        results = sorted((each for job in jobs for each in job.result()), key=lambda each: each.damage.number)
    print(f"seed {options.seed}, {len(results):,} of {len(damages):,} in {perf_counter() - start:.0f} s\n")
    report(results)
    sys.exit(any(each.outcome in BAD for each in results))


def choose(flips: int, cuts: int, seed: int) -> list[Damage]:
    """What is done: anywhere in the index file, and in its log where there is one."""
    chance = random.Random(seed)  # noqa: S311 - the seed makes a run what it is
    found = []
    for number in range(flips + cuts):
        prepared = chance.choice(("with log", "without log"))
        is_log = prepared == "with log" and chance.random() < LOG_SHARE
        file = "index.sqlite-wal" if is_log else "index.sqlite"
        place, bit = chance.random(), chance.randrange(8)
        place = -place if number % HEADER_EVERY == 0 else place
        found.append(Damage(number, prepared, file, place, bit if number < flips else None))
    # So that a run that ends before its time has done some of everything.
    chance.shuffle(found)
    return found


def report(results: Sequence[Result]) -> None:
    """Print how many there were of each outcome, and what went wrong."""
    groups = {
        "flips of the file": [each for each in results if each.damage.bit is not None and is_file(each)],
        "flips of the log": [each for each in results if each.damage.bit is not None and not is_file(each)],
        "cuts": [each for each in results if each.damage.bit is None],
    }
    print(f"| outcome | {' | '.join(groups)} |\n|---{'|---' * len(groups)}|")
    for outcome in ("right", "told", *BAD):
        counts = (sum(each.outcome == outcome for each in group) for group in groups.values())
        print(f"| {outcome} | {' | '.join(map(str, counts))} |")
    print()
    for (outcome, detail), count in Counter((each.outcome, each.detail) for each in results if each.detail).items():
        numbers = [str(each.damage.number) for each in results if (each.outcome, each.detail) == (outcome, detail)]
        print(f"{outcome}, {count}×: {detail} ({', '.join(numbers[:5])})")


def is_file(result: Result) -> bool:
    """Whether the index file was damaged, and not its log."""
    return result.damage.file == "index.sqlite"


def endure(folder: Path, damages: Sequence[Damage], deadline: float, *, unverified: bool) -> list[Result]:
    """Make an index, and do each damage to a copy of it."""
    for name in [name for name in os.environ if name.startswith("ANNAI_")]:
        del os.environ[name]
    os.environ |= dict.fromkeys(("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"), str(folder))
    if unverified:
        database.CHECKSUMS = folder / "nowhere"
    tree = folder / "tree"
    shutil.copytree(HERE / "examples", tree)
    os.chdir(tree)
    prepare(folder)
    with (folder / "said").open("w") as said:
        trial = Trial(folder, said)
        return [trial.judge(each) for each in damages if perf_counter() < deadline]


def prepare(folder: Path) -> None:
    """Index the example documents, and keep the files of the index with a log and without one."""
    for name, size in (("engineering", "512"), ("handbook", "600")):
        done("collection", "add", name, "-s", name, "-d", f"The {name} of the company", "--keep-root")
        done("import", "-c", name, "--chunk-size", size)
    done("search", QUESTIONS[0])
    state = locate(Path.cwd())
    # While somebody reads an older state, what is written stays in the log.
    reader = database.Database(state / "index.sqlite")
    reader.rows("BEGIN")
    reader.number("SELECT count(*) FROM files")
    for file in sorted(Path("handbook").iterdir()):
        file.write_text(file.read_text(encoding="utf-8") + "\nThe last line.\n", encoding="utf-8")
    done("collection", "update", "handbook", "-d", "What everybody should know")
    done("search", QUESTIONS[0])
    shutil.copytree(state, folder / "with log")
    reader.close()
    done("store", "vacuum")
    shutil.copytree(state, folder / "without log")
    for prepared in ("with log", "without log"):
        # It is shared memory, and made anew by the first process that opens the index.
        (folder / prepared / "index.sqlite-shm").unlink(missing_ok=True)


def done(*arguments: str) -> None:
    """Run a command that must succeed."""
    code, _, said = typed(*arguments)
    if code:
        sys.exit(f"annai {' '.join(arguments)}: {said}")


def typed(*arguments: str) -> tuple[int, str, str]:
    """A command's exit code, and what it writes to its two outputs."""
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run([*arguments])
    return code, out.getvalue(), err.getvalue()


class Trial:
    """One index, damaged again and again."""

    def __init__(self, folder: Path, said: TextIO) -> None:
        self._folder = folder
        self._state = locate(Path.cwd())
        self._said = said
        signal.signal(signal.SIGALRM, self._stop)
        self._restore("without log")
        self._expected = [answer for answer, _ in self._ask()]

    def judge(self, damage: Damage) -> Result:
        """Damage the index, ask everything, and go the way out where one is named."""
        self._restore(damage.prepared)
        damage.apply(self._state)
        print(f"\n{damage}", file=self._said, flush=True)
        signal.alarm(HANG_SECONDS)
        try:
            outcome, detail = self._endure()
        except Hang:
            outcome, detail = "hang", ""
        finally:
            signal.alarm(0)
        print(outcome, detail, file=self._said, flush=True)
        return Result(damage, outcome, detail)

    def _endure(self) -> tuple[str, str]:
        told = False
        while True:
            for expected, (answer, said) in zip(self._expected, self._ask(), strict=True):
                print(said, file=self._said, flush=True)
                if "unexpected error" in said:
                    return "unexpected", said
                if WAY_OUT in said:
                    break
                if answer != expected and not said:
                    return ("lost" if told else "silent"), f"{answer!s:.200} instead of {expected!s:.200}"
                if answer != expected:
                    return "unexpected", said
            else:
                return ("told" if told else "right"), ""
            if told:
                return "lost", said
            told = True
            _, _, said = typed(*WAY_OUT.split()[1:])
            print(said, file=self._said, flush=True)
            if "unexpected error" in said:
                return "unexpected", said

    def _restore(self, prepared: str) -> None:
        shutil.rmtree(self._state, ignore_errors=True)
        shutil.copytree(self._folder / prepared, self._state)

    def _ask(self) -> Iterator[tuple[object, str]]:
        """Each command's answer, without what differs from run to run, and what it said beside it."""
        yield from self._search()
        yield self._listed()
        yield documents()
        yield typed("store", "check")[1:]
        yield typed("import", "-c", "handbook", "-m", "replace", "--quiet")[1:]
        yield from self._search(QUESTIONS[1:])
        yield self._listed()

    def _search(self, questions: Sequence[str] = QUESTIONS) -> Iterator[tuple[object, str]]:
        for question in questions:
            for mode in MODES:
                _, out, said = typed("search", question, "--mode", mode, "--format", "json", "--quiet")
                found = json.loads(out)["results"] if out else []
                keys = ("id", "start_line", "score", "content", "index_status")
                yield [[each[key] for key in keys] for each in found], said

    def _listed(self) -> tuple[object, str]:
        _, out, said = typed("collection", "ls", "--format", "json")
        keys = ("name", "description", "source", "enabled")
        return [[each[key] for key in keys] for each in (json.loads(out) if out else [])], said

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        raise Hang


def documents() -> tuple[object, str]:
    """Every document of the index, whole; and why they cannot be read."""
    try:
        with Engine(load_config()) as engine:
            store = engine.store
            found = {
                (each.name, path): store.document(each.name, path)
                for each in store.collections()
                for path in store.states(each.name)
            }
            return {key: (document.title, document.text) if document else None for key, document in found.items()}, ""
    except AnnaiError as error:
        return None, str(error)
    except Exception as error:
        return None, f"unexpected error ({type(error).__name__}: {error})"


if __name__ == "__main__":
    main()
