"""Is a saved file soon searchable, and is nothing lost? A worker on real files, and processes that are killed."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from annai.answers import Query, Where
from annai.config import load_config, override
from annai.engine import Engine
from annai.errors import EmbedderError, IndexBusy, NotFound, StoreError
from annai.types import ImportSummary
from annai.upkeep.worker import Worker
from tests.conftest import quick_config
from tests.loopback import DEADLINE, eventually
from tests.service import Moody

Write = Callable[[str, str], Path]
ROOT = Path(__file__).parents[2]


@pytest.fixture
def kept(docs: Path) -> Iterator[Engine]:
    """`docs` as a project that a worker keeps fresh."""
    with Engine(override(quick_config(docs), "watcher", debounce_ms=40)) as engine, Worker(engine):
        eventually(lambda: bool(engine.store.collections()))
        yield engine


def found(engine: Engine, word: str) -> set[str]:
    """The paths of the indexed documents that hold the word."""
    query = Query(word, limit=1000, mode="keyword")
    try:
        return {hit.path for hit in engine.search(query, refresh=False).results}
    except (NotFound, StoreError):
        return set()


def test_a_file_is_found_soon_after_it_is_made_changed_renamed_and_deleted(kept: Engine, write: Write) -> None:
    file = write("深い/場所/メモ.md", "# メモ\n\nzebra")
    eventually(lambda: found(kept, "zebra") == {"深い/場所/メモ.md"})
    write("深い/場所/メモ.md", "# メモ\n\ngiraffe")
    eventually(lambda: found(kept, "giraffe") == {"深い/場所/メモ.md"} and not found(kept, "zebra"))
    file.rename(file.with_name("新しい.md"))
    eventually(lambda: found(kept, "giraffe") == {"深い/場所/新しい.md"})
    file.with_name("新しい.md").unlink()
    eventually(lambda: not found(kept, "giraffe"))


def test_an_editor_that_writes_by_rename_is_noticed(kept: Engine, write: Write, docs: Path) -> None:
    write("a.md", "# A\n\nzebra")
    eventually(lambda: found(kept, "zebra") == {"a.md"})
    (docs / ".a.md.swp").write_text("# A\n\ngiraffe")
    (docs / ".a.md.swp").replace(docs / "a.md")
    eventually(lambda: found(kept, "giraffe") == {"a.md"} and not found(kept, "zebra"))


def test_a_folder_that_moves_takes_its_documents_along(kept: Engine, write: Write, docs: Path) -> None:
    write("old/deep/a.md", "# A\n\nzebra")
    write("old/b.md", "# B\n\nzebra")
    eventually(lambda: found(kept, "zebra") == {"old/deep/a.md", "old/b.md"})
    (docs / "old").rename(docs / "new")
    eventually(lambda: found(kept, "zebra") == {"new/deep/a.md", "new/b.md"})
    shutil.rmtree(docs / "new")
    eventually(lambda: not found(kept, "zebra"))


def test_ignore_rules_count_for_what_is_watched(kept: Engine, write: Write, docs: Path) -> None:
    write("drafts/a.md", "# A\n\nzebra")
    write("node_modules/b.md", "# B\n\nzebra")
    write("c.py", "zebra")
    eventually(lambda: found(kept, "zebra") == {"drafts/a.md"})
    write(".gitignore", "drafts/\n")
    eventually(lambda: not found(kept, "zebra"))
    (docs / ".gitignore").unlink()
    eventually(lambda: found(kept, "zebra") == {"drafts/a.md"})


def test_what_changed_while_nobody_watched_is_reconciled(docs: Path, write: Write) -> None:
    config = quick_config(docs)
    write("gone.md", "# G\n\nzebra")
    write("stays.md", "# S\n\nzebra")
    with Engine(config) as engine:
        engine.refresh()
    (docs / "gone.md").unlink()
    write("stays.md", "# S\n\ngiraffe")
    write("new.md", "# N\n\ngiraffe")
    with Engine(config) as engine, Worker(engine):
        eventually(lambda: found(engine, "giraffe") == {"stays.md", "new.md"} and not found(engine, "zebra"))


def test_without_a_watcher_the_worker_looks_by_itself(
    docs: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("annai.upkeep.worker.UNWATCHED_RESCAN_SECONDS", 0.1)
    monkeypatch.setattr("annai.upkeep.worker.WATCH_START_SECONDS", 0.1)
    with Engine(override(quick_config(docs), "watcher", enabled=False)) as engine, Worker(engine):
        write("a.md", "# A\n\nzebra")
        eventually(lambda: found(engine, "zebra") == {"a.md"})
        write("a.md", "# A\n\ngiraffe")
        eventually(lambda: found(engine, "giraffe") == {"a.md"})


def test_a_watcher_that_fails_is_replaced_by_looking(docs: Path, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError("the limit of watches is reached")

    monkeypatch.setattr("watchfiles.watch", refuse)
    monkeypatch.setattr("annai.files.inotify.Inotify.add", refuse)
    monkeypatch.setattr("annai.upkeep.worker.UNWATCHED_RESCAN_SECONDS", 0.1)
    monkeypatch.setattr("annai.upkeep.worker.WATCH_START_SECONDS", 0.1)
    with Engine(quick_config(docs)) as engine, Worker(engine):
        eventually(lambda: bool(engine.store.collections()))
        write("a.md", "# A\n\nzebra")
        eventually(lambda: found(engine, "zebra") == {"a.md"})


def test_collections_that_come_and_go_are_followed(kept: Engine, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    kept.add_collection("other", other, "Another folder")
    (other / "a.md").write_text("# A\n\nzebra")
    eventually(lambda: found(kept, "zebra") == {"a.md"})
    kept.delete_collection("other")
    eventually(lambda: not kept.requests("pending") and "other" not in {each.name for each in kept.store.collections()})


def test_a_burst_of_changes_is_indexed_completely(kept: Engine, docs: Path) -> None:
    for number in range(1_000):
        (docs / f"{number}.md").write_text(f"# {number}\n\nzebra")
    eventually(lambda: len(found(kept, "zebra")) == 1_000)
    for number in range(1_000):
        (docs / f"{number}.md").write_text(f"# {number}\n\ngiraffe")
    eventually(lambda: len(found(kept, "giraffe")) == 1_000 and not found(kept, "zebra"))
    eventually(lambda: not kept.store.requests.due())


def test_the_worker_rests_while_another_process_indexes(
    docs: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[float] = []

    class Busy:
        failed = was_killed = False

        def __init__(self, *_: object) -> None: ...

        @property
        def is_running(self) -> bool:
            asked.append(time.monotonic())
            return asked[-1] - asked[0] < 0.5

        def stop(self) -> None: ...

    monkeypatch.setattr("annai.upkeep.worker.IndexingProcess", Busy)
    monkeypatch.setattr("annai.upkeep.worker.OFFLOAD_FROM_FILES", 1)
    write("note.md", "a note")
    with Engine(quick_config(docs)) as engine, Worker(engine):
        eventually(lambda: bool(asked))
        engine.request_index("note.md")
        eventually(lambda: time.monotonic() - asked[0] > 0.5)
    once = [moment for moment in asked if moment - asked[0] < 0.5]
    assert len(once) <= 8, "a call of the worker must not keep it from resting for good"


def test_a_document_with_a_waiting_request_is_dirty_until_it_is_indexed(docs: Path, write: Write) -> None:
    with Engine(quick_config(docs)) as engine:
        write("a.md", "# A\n\nzebra")
        write("b.md", "# B\n\nzebra")
        engine.refresh()
        write("a.md", "# A\n\nzebra again")
        engine.request_index("a.md")
        answer = engine.search(Query("zebra"), refresh=False)
        hits = {hit.path: (hit.is_dirty, hit.index_status) for hit in answer.results}
        assert hits == {"a.md": (True, "updating"), "b.md": (False, "latest")}
        clean = engine.search(Query("zebra", where=Where(clean_only=True)), refresh=False)
        assert [hit.path for hit in clean.results] == ["b.md"]
        engine.process_queue(timeout=0)
        assert not any(hit.is_dirty for hit in engine.search(Query("zebra"), refresh=False).results)


def test_a_file_that_fails_is_tried_again_three_times_and_stays_visible(
    docs: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("annai.indexing.indexer.RETRY_SECONDS", 0.01)
    monkeypatch.setattr("annai.indexing.indexer.RETRY_FACTOR", 1.0)
    attempts: list[str] = []

    def fail(*_: object) -> None:
        attempts.append("")
        raise RuntimeError("the reader is broken")

    monkeypatch.setattr("annai.files.reader.read_document", fail)
    write("a.md", "# A")
    with Engine(quick_config(docs)) as engine, Worker(engine):
        eventually(lambda: engine.store.requests.counts().get("failed") == 1)
        (request,) = engine.requests("failed")
        assert "the reader is broken" in request.error
        assert request.attempts == 3
        assert [each.path for each in engine.status().errors] == ["a.md"]
    assert len(attempts) == 4


def test_when_the_embedder_is_down_the_requests_wait_and_nothing_is_lost(
    docs: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("annai.indexing.indexer.RETRY_SECONDS", 0.01)
    monkeypatch.setattr("annai.indexing.indexer.RETRY_FACTOR", 1.0)
    monkeypatch.setattr("annai.upkeep.worker.ERROR_PAUSE_SECONDS", 0.01)
    write("a.md", "# A\n\nzebra")
    with Engine(override(quick_config(docs), "worker", retries=100)) as engine:
        embedder = engine.__dict__["embedder"] = Moody(256)
        with pytest.raises(EmbedderError, match="start it"):
            engine.refresh()
        with Worker(engine):
            eventually(lambda: any(each.attempts > 2 for each in engine.requests("pending")))
            embedder.down = False
            eventually(lambda: found(engine, "zebra") == {"a.md"})


def test_a_folder_that_is_gone_loses_nothing_of_what_was_noticed_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("annai.upkeep.worker.RESCAN_SECONDS", 3600.0)
    monkeypatch.setattr("annai.upkeep.worker.WATCH_START_SECONDS", 0.1)
    monkeypatch.setattr("annai.upkeep.worker.ERROR_PAUSE_SECONDS", 0.1)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    with Engine(override(quick_config(tmp_path), "watcher", debounce_ms=200)) as engine:
        for name in ("one", "two"):
            engine.add_collection(name, tmp_path / name)
        worker = Worker(engine)
        with worker:
            eventually(lambda: worker._next_scan > time.monotonic() + 1000)
            (tmp_path / "one" / "a.md").write_text("# A\n\nzebra")
            (tmp_path / "one").rename(tmp_path / "away")
            (tmp_path / "two" / "b.md").write_text("# B\n\nzebra")
            eventually(lambda: found(engine, "zebra") == {"b.md"})
            (tmp_path / "two" / "c.md").write_text("# C\n\nzebra")
            eventually(lambda: found(engine, "zebra") == {"b.md", "c.md"})
    assert sum("There is no folder" in each.message for each in caplog.records if each.levelname == "ERROR") == 1


def test_a_search_says_why_the_worker_cannot_index(docs: Path, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("annai.upkeep.worker.ERROR_PAUSE_SECONDS", 0.01)
    write("a.md", "# A\n\nzebra")
    with Engine(quick_config(docs)) as engine:
        embedder = engine.__dict__["embedder"] = Moody(256)
        embedder.down = False
        engine.refresh()
        embedder.down = True
        with Worker(engine):
            write("b.md", "# B\n\nzebra")
            eventually(lambda: "The service is down" in engine.search(Query("zebra")).freshness.problem)
            embedder.down = False
            eventually(lambda: not engine.search(Query("zebra")).freshness.problem)
            assert found(engine, "zebra") == {"a.md", "b.md"}


def test_only_one_process_indexes_and_the_others_enqueue_and_read(
    docs: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = quick_config(docs)
    write("a.md", "# A\n\nzebra")
    with Engine(config) as holder, Engine(config) as other:
        holder.refresh()
        assert holder.lock.acquire()
        write("a.md", "# A\n\nzebra giraffe")
        assert other.refresh().waiting == 1
        (hit,) = other.search(Query("zebra"), refresh=False).results
        assert hit.index_status == "updating"
        monkeypatch.setattr("annai.indexing.updates.IMPORT_WAIT_SECONDS", 0.05)
        with pytest.raises(IndexBusy, match="try again"):
            other.import_collection(mode="replace")
        holder.process_queue(timeout=0)
        assert found(other, "giraffe") == {"a.md"}
        holder.lock.release()
        write("a.md", "# A\n\nlion")
        assert other.refresh().waiting == 0
        assert found(other, "lion") == {"a.md"}


def test_an_import_by_hand_gets_its_turn_beside_a_worker(kept: Engine, write: Write) -> None:
    write("a.md", "# A\n\nzebra")
    eventually(lambda: found(kept, "zebra") == {"a.md"})
    with Engine(kept.config) as other:
        assert other.import_collection(mode="replace") == ImportSummary(added=1)
        assert other.rebuild(force=True) == ImportSummary(updated=1)
    assert found(kept, "zebra") == {"a.md"}


def test_a_file_that_waits_already_is_not_queued_twice(engine: Engine, write: Write) -> None:
    write("a.md", "# A\n\nzebra")
    (first,) = engine.request_index("a.md").requests
    (second,) = engine.request_index("a.md").requests
    assert first == second
    assert engine.store.requests.counts() == {"pending": 1}


def test_another_process_takes_over_when_the_worker_is_gone(
    docs: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("annai.upkeep.worker.TAKE_OVER_SECONDS", 0.05)
    config = quick_config(docs)
    with Engine(config) as one, Engine(config) as two:
        first, second = Worker(one), Worker(two)
        first.start()
        eventually(lambda: bool(one.store.collections()))
        second.start()
        first.stop()
        write("a.md", "# A\n\nzebra")
        eventually(lambda: found(two, "zebra") == {"a.md"})
        second.stop()


def test_the_process_that_indexes_a_burst_ends_with_the_one_that_started_it(docs: Path) -> None:
    for number in range(400):
        (docs / f"{number}.md").write_text(f"# {number}\n\n" + "apple banana cherry " * 2_000)
    process = subprocess.Popen(
        [sys.executable, "-c", WORK, str(docs)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        parent = psutil.Process(process.pid)
        eventually(lambda: bool(parent.children()))
        helpers = parent.children()
    finally:
        process.kill()
        process.communicate()
    assert helpers
    assert not psutil.wait_procs(helpers, timeout=DEADLINE)[1]


WORK = """
import sys
from pathlib import Path
from annai.engine import Engine
from annai.upkeep.worker import Worker
from tests.conftest import quick_config
with Engine(quick_config(Path(sys.argv[1]))) as engine, Worker(engine):
    print("ready", flush=True)
    sys.stdin.read()
