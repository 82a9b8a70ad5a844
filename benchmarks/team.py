"""Can a team rely on one index? Several servers and an indexer on one PostgreSQL, while many people search.

    python benchmarks/team.py [--sections 100000] [--seconds 120] [--servers 4] [--clients 64]

A PostgreSQL of its own, an indexer whose files change all the time, and servers of other machines, all real processes
on this one. Clients ask for sections that they know, so every answer can be judged. The same once more while one server
is killed, and started again as a supervisor does, and then PostgreSQL is restarted. A client whose server does not
answer asks the next one, as a load balancer does for it. Everything ends by itself; exit code 1 means that an answer
was wrong, or that there was an error when nothing was away.
"""

import argparse
import os
import random
import secrets
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parents[1]))

from annai.answers import Answer
from annai.errors import AnnaiError, ServerError
from annai.serving.client import Client
from annai.types import Status
from tests.postgresql import Cluster, running_cluster

SECTIONS_PER_DOCUMENT = 10
WORDS_PER_SECTION = 110
"""Sections under 100 tokens would be kept inside their document."""

VOCABULARY = 4_000
CHANGING_FILES = 50
CHANGE_SECONDS = 0.2
"""How often one of the indexer's files changes."""

QUESTIONS = 400
SUPERVISOR_SECONDS = 3.0
"""When a killed server is started again."""

RECOVERY_SECONDS = 5.0
"""How long after a restart of PostgreSQL errors still belong to it."""

PATIENCE_SECONDS = 120.0
"""How long to wait for what must happen, before giving up."""

CONSONANTS = "bcdfghjklmnpqrstvwxz"


@dataclass(frozen=True)
class Question:
    """What is asked, and which section answers it."""

    text: str
    path: str
    word: str


