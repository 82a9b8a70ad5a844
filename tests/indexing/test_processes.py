"""Do several processes index as one does? The same index, whoever is killed; and nobody is left behind."""

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from annai.config import Config, override
from annai.embedders.base import load_embedder
from annai.engine import Engine
from annai.files import child
from annai.files.scanner import scan
from annai.indexing import processes as module
from annai.indexing.preparation import Prepared, prepare_together
from annai.indexing.processes import Processes
from annai.types import Change, ChangeKind, Collection, ImportSummary
from tests.conftest import quick_config
from tests.loopback import DEADLINE, eventually
from tests.upkeep.test_worker import everything

Write = Callable[[str, str], Path]

FILES = 40


@pytest.fixture
def config(docs: Path, write: Write, monkeypatch: pytest.MonkeyPatch) -> Config:
    """A project that three processes index, a few files at a time."""
    monkeypatch.setattr(module, "PARALLEL_FROM_FILES", 2)
    monkeypatch.setattr(module, "TASK_FILES", 2)
    for number in range(FILES):
        write(f"{number:02}.md", f"# {number}\n\n" + f"apple banana word{number} " * 100)
    return override(quick_config(docs), "worker", processes=3)


@pytest.fixture
def changes(config: Config) -> list[Change]:
    return [*scan(config.root, config.files, {}).changes]


def helpers() -> list[psutil.Process]:
    """The processes that index for this one; other tests start others, and what converts files stays for the next."""
    children = (each for each in psutil.Process().children() if each.status() != psutil.STATUS_ZOMBIE)
    return [each for each in children if "annai.indexing.processes" in " ".join(each.cmdline())]


def prepared(config: Config, changes: list[Change], here: module.Prepare) -> Iterator[Prepared]:
    with Processes(config) as processes:
        yield from processes.prepare(Collection("root", config.root), config.embedding, changes, here)


def by_others_only(_collection: Collection, _changes: list[Change]) -> list[Prepared]:
    raise AssertionError("a process should have done this")


