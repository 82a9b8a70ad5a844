"""What is wrong here? One check after another, each with what it found and how to mend it.

The report is fit for a bug report: it names versions, sizes and paths, and neither secrets nor anything of a document.
"""

import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from annai import __version__
from annai.config import Config, FoundSettings, find_settings, load_config
from annai.definitions import dataclass
from annai.engine import Engine
from annai.errors import AnnaiError, ConfigError
from annai.files.kinds import EXTRAS as FORMAT_EXTRAS
from annai.files.omission import why_omitted
from annai.models.extras import EXTRAS, error_summary
from annai.plugins import BUILT_IN, installed
from annai.project import waiting_files
from annai.serving import pidfile
from annai.state import OLD_STATE_FOLDER, home_folder, is_modeless
from annai.text.escapes import escape_line
from annai.upkeep.maintenance import check

State = Literal["ok", "warn", "fail"]

LOW_DISK_BYTES, FULL_DISK_BYTES = 500_000_000, 20_000_000
"""Less free space than this is worth a warning; with less than that an index cannot be written."""

SLOW_MODEL_SECONDS = 20.0

STALE_HOURS = 1.0
"""A request that waits longer than this waits in vain."""

MCP_SECONDS = 60.0

MAX_FAULTS = 3
MAX_FOLDERS = 50

STORE_MODULES = {"lancedb": "lancedb", "chroma": "chromadb", "postgres": "psycopg", "qdrant": "qdrant_client"}
"""The module that shows that the extra of a store is there; `models.extras` knows those of the models."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found."""

    check: str
    state: State
    text: str
    fix: str = ""
    """What to do, where something is not well."""


Found = Iterator[tuple[State, str, str]]
"""What a check yields: a state, what was found, and what to do."""


def examine(*, config: Path | None = None, docs_dir: Path | None = None) -> Iterator[Finding]:
    """Check everything, and yield what was found as it is found."""
    yield from _run("Python", _python)
    yield from _run("annai", _annai)
    yield from _run("Extras", _extras)
    yield from _run("Plugins", _plugins)
    loaded: list[Config] = []

    def settings() -> Found:
        found = find_settings(config=config, docs_dir=docs_dir)
        loaded.append(load_config(config=config, docs_dir=docs_dir))
        yield from _settings(found, loaded[0])

    yield from _run("Settings", settings)
    if not loaded:
        return
    project = loaded[0]
    for name, inspect in (("Folder", _folder), ("Disk", _disk), ("Server", _server)):
        yield from _run(name, partial(inspect, project))
    with _opened(project) as (engine, problem):
        if engine is None:
            yield Finding("Index", "fail", *_problem(problem))
        else:
            for name, look in (("Index", _index), ("Queue", _queue), ("Files", _files), ("Model", _model)):
                yield from _run(name, partial(look, engine))
    yield from _run("MCP", partial(_mcp, project))


def _run(name: str, inspect: Callable[[], Found]) -> Iterator[Finding]:
    """The findings of one check; one that fails is a finding too."""
    try:
        for state, text, fix in inspect():
            yield Finding(name, state, _private(text), _private(fix))
    except AnnaiError as error:
        yield Finding(name, "fail", *_problem(error))
    except Exception as error:  # whatever is broken here must be in the report, not end it
        yield Finding(name, "fail", _private(error_summary(error)), "This is a bug in annai; report it with this page.")


def _problem(error: AnnaiError) -> tuple[str, str]:
    """An error's sentence, and what it says to do."""
    return _private(error.problem), _private(error.remedy or "See docs/ for this message.")


def _private(text: str) -> str:
    """A line for a report: with `~` for the home folder, whose name is the user's."""
    home = home_folder()
    # In a container it may be the root, which is in every path and says nothing of the user.
    return escape_line(text.replace(str(home), "~") if home and home != Path(home.anchor) else text)


def _python() -> Found:
    yield "ok", f"{platform.python_version()} on {platform.system()} {platform.machine()}", ""


def _annai() -> Found:
    import apsw

    from annai.stores.sqlite.database import can_verify

    checksums = "" if can_verify() else " without page checksums"
    libraries = [f"SQLite {apsw.sqlite_lib_version()}{checksums}"]
    for name in ("numpy", "mcp"):
        try:
            libraries.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            yield "fail", f"{name} is not installed", "Install annai again: its packages are incomplete."
    yield "ok", f"{__version__} ({', '.join(libraries)})", ""