@dataclass
class Load:
    """What the clients saw in one run."""

    seconds: list[float] = field(default_factory=list)
    """How long each answer took."""
    errors: list[tuple[float, str]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    failovers: int = 0
    """Answers that another server gave, because the first one was gone."""


@dataclass
class Team:
    """The processes, and what they share."""

    cluster: Cluster
    folder: Path
    url: str
    token: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    processes: dict[str, "subprocess.Popen[str]"] = field(default_factory=dict)
    addresses: dict[str, str] = field(default_factory=dict)

    def start(self, name: str) -> None:
        """Start the server of a machine, at the address that it had before."""
        port = self.addresses[name].rpartition(":")[2] if name in self.addresses else "auto"
        process = subprocess.Popen(
            [sys.executable, "-m", "annai", "server", "start", "--foreground", "--port", port],
            cwd=self.machine(name),
            env=self.environment(name),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.processes[name] = process
        line = process.stdout.readline() if process.stdout else ""
        if "Serving" not in line:
            sys.exit(f"the server of {name} did not start; see server.log below {self.folder}/annai/projects")
        self.addresses[name] = line.partition(" at ")[2].split()[0]

    def machine(self, name: str) -> Path:
        """The project's folder on a machine, with the settings."""
        folder = self.folder / name
        if not folder.exists():
            folder.mkdir()
            (folder / "annai.toml").write_text(
                f'[project]\nname = "team"\n[store]\nengine = "postgres"\nurl = "{self.url}"\nmachine = "{name}"\n',
                encoding="utf-8",
            )
        return folder

    def environment(self, name: str) -> dict[str, str]:
        """That of a machine; nothing of the user's own."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith("ANNAI_")}
        home = {"HOME": str(self.folder), "XDG_CONFIG_HOME": str(self.folder), "XDG_STATE_HOME": str(self.folder)}
        return kept | home | {"ANNAI_CONFIG": str(self.machine(name) / "annai.toml"), "ANNAI_TOKEN": self.token}

    def annai(self, name: str, *arguments: str) -> None:
        """Run a command on a machine."""
        subprocess.run(
            [sys.executable, "-m", "annai", *arguments],
            cwd=self.machine(name),
            env=self.environment(name),
            check=True,
            stdout=subprocess.DEVNULL,
        )

    def client(self, name: str) -> Client:
        """The project, through the server of a machine."""
        return Client(self.addresses[name], token=self.token)

    def end(self) -> None:
        """End every process."""
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def main() -> None:
    """Index, search, search while things fail, and print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sections", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=120.0, help="how long each of the two runs takes")
    parser.add_argument("--servers", type=int, default=4)
    parser.add_argument("--clients", type=int, default=64)
    options = parser.parse_args()
    with ExitStack() as stack:
        team = stack.enter_context(running_team())
        source = team.folder / "handbook"
        questions = write_documents(source, options.sections)
        begin = time.monotonic()
        team.annai("indexer", "collection", "add", "-n", "handbook", "-s", str(source), "-d", "The handbook")
        team.annai("indexer", "import", "-n", "handbook")
        print(f"indexed in {time.monotonic() - begin:.0f} s", flush=True)
        servers = [f"server{number}" for number in range(1, options.servers + 1)]
        for name in ("indexer", *servers):
            team.start(name)
        with team.client("indexer") as client:
            print(describe(client.status(), len(servers), options.clients), flush=True)
            questions = known_answers(client, questions)
        print("\n| run | searches | a second | p50 | p95 | errors | wrong answers |\n|---|---|---|---|---|---|---|")
        faults = undisturbed(team, servers, questions, options)
        faults += disturbed(team, servers, questions, options)
    for fault in faults:
        print(f"FAULT: {fault}")
    sys.exit(1 if faults else 0)


def describe(status: Status, servers: int, clients: int) -> str:
    """One line on what is measured."""
    counts = status.collections[0].statistics
    return f"{counts.documents:,} documents, {counts.sections:,} sections; {servers} servers, {clients} clients"


@contextmanager
def running_team() -> Iterator[Team]:
    """A PostgreSQL with an empty database, and no server yet; whatever is started ends with the block."""
    with (
        tempfile.TemporaryDirectory(prefix="annai-team-") as folder,
        running_cluster("max_connections = 200") as cluster,
    ):
        cluster.administer("CREATE ROLE annai LOGIN PASSWORD 'annai'", "CREATE DATABASE annai OWNER annai")
        cluster.administer("CREATE EXTENSION vector", database="annai")
        team = Team(cluster, Path(folder).resolve(), cluster.url("annai", "annai", "annai"))
        try:
            yield team
        finally:
            team.end()


def write_documents(source: Path, sections: int) -> list[Question]:
    """Write so many sections, and say which question leads to some of them."""
    chance = random.Random(7)  # noqa: S311 - the same documents every time
    vocabulary = [syllables(chance, 2 + number % 3) for number in range(VOCABULARY)]
    # Few words are common and most are rare, as in any language.
    weights = [1 / (rank + 3) for rank in range(VOCABULARY)]
    every = max(sections // QUESTIONS, 1)
    questions = []
    for number in range(sections // SECTIONS_PER_DOCUMENT):
        path = f"{number // 100:03d}/document{number}.md"
        lines = [f"# Document {number}"]
        for place in range(SECTIONS_PER_DOCUMENT):
            text = chance.choices(vocabulary, weights, k=WORDS_PER_SECTION)
            word = own_word(number * SECTIONS_PER_DOCUMENT + place)
            lines += [f"\n## {text[0]} {text[1]}\n", f"{' '.join(text)} {word}."]
            if (number * SECTIONS_PER_DOCUMENT + place) % every == 0:
                questions.append(Question(f"{text[5]} {text[50]} {word}", path, word))
        file = source / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    for number in range(CHANGING_FILES):
        change_file(source, number, 0)
    return questions


def syllables(chance: random.Random, count: int) -> str:
    """A word that can be spoken."""
    return "".join(chance.choice(CONSONANTS) + chance.choice("aeiou") for _ in range(count))


def own_word(number: int) -> str:
    """A word that one section has, and no other."""
    letters = ""
    for _ in range(8):
        number, place = divmod(number * 7 + 3, len(CONSONANTS)) if not letters else divmod(number, len(CONSONANTS))
        letters += CONSONANTS[place]
    return f"{letters}q"


def change_file(source: Path, number: int, version: int) -> None:
    """Write a file of the indexer's anew, as an editor does."""
    file = source / "changing" / f"changing{number}.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_suffix(".draft")
    draft.write_text(f"# Changing {number}\n\nIts word is {changing_word(number, version)}.\n", encoding="utf-8")
    draft.replace(file)


def changing_word(number: int, version: int) -> str:
    """The word that a version of a changing file has, and nothing else."""
    return f"{own_word(10_000_000 + version * CHANGING_FILES + number)}y"


def known_answers(client: Client, questions: list[Question]) -> list[Question]:
    """Those that are answered as they should be while all is quiet; it says if some are not."""
    known = [each for each in questions if is_right(client, each)]
    if len(known) < len(questions):
        print(f"{len(questions) - len(known)} of {len(questions)} questions are not answered first at rest: left out")
    return known


def is_right(client: Client, question: Question) -> bool:
    """Whether the section that has the word comes first."""
    return not judge(client.search(question.text), question)


def judge(answer: Answer, question: Question) -> str:
    """What is wrong with an answer, and what may tell why; nothing if the section that has the word comes first."""
    found = answer.results
    if found and found[0].path == question.path and question.word in found[0].content:
        return ""
    came = ", ".join(f"{hit.path} ({hit.score})" for hit in found[:3]) or "nothing"
    understood = (
        f"{dict(answer.corrected)} {dict(answer.expanded)} {answer.excluded} {found[0].reasons if found else ''}"
    )
    return f"{question.text!r} was answered by {came} and not by {question.path}; {understood} {answer.note}"


def undisturbed(team: Team, servers: list[str], questions: list[Question], options: argparse.Namespace) -> list[str]:
    """Search while the indexer works, and nothing else happens."""
    with changing(team) as changes:
        before = cpu_seconds(team, servers)
        load = search(team, servers, questions, options)
        after = cpu_seconds(team, servers)
    report("undisturbed", load, options.seconds)
    answered = max(len(load.seconds), 1)
    used = ", ".join(f"{who} {(after[who] - before[who]) / answered * 1000:.0f} ms" for who in after)
    print(f"- processor time for each search, the indexer's work in the database included: {used}")
    faults = [f"{count} errors: {text}" for text, count in Counter(text for _, text in load.errors).items()]
    return [*faults, *load.wrong[:5], *settle(team, servers[0], changes)]


def disturbed(team: Team, servers: list[str], questions: list[Question], options: argparse.Namespace) -> list[str]:
    """Search while a server is killed, and PostgreSQL restarted."""
    away: list[float] = []

    def disturb() -> None:
        time.sleep(options.seconds * 0.25)
        victim = team.processes[servers[0]]
        victim.kill()
        victim.wait()
        time.sleep(SUPERVISOR_SECONDS)
        team.start(servers[0])
        time.sleep(max(options.seconds * 0.25 - SUPERVISOR_SECONDS, 0))
        away.append(time.monotonic())
        team.cluster.control("restart", "-m", "fast")
        away.append(time.monotonic())

    disturbing = threading.Thread(target=disturb)
    with changing(team) as changes:
        disturbing.start()
        load = search(team, servers, questions, options)
        disturbing.join()
    report("a server killed, PostgreSQL restarted", load, options.seconds)
    begin, end = away
    last = max((at for at, _ in load.errors), default=begin) - begin
    print(
        f"\nPostgreSQL was away for {end - begin:.1f} s; the last error came {last:.1f} s after it went. "
        f"{load.failovers} searches were answered by another server than the first one asked."
    )
    for text, count in Counter(text for _, text in load.errors).most_common(5):
        print(f"- {count} ×: {text}")
    outside = [text for at, text in load.errors if not begin <= at <= end + RECOVERY_SECONDS]
    faults = [f"{count} errors while PostgreSQL was there: {text}" for text, count in Counter(outside).items()]
    return [*faults, *load.wrong[:5], *settle(team, servers[0], changes)]


def search(team: Team, servers: list[str], questions: list[Question], options: argparse.Namespace) -> Load:
    """Let every client ask one question after another until the time is over."""
    load = Load()
    end = time.monotonic() + options.seconds
    threads = [
        threading.Thread(
            target=ask, args=(team, servers[number % len(servers) :] + servers, questions, end, load, number)
        )
        for number in range(options.clients)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return load


def ask(team: Team, servers: list[str], questions: list[Question], end: float, load: Load, number: int) -> None:
    """What one client does: it keeps to one server while that one answers."""
    chance = random.Random(number)  # noqa: S311 - the same questions every time
    clients = [team.client(name) for name in dict.fromkeys(servers)]
    while time.monotonic() < end:
        question = chance.choice(questions)
        begin = time.monotonic()
        for attempt, client in enumerate(clients):
            try:
                if wrong := judge(client.search(question.text), question):
                    load.wrong.append(wrong)
                load.seconds.append(time.monotonic() - begin)
                load.failovers += bool(attempt)
                break
            except ServerError as error:
                if attempt + 1 == len(clients):
                    load.errors.append((time.monotonic(), str(error)))
            except AnnaiError as error:
                load.errors.append((time.monotonic(), str(error)))
                break
    for client in clients:
        client.close()


@contextmanager
def changing(team: Team) -> Iterator[dict[int, int]]:
    """Change the indexer's files within the block; yields the version that each has."""
    versions: dict[int, int] = dict.fromkeys(range(CHANGING_FILES), 0)
    done = threading.Event()
    first = time.monotonic_ns() // 1_000_000 % 1_000_000

    def change() -> None:
        count = 0
        while not done.wait(CHANGE_SECONDS):
            number = count % CHANGING_FILES
            versions[number] = first + count
            change_file(team.folder / "handbook", number, versions[number])
            count += 1

    thread = threading.Thread(target=change)
    thread.start()
    try:
        yield versions
    finally:
        done.set()
        thread.join()


def settle(team: Team, server: str, versions: dict[int, int]) -> list[str]:
    """Wait until every change is found through a server; what never was is a fault."""
    begin = time.monotonic()
    missing = {
        number: Question(word, f"changing/changing{number}.md", word)
        for number, version in versions.items()
        if version and (word := changing_word(number, version))
    }
    count = len(missing)
    with team.client(server) as client:
        while missing and time.monotonic() < begin + PATIENCE_SECONDS:
            missing = {number: each for number, each in missing.items() if not is_right(client, each)}
            time.sleep(0.1)
    if missing:
        return [f"{len(missing)} changed files were not found {PATIENCE_SECONDS:.0f} s after the last change"]
    print(f"- {count} changed files were found as they are {time.monotonic() - begin:.1f} s after the end of the run")
    return []


def cpu_seconds(team: Team, servers: list[str]) -> dict[str, float]:
    """The processor time that the servers, and that PostgreSQL has used."""
    postmaster = int((team.cluster.folder / "postmaster.pid").read_text(encoding="utf-8").split()[0])
    return {
        "servers": sum(used_by(team.processes[name].pid) for name in servers),
        "PostgreSQL": used_by(postmaster),
    }


def used_by(pid: int) -> float:
    """The processor time of a process and its children, those that have ended too."""
    used = 0.0
    for process in (psutil.Process(pid), *psutil.Process(pid).children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            used += times.user + times.system + times.children_user + times.children_system
    return used


def report(name: str, load: Load, seconds: float) -> None:
    """A line of the table."""
    p50 = statistics.median(load.seconds) * 1000
    p95 = statistics.quantiles(load.seconds, n=20)[18] * 1000
    count = len(load.seconds)
    print(
        f"| {name} | {count:,} | {count / seconds:.0f} | {p50:.0f} ms | {p95:.0f} ms | {len(load.errors)} | "
        f"{len(load.wrong)} |",
        flush=True,
    )


if __name__ == "__main__":
    main()