def patiently(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the writer wait for the others, so that they do everything that they can."""
    original = Processes._task_for_writer

    def wait(self: Processes, head: module._Task) -> module._Task | None:
        with self._changed:
            while head.result is None and self._deaths < module.MAX_DEATHS and head.deaths < 2:
                self._start_another()
                self._changed.wait(0.01)
        return original(self, head) if head.result is None else None

    monkeypatch.setattr(Processes, "_task_for_writer", wait)


def test_several_processes_make_the_index_that_one_makes(config: Config) -> None:
    with Engine(config) as engine:
        assert engine.rebuild() == ImportSummary(added=FILES)
        shared = everything(engine)
        assert engine.import_collection(mode="replace").added == FILES
        assert everything(engine) == shared
    assert not helpers()
    with Engine(override(config, "worker", processes=1)) as engine:
        assert engine.rebuild(force=True).updated == FILES
        assert everything(engine) == shared


def test_processes_use_the_model_of_the_vectors_and_not_the_one_that_the_settings_name(
    config: Config, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Engine(config) as engine:
        engine.import_collection()
    for number in range(FILES):
        write(f"{number:02}.md", f"# {number}\n\n" + f"cherry date word{number} " * 100)
    patiently(monkeypatch)
    with Engine(override(config, "embedding", provider="static")) as engine:
        assert engine.import_collection().updated == FILES
    with Engine(override(config, "worker", processes=1)) as engine:
        found = everything(engine)
        engine.rebuild(force=True)
        assert everything(engine) == found


def test_files_come_back_in_their_order_with_all_that_is_wrong_with_them(
    config: Config, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    patiently(monkeypatch)
    (docs / "07.md").write_bytes(b"\0\1\2 binary")
    changes = [*scan(config.root, config.files, {}).changes]
    (docs / "09.md").unlink()
    found = [*prepared(config, changes, by_others_only)]
    assert [each.change for each in found] == changes
    assert [each.change.path for each in found if each.state] == ["07.md", "09.md"]
    assert [each.outcome for each in found if each.state] == ["skipped", "failed"]
    assert all(each.indexed for each in found if not each.state)


def test_a_process_that_is_killed_costs_nothing_but_time(
    config: Config, changes: list[Change], monkeypatch: pytest.MonkeyPatch
) -> None:
    patiently(monkeypatch)
    found = []
    for each in prepared(config, changes, by_others_only):
        found.append(each.change.path)
        # Only once: what two processes died of is the writer's, and much is prepared ahead of what is found.
        if len(found) == 5:
            for process in helpers():
                process.kill()
    assert found == [each.path for each in changes]


def test_what_kills_every_process_is_done_by_the_writer(
    config: Config, changes: list[Change], monkeypatch: pytest.MonkeyPatch
) -> None:
    patiently(monkeypatch)
    embedder = load_embedder(config.embedding)
    own: list[str] = []

    def here(collection: Collection, part: list[Change]) -> list[Prepared]:
        own.extend(each.path for each in part)
        return prepare_together(collection, part, config, embedder)

    monkeypatch.setattr(child, "start", lambda _: subprocess.Popen(["false"], stdin=-1, stdout=-1))
    found = [*prepared(config, changes, here)]
    assert [each.change for each in found] == changes
    assert sorted(own) == [each.path for each in changes]


SCRIPT = """
from pathlib import Path
from annai.config import override
from annai.engine import Engine
from annai.indexing import processes
from tests.conftest import quick_config
processes.PARALLEL_FROM_FILES = 2
config = override(quick_config(Path({folder!r})), "worker", processes=2)
with Engine(config) as engine:
    print(engine.rebuild().added, flush=True)
"""


@pytest.mark.usefixtures("config")
def test_a_script_that_protects_nothing_is_run_once(docs: Path) -> None:
    (docs / "pickle.py").write_text("print('run by mistake')")
    script = SCRIPT.format(folder=str(docs))
    # The script imports these tests, wherever it runs.
    path = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]).strip(os.pathsep)
    done = subprocess.run(
        [sys.executable, "-P", "-"],
        input=script,
        cwd=docs,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == (f"{FILES}\n", "")


@pytest.mark.usefixtures("config")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_no_process_outlives_the_one_that_writes(docs: Path, write: Write, how: signal.Signals) -> None:
    for number in range(FILES, 150):
        write(f"{number}.md", f"# {number}\n\n" + "apple banana cherry " * 1_000)
    script = SCRIPT.format(folder=str(docs))
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        parent = psutil.Process(process.pid)
        eventually(lambda: bool(parent.children()))
        started = parent.children()
        process.send_signal(how)
    finally:
        process.wait(DEADLINE)
    assert not psutil.wait_procs(started, timeout=DEADLINE)[1]
    with Engine(quick_config(docs)) as engine:
        assert engine.refresh().waiting == 0
        assert len(engine.document_paths("root")) == 150


@pytest.mark.parametrize("name", ["annai.indexing.processes", "annai.indexing.probe"])
@pytest.mark.parametrize("ended", ["stdin", "stdout"])
def test_a_process_whose_parent_dies_while_it_works_ends_without_a_word(
    docs: Path, write: Write, capfd: pytest.CaptureFixture[str], name: str, ended: str
) -> None:
    write("a.md", "# A\n\napple")
    config = quick_config(docs)
    collection = Collection("root", docs)
    changes = [Change(ChangeKind.NEW, "a.md", docs / "a.md")] * 2_000
    asked = (collection, config.embedding, changes)
    messages: list[object] = [config, *[asked] * 9]
    if name == "annai.indexing.probe":
        messages = [(collection, changes, config)]
    process = child.start(name)
    assert process.stdin
    assert process.stdout
    for each in messages:
        child.send(process.stdin, pickle.dumps(each))
    process.stdout.read(1)
    # The system closes both pipes of a parent that was killed: first this one.
    (process.stdin if ended == "stdin" else process.stdout).close()
    if ended == "stdin":
        process.stdout.read()
    assert process.wait(60) == 0
    child.end(process)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("name", ["annai.indexing.processes", "annai.indexing.probe", "annai.upkeep.process"])
@pytest.mark.parametrize("sent", [b"", b"\x08\0\0\0\0\0\0\0half"], ids=["nothing", "half a message"])
def test_a_process_whose_parent_dies_before_it_said_what_to_do_ends_without_a_word(
    capfd: pytest.CaptureFixture[str], name: str, sent: bytes
) -> None:
    process = child.start(name)
    process.communicate(sent, timeout=60)
    assert process.returncode == 0
    assert capfd.readouterr().err == ""