"""


WORK_TOGETHER = f"""
from annai.indexing import processes
from annai.upkeep import worker
processes.PARALLEL_FROM_FILES, processes.TASK_FILES, worker.OFFLOAD_FROM_FILES = 2, 2, 1_000
{WORK}"""


def test_an_index_survives_fifty_kills_and_equals_the_one_built_without(tmp_path: Path) -> None:
    """Files change while those who index are killed again and again, at random moments: alone, and with helpers."""
    chance = random.Random(4)  # noqa: S311 - a test that can be repeated, and nothing secret
    troubled, calm = tmp_path / "troubled", tmp_path / "calm"
    troubled.mkdir()
    for number in range(120):
        (troubled / f"{number}.md").write_text(f"# {number}\n\n" + "apple banana cherry " * 200)
    for kill in range(50):
        for _ in range(6):
            file = troubled / f"{chance.randrange(120)}.md"
            if chance.random() < 0.2 and file.exists():
                file.unlink()
            else:
                file.write_text(f"# {chance.random()}\n\n" + "apple banana cherry " * chance.randrange(1, 400))
        work = WORK_TOGETHER if kill % 2 else WORK
        process = subprocess.Popen(
            [sys.executable, "-c", work, str(troubled)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        try:
            assert process.stdout
            assert process.stdout.readline() == b"ready\n", f"at kill {kill}"
            # Not a wait for something to happen: the random moment is the point.
            time.sleep(chance.random() * 0.12)
            for helper in psutil.Process(process.pid).children():
                helper.kill()
            time.sleep(chance.random() * 0.05)
        finally:
            process.send_signal(signal.SIGKILL if os.name == "posix" else signal.SIGTERM)
            process.communicate()
    shutil.copytree(troubled, calm, ignore=shutil.ignore_patterns(".annai"))
    contents = []
    for folder in (troubled, calm):
        with Engine(quick_config(folder)) as engine:
            assert engine.refresh().waiting == 0
            counts = engine.store.requests.counts()
            assert "processing" not in counts
            assert "pending" not in counts
            contents.append(everything(engine))
    assert contents[0] == contents[1]


def everything(engine: Engine) -> dict[str, object]:
    """What the index holds of every document, without what differs between two indexes of the same files."""
    found: dict[str, object] = {}
    for path in engine.document_paths("root"):
        sections = engine.store.sections("root", path)
        vectors = engine.store.vectors([each.key for each in sections], engine.embedder.dimension)
        document = engine.store.document("root", path)
        assert document
        found[path] = (document.text, document.state.hash, [each.section for each in sections], vectors.tobytes())
    found["total"] = engine.search(Query("banana", limit=1000, mode="keyword"), refresh=False).total
    return found


def test_the_settings_of_a_worker_are_found_in_the_file(docs: Path) -> None:
    (docs / "annai.toml").write_text("[worker]\nretries = 1\n\n[watcher]\ndebounce_ms = 50\n")
    config = load_config(docs_dir=docs)
    assert (config.worker.retries, config.watcher.debounce_ms) == (1, 50)
