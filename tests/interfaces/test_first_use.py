"""What if several use a new folder at once? They wait for its first index, and have the same answers."""

import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from annai.engine import Engine
from annai.interfaces.http import Application
from annai.interfaces.rpc import Service
from annai.project import Done
from annai.serving.client import Client
from tests.agents import connected
from tests.conftest import Annai, quick_config
from tests.loopback import eventually, served

Write = Callable[[str, str], Path]
FILES = 400


def start(annai: Annai, *arguments: str) -> subprocess.Popen[str]:
    """The program, at work."""
    return subprocess.Popen(
        [sys.executable, "-m", "annai", *arguments],
        cwd=annai.folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )


def fill(folder: Path) -> None:
    for number in range(FILES):
        (folder / f"{number}.md").write_text(f"# Note {number}\n\n" + f"apple{number} banana cherry\n\n" * 300)


@pytest.mark.parametrize("killed", [None, 0, 1, 2])
def test_two_searches_and_an_import_at_once_all_have_the_whole_index(annai: Annai, killed: int | None) -> None:
    fill(annai.folder)
    last = f"apple{FILES - 1}"
    processes = [
        start(annai, "search", last, "--format", "files"),
        start(annai, "search", last, "--format", "files"),
        start(annai, "import"),
    ]
    if killed is not None:
        with Engine(quick_config(annai.folder)) as engine:
            eventually(lambda: bool(engine.document_paths("root", limit=1)) or processes[killed].poll() is not None)
        processes[killed].send_signal(signal.SIGKILL if sys.platform != "win32" else signal.SIGTERM)
    for number, process in enumerate(processes):
        out, err = process.communicate(timeout=120)
        if number != killed:
            assert process.returncode == 0, err
            assert "still being indexed" not in err
            assert number == 2 or f"{FILES - 1}.md" in out.splitlines()[0]
    assert f"{FILES} documents" in annai("index", "status").stdout


def test_a_search_waits_for_the_first_index_that_another_process_makes(
    docs: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("annai.engine.engine.SEARCH_WAIT_SECONDS", 0.01)
    write("a.md", "# A\n\nzebra")
    write("b.md", "# B\n\nzebra")
    told: list[Done] = []
    with Engine(quick_config(docs)) as maker, Engine(quick_config(docs)) as other, ThreadPoolExecutor(1) as threads:
        assert maker.lock.acquire()
        searching = threads.submit(lambda: other.search("zebra", progress=told.append))
        eventually(lambda: len(told) > 10 or searching.done())
        assert not searching.done()
        maker.process_queue(timeout=0)
        maker.lock.release()
        answer = searching.result()
        assert (len(answer.results), answer.freshness.is_first) == (2, False)
        assert {each.total for each in told} == {2}
        # What is made already is searched as it is while others index.
        assert maker.lock.acquire()
        write("c.md", "# C\n\nzebra")
        answer = other.search("zebra")
        assert (len(answer.results), answer.freshness.waiting) == (2, 1)
        maker.lock.release()


def test_a_search_through_a_server_waits_for_its_first_index(
    docs: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("annai.engine.engine.SEARCH_WAIT_SECONDS", 0.01)
    monkeypatch.setattr("annai.serving.client.POLL_SECONDS", 0.01)
    write("a.md", "# A\n\nzebra")
    write("b.md", "# B\n\nzebra")
    told: list[Done] = []
    with ExitStack() as stack:
        engine = stack.enter_context(Engine(quick_config(docs)))
        # As if a worker were at work.
        engine.wake = lambda: None
        assert engine.keeper.acquire()
        port = stack.enter_context(served(Application(Service(engine, engine.config))))
        client = stack.enter_context(Client(f"http://127.0.0.1:{port}"))
        searching = stack.enter_context(ThreadPoolExecutor(1)).submit(
            lambda: client.search("zebra", progress=told.append)
        )
        eventually(lambda: len(told) > 3 or searching.done())
        assert not searching.done()
        assert client.refresh(wait=False).is_first
        engine.process_queue(timeout=0)
        answer = searching.result()
        assert (len(answer.results), answer.freshness.waiting) == (2, 0)
        assert told[0] == Done(0, 2)


def test_an_agent_gets_what_is_there_and_is_told_that_it_is_not_all(
    annai: Annai, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("annai.indexing.indexer.CLAIM_FILES", 1)
    write("a.md", "# A\n\nzebra")
    for number in range(50):
        write(f"{number}.md", f"# {number}\n\nlion")
    with Engine(quick_config(annai.folder)) as maker:
        assert maker.lock.acquire()
        maker.queue_changes("root")
        maker.rebuild(["a.md"])
        with connected(annai.folder) as agent:
            found = agent.fields("search", query="zebra", mode="keyword")
            assert [row["path"] for row in found["results"]] == ["a.md"]
            assert "50 files are still being indexed" in found["notes"][0]
            found = agent.fields("search", query="lion", mode="exact")
            assert (found["results"], len(found["notes"])) == ([], 1)
            assert "50 files are still being indexed" in found["notes"][0]
        maker.lock.release()