def _extras() -> Found:
    def is_there(module: str) -> bool:
        try:
            return find_spec(module) is not None
        except ModuleNotFoundError:
            return False

    modules = dict(EXTRAS.values()) | STORE_MODULES | dict(FORMAT_EXTRAS.values())
    found = [extra for extra, module in modules.items() if is_there(module)]
    yield "ok", ", ".join(found) or "none", ""


def _plugins() -> Found:
    names = [f"{name} ({group.removeprefix('annai.')})" for group in BUILT_IN for name in installed(group)]
    yield "ok", ", ".join(names) or "none", ""


def _settings(found: FoundSettings, config: Config) -> Found:
    yield "ok", f"{found.file or 'the defaults'}; {config.embedding.provider} in {config.store.engine}", ""
    if not found.is_trusted:
        names = ", ".join(demand.setting for demand in found.demands)
        yield "warn", f"{names} reach beyond this project and are ignored", "`annai trust` shows and allows them."


def _folder(config: Config) -> Found:
    if not os.access(config.root, os.R_OK | os.X_OK):
        yield "fail", f"{config.root} cannot be read", "Change its permissions, or run annai as its owner."
        return
    folder = config.state_folder
    if (config.root / OLD_STATE_FOLDER).is_dir():
        yield "warn", f"{config.root / OLD_STATE_FOLDER} is not read", "Delete it: annai keeps its files elsewhere."
    if not folder.exists():
        yield "ok", f"{folder} is not there yet", ""
    elif not os.access(folder, os.W_OK | os.X_OK):
        yield "warn", f"{folder} cannot be written: the index is only read", "Change its permissions."
    elif os.name == "posix" and folder.stat().st_mode & 0o077 and not is_modeless(folder):
        yield "warn", f"{folder} can be read by others, and it holds your documents", f"chmod 700 {folder}"
    else:
        yield "ok", str(folder), ""


def _disk(config: Config) -> Found:
    home = next(each for each in config.state_folder.parents if each.is_dir())
    free = shutil.disk_usage(home).free
    text = f"{free / 1e9:.1f} GB free"
    if free < FULL_DISK_BYTES:
        yield "fail", text, "Free some space: nothing can be indexed."
    elif free < LOW_DISK_BYTES:
        yield "warn", text, "Free some space before it runs out."
    else:
        yield "ok", text, ""


def _server(config: Config) -> Found:
    if pidfile.left_behind(config):
        yield "warn", "the server crashed or was killed", "`annai server start` starts a new one."
    elif record := pidfile.running(config):
        if record.version != __version__:
            yield "warn", f"{record.url} runs annai {record.version}", "`annai server restart` starts this version."
        else:
            yield "ok", f"{record.url}, pid {record.pid}", ""
    else:
        yield "ok", "none runs", ""


@contextmanager
def _opened(config: Config) -> Iterator[tuple[Engine | None, AnnaiError]]:
    """The engine; None and why, if it cannot be opened."""
    try:
        engine = Engine(config)
    except AnnaiError as error:
        yield None, error
        return
    try:
        yield engine, ConfigError("")
    finally:
        engine.close()


def _index(engine: Engine) -> Found:
    begin = time.perf_counter()
    if engine.store.problem:
        # What else a check finds comes from that, and the repair checks the rest.
        text = f"the index file answers in place of {engine.config.store.engine}: {engine.store.problem}"
        yield "warn", text, "Once the engine is well, `annai store check --repair` copies what it lacks there."
        return
    faults = check(engine.store)
    size = f"{engine.store.address}, {engine.store.size_on_disk() / 1e6:.1f} MB"
    if faults:
        for fault in faults[:MAX_FAULTS]:
            yield "fail", str(fault), "`annai store check --repair` mends it."
        if len(faults) > MAX_FAULTS:
            yield "fail", f"{len(faults) - MAX_FAULTS:,} more of the kind", "`annai store check` lists them."
    elif engine.read_only:
        yield "warn", f"{size}: only read", "Make its folder writable to keep it up to date."
    else:
        yield "ok", f"{size}, sound (checked in {time.perf_counter() - begin:.1f} s)", ""


