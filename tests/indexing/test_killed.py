"""What if indexing a file ends the process? It is set aside, and its neighbours are indexed."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from annai.engine import Engine
from annai.indexing.probe import KILLED_TWICE
from annai.types import ImportSummary
from tests.conftest import Annai, quick_config
from tests.loopback import eventually

Write = Callable[[str, str], Path]
ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="processes are killed as on Unix")

DEADLY = """
import hashlib, os, signal
real = hashlib.sha256
def deadly(data=b"", **options):
    if b"deadly" in data:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(data, **options)
hashlib.sha256 = deadly
"""
"""A document that says so kills the process that reads it, as the system does when memory is short."""


@pytest.fixture
def deadly(tmp_path: Path) -> dict[str, str]:
    """The environment of a process in which some documents are deadly."""
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(DEADLY)
    return {"PYTHONPATH": os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])}


def test_what_kills_its_process_is_set_aside_and_its_neighbours_are_indexed(
    annai: Annai, write: Write, deadly: dict[str, str]
) -> None:
    for number in range(20):
        write(f"{number}.md", f"# {number}\n\napple")
    for name in ("5a.md", "7a.md"):
        write(name, f"# {name}\n\ndeadly")
    annai("import", environment=deadly, code=-signal.SIGKILL)
    with Engine(quick_config(annai.folder)) as engine:
        assert not engine.document_paths("root")
    done = annai("search", "apple", "-n", "30", "--format", "files", environment=deadly)
    assert len(done.stdout.splitlines()) == 20
    with Engine(quick_config(annai.folder)) as engine:
        problems = {
            state.path: state.problem.reason for state in engine.status().collections[0].problems if state.problem
        }
        assert problems == {"5a.md": KILLED_TWICE, "7a.md": KILLED_TWICE}
        assert {each.path for each in engine.requests("failed")} == {"5a.md", "7a.md"}
        assert all(each.attempts for each in engine.requests("failed"))
    # It is left alone as it is, tried again when it changes, and when somebody wants it.
    annai("import", "-m", "update", environment=deadly)
    write("5a.md", "# 5a\n\nharmless")
    assert annai("search", "harmless", "--format", "files", environment=deadly).stdout == "5a.md:1\n"
    annai("index", "rebuild", "7a.md", "--force", environment=deadly, code=-signal.SIGKILL)
    assert annai("search", "harmless", "--format", "files", environment=deadly).stdout == "5a.md:1\n"


WORK = """
import sys
from pathlib import Path
from annai.engine import Engine
from annai.upkeep.worker import Worker
from tests.conftest import quick_config
with Engine(quick_config(Path(sys.argv[1]))) as engine, Worker(engine):
    sys.stdin.read()
"""


def test_a_server_outlives_what_kills_its_indexing_process(docs: Path, write: Write, deadly: dict[str, str]) -> None:
    for number in range(150):
        write(f"{number}.md", f"# {number}\n\napple")
    write("5a.md", "# 5a\n\ndeadly")
    worker = subprocess.Popen(
        [sys.executable, "-c", WORK, str(docs)], cwd=ROOT, env=os.environ | deadly, stdin=subprocess.PIPE
    )
    try:
        with Engine(quick_config(docs)) as engine:
            eventually(lambda: len(engine.document_paths("root")) == 150 or worker.poll() is not None)
            assert worker.poll() is None
            eventually(lambda: [each.path for each in engine.requests("failed")] == ["5a.md"])
    finally:
        worker.communicate()
    assert worker.returncode == 0


@pytest.mark.parametrize("when", ["annai.files.reader.read_document", "annai.stores.sqlite.requests.Request"])
def test_an_interrupted_import_blames_no_file(
    engine: Engine, write: Write, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    write("a.md", "# A\n\napple")
    engine.queue_changes("root")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(when, interrupt)
        with pytest.raises(KeyboardInterrupt):
            engine.process_queue(timeout=0)
    (request,) = engine.requests("pending")
    assert (request.attempts, request.error) == (0, "")
    assert engine.import_collection() == ImportSummary(added=1)


INDEX = """
import sys
from pathlib import Path
from annai.engine import Engine
from tests.conftest import quick_config
with Engine(quick_config(Path(sys.argv[1]))) as engine:
    engine.refresh()
    peak, = (line for line in open("/proc/self/status") if line.startswith("VmHWM"))
    print(engine.document_paths("root"), peak.split()[1])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the most memory that a program took")
def test_a_document_of_a_million_list_items_takes_little_memory(docs: Path, write: Write) -> None:
    write("a.md", "# A\n\n" + "- a\n" * 1_000_000)
    done = subprocess.run(
        [sys.executable, "-c", INDEX, str(docs)], cwd=ROOT, capture_output=True, text=True, check=True, timeout=300
    )
    paths, _, peak = done.stdout.strip().rpartition(" ")
    assert paths == "['a.md']"
    assert int(peak) * 1024 < 500e6