def _queue(engine: Engine) -> Found:
    requests = engine.store.requests
    counts = requests.counts()
    waiting = waiting_files(counts)
    if failed := counts.get("failed", 0):
        reason = next((each.error for each in requests.latest("failed", limit=1)), "")
        yield "warn", f"{failed:,} failed; the latest: {reason}", "`annai status` names them; they are tried again."
    oldest = min((each.created_at for each in requests.latest("pending", limit=1000)), default="")
    if oldest and _hours_since(oldest) > STALE_HOURS:
        yield "warn", f"{waiting:,} waiting, some since {oldest}", "A search, or `annai server start`, takes them up."
    else:
        yield "ok", f"{waiting:,} waiting", ""


def _hours_since(time_: str) -> float:
    from datetime import UTC, datetime

    return (datetime.now(UTC) - datetime.fromisoformat(time_)).total_seconds() / 3600


def _files(engine: Engine) -> Found:
    status = engine.status()
    for each in status.collections:
        name, source = each.collection.name, each.collection.source
        if not source.is_dir():
            yield (
                "fail",
                f"{name}: {source} is not there",
                f"Mount or restore it, or `annai collection delete {name}`.",
            )
            continue
        indexed, left_out = each.statistics.documents, len(each.problems)
        if not indexed:
            fix = "Nothing is indexed yet, or files.include and the ignore files leave nothing: `annai search` tells."
            yield "warn", f"{name}: no documents", fix
        else:
            fix = "`annai status` says why." if left_out else ""
            text = f"{name}: {indexed:,} document{'' if indexed == 1 else 's'}"
            yield "ok", text + (f", {left_out:,} left out" if left_out else ""), fix
        if ignored := _ignored_folders(engine.config, source):
            yield "ok", f"{name}: ignored are {'; '.join(ignored)}", ""
    if not status.searched:
        yield "warn", "every collection is disabled", "`annai collection enable NAME`."


def _ignored_folders(config: Config, source: Path) -> list[str]:
    """The folders directly in a collection's that are not looked into, and why."""
    folders = sorted(each.name for each in source.iterdir() if each.is_dir() and not each.name.startswith("."))
    reasons = ((name, why_omitted(source, config.files, name)) for name in folders[:MAX_FOLDERS])
    # A folder in which there is nothing to index is not ignored.
    return [f"{name}/ ({reason})" for name, reason in reasons if "excludes" in reason]


def _model(engine: Engine) -> Found:
    begin = time.perf_counter()
    engine.embedder.embed_query("annai")
    seconds = time.perf_counter() - begin
    slow = seconds > SLOW_MODEL_SECONDS
    text = f"{engine.embedder.identity}, ready in {seconds:.2f} s"
    yield ("warn" if slow else "ok"), text, "A server keeps it loaded: `annai server start`." if slow else ""


def _mcp(config: Config) -> Found:
    """Start `annai mcp` as an agent's program does, and ask it for its tools."""
    arguments = ["--config", str(config.file)] if config.file else []
    arguments += ["--docs-dir", str(config.root)] if config.named else []
    begin = time.perf_counter()
    messages = (
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "annai doctor", "version": __version__},
            },
        },
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    )
    command = [sys.executable, "-P", "-m", "annai", "mcp", *arguments]
    with subprocess.Popen(  # noqa: S603 - this very program
        command, cwd=config.root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        try:
            text = "".join(json.dumps(each) + "\n" for each in messages)
            tools = _tools(process, text.encode())
        finally:
            process.kill()
    if tools:
        yield "ok", f"{len(tools)} tools in {time.perf_counter() - begin:.1f} s", ""
    else:
        yield "fail", "`annai mcp` does not answer", "Run it by hand: it says on standard error what is wrong."


def _tools(process: "subprocess.Popen[bytes]", text: bytes) -> list[object]:
    """The tools that a server lists within its time; none if it does not answer."""
    import threading

    # Killed, it closes its output, and the reading ends.
    alarm = threading.Timer(MCP_SECONDS, process.kill)
    alarm.start()
    try:
        if process.stdin is None or process.stdout is None:
            return []
        process.stdin.write(text)
        process.stdin.flush()
        for line in process.stdout:
            answer = json.loads(line)
            if answer.get("id") == 2:
                return list(answer["result"]["tools"])
    except (OSError, ValueError, KeyError):
        return []
    finally:
        alarm.cancel()
    return []
