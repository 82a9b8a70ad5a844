"""Does the index follow the disk? Through the engine, on real files."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count, pairwise
from pathlib import Path

import numpy as np
import pytest

from annai.answers import Query
from annai.config import override
from annai.embedders.base import Embedder, Kind, Vectors
from annai.embedders.hashing import HashingEmbedder
from annai.engine import Engine
from annai.errors import CollectionError, ConfigError, ServerError
from annai.indexing import comparison, pipeline, preparation
from annai.project import Done
from annai.splitters.base import STRATEGIES
from annai.types import ImportSummary, Section
from tests.conftest import quick_config

Write = Callable[[str, str], Path]


def paths(engine: Engine, query: str) -> list[str]:
    answer = engine.search(Query(query, limit=20, mode="keyword"))
    return list(dict.fromkeys(hit.path for hit in answer.results))


def test_new_changed_and_deleted_files_are_counted_and_found(engine: Engine, write: Write) -> None:
    write("a.md", "# A\napple")
    write("b.md", "# B\nbanana")
    assert engine.import_collection(mode="new") == ImportSummary(added=2)
    write("a.md", "# A\ncherry, at last")
    (engine.config.root / "b.md").unlink()
    write("ファイル.md", "# 見出し\n全文検索の仕組み")
    assert engine.import_collection() == ImportSummary(added=1, updated=1, deleted=1)
    assert paths(engine, "cherry") == ["a.md"]
    assert paths(engine, "apple banana") == []
    assert paths(engine, "全文検索") == ["ファイル.md"]
    assert engine.import_collection() == ImportSummary(unchanged=2)


def test_a_touched_file_is_not_indexed_again_and_not_hashed_twice(engine: Engine, write: Write) -> None:
    file = write("a.md", "# A\napple")
    engine.import_collection()
    before = engine.store.sections("root", "a.md")
    os.utime(file, ns=(1, 1))
    assert engine.import_collection() == ImportSummary(unchanged=1)
    assert engine.store.sections("root", "a.md") == before
    assert engine.store.states("root")["a.md"].mtime_ns == 1


@pytest.mark.skipif(os.name == "nt", reason="Windows does not tell when a file last changed")
def test_other_content_with_the_old_size_and_time_is_noticed(engine: Engine, write: Write) -> None:
    file = write("a.md", "# A\napple")
    engine.import_collection()
    times = file.stat().st_atime_ns, file.stat().st_mtime_ns
    write("a.md", "# A\nmango")
    os.utime(file, ns=times)
    assert paths(engine, "mango") == ["a.md"]
    # A copy of the file in its place, as a copy of the whole project has it: it is compared, and not indexed again.
    before = engine.store.sections("root", "a.md")
    copy = shutil.copy2(file, file.with_name("b"))
    Path(copy).replace(file)
    assert (engine.import_collection(), engine.store.sections("root", "a.md")) == (ImportSummary(unchanged=1), before)
    stamp = engine.store.states("root")
    assert engine.import_collection() == ImportSummary(unchanged=1)
    assert engine.store.states("root") == stamp


def test_an_update_with_nothing_changed_writes_nothing(engine: Engine, write: Write) -> None:
    write("a.md", "# A\napple")
    engine.import_collection()
    stamp = engine.config.database_path.stat().st_mtime_ns, engine.store.collections()
    engine.refresh()
    assert (engine.config.database_path.stat().st_mtime_ns, engine.store.collections()) == stamp


def test_one_bad_file_never_stops_the_rest(engine: Engine, write: Write, docs: Path) -> None:
    write("good.md", "# Good\napple")
    (docs / "binary.md").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(range(256)))
    (docs / "large.md").write_bytes(b"x" * 2_000_000)
    engine.config = override(engine.config, "files", max_file_mb=1)
    assert engine.import_collection() == ImportSummary(added=1, skipped=2)
    problems = {state.path: state.problem for state in engine.status().collections[0].problems}
    assert {path: problem.kind for path, problem in problems.items() if problem} == {
        "binary.md": "skipped",
        "large.md": "skipped",
    }
    assert engine.import_collection() == ImportSummary(unchanged=3)


def test_new_is_refused_where_there_is_data(engine: Engine, write: Write) -> None:
    write("a.md", "# A")
    engine.import_collection(mode="new")
    with pytest.raises(CollectionError, match="-m update"):
        engine.import_collection(mode="new")


def test_a_search_during_a_replace_sees_the_old_data(
    engine: Engine, write: Write, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("annai.engine.engine.SEARCH_WAIT_SECONDS", 0.1)
    for number in range(300):
        write(f"{number}.md", f"# {number}\napple")
    engine.import_collection()
    for number in range(300):
        write(f"{number}.md", f"# {number}\nbanana")
    seen: list[tuple[int, int]] = []

    def look(done: Done) -> None:
        assert done.files <= done.total == 300
        if done.files % 150:
            return
        with Engine(quick_config(docs)) as other:
            found = other.search(Query("apple", limit=1000, mode="keyword")).total
            # The first has waited for whoever is indexing.
            again = other.search(Query("banana", limit=1000, mode="keyword"), refresh=False)
            seen.append((found, again.total))

    engine.import_collection(mode="replace", progress=look)
    assert len(seen) > 1
    assert set(seen) == {(300, 0)}
    assert paths(engine, "apple") == []
    assert engine.search(Query("banana", limit=1000, mode="keyword")).total == 300
    assert [each.name for each in engine.store.collections()] == ["root"]


def test_other_chunking_settings_renew_every_document(docs: Path, write: Write) -> None:
    write("a.md", "# A\n\n" + "word " * 3000)
    with Engine(quick_config(docs)) as engine:
        engine.import_collection()
        assert engine.status().collections[0].statistics.sections > 1
    with Engine(override(quick_config(docs), "chunking", max_tokens=100_000)) as engine:
        assert engine.import_collection() == ImportSummary(updated=1)
        assert engine.status().collections[0].statistics.sections == 1
        assert engine.import_collection() == ImportSummary(unchanged=1)


LONG = "# 長い章\n\n" + "".join(
    f"これは{number}番目の文で、りんごとみかんについて書いてある。\n" for number in range(300)
)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_an_imports_chunk_size_and_overlap_are_kept_with_every_strategy(
    docs: Path, write: Write, strategy: str
) -> None:
    write("長い.md", LONG)
    config = override(quick_config(docs), "chunking", strategy=strategy, max_chars=100_000)

    def pieces() -> list[Section]:
        return [each.section for each in engine.store.sections("root", "長い.md") if each.section.piece]

    with Engine(config) as engine:
        engine.import_collection(mode="new", chunk_size=2000, chunk_overlap=0)
        large = pieces()
        assert max(piece.token_count for piece in large) in range(1900, 2001)
        assert all(before.end == after.start for before, after in pairwise(large))
        assert engine.import_collection(mode="replace", chunk_size=700, chunk_overlap=200).added == 1
    with Engine(config) as engine:
        # A search compares with the disk and the settings, and finds nothing to do.
        assert engine.search("りんご").freshness.waiting == 0
        small = pieces()
        assert max(piece.token_count for piece in small) in range(600, 701)
        assert all(before.end - after.start > 0 for before, after in pairwise(small))
        assert engine.import_collection() == ImportSummary(unchanged=1)
        with pytest.raises(ConfigError, match=r"the command line: chunking.overlap \(700\) must be less than"):
            engine.import_collection(chunk_overlap=700)
        assert engine.import_collection(chunk_size=0) == ImportSummary(updated=1)
        assert (engine.list_collections(), engine.store.collections()[0].chunk_overlap) == ([], None)
    with Engine(override(config, "chunking", overlap=900)) as engine:
        engine.store.save_collection(replace(engine.store.collections()[0], chunk_size=600))
        with pytest.raises(ConfigError, match="--chunk-size 0"):
            engine.import_collection()


def test_a_replace_that_fails_keeps_the_old_chunk_size(engine: Engine, write: Write) -> None:
    write("a.md", "# A\n\napple")
    engine.import_collection(chunk_size=600)

    def fail(_: Done) -> None:
        raise ServerError("stop")

    with pytest.raises(ServerError):
        engine.import_collection(mode="replace", chunk_size=700, progress=fail)
    assert engine.store.collections()[0].chunk_size == 600
    assert engine.import_collection() == ImportSummary(unchanged=1)


KILLED_WITH_NEW_SETTINGS = """
import os, signal, sys
from pathlib import Path
from annai.config import override
from annai.engine import Engine
from tests.conftest import quick_config
steps = int(sys.argv[2])
def count(work):
    def counted(*args, **options):
        global steps
        if not steps:
            os.kill(os.getpid(), signal.SIGKILL)
        steps -= 1
        return work(*args, **options)
    return counted
with Engine(override(quick_config(Path(sys.argv[1])), "chunking", max_tokens=100_000)) as engine:
    for name in ("save_collection", "write"):
        setattr(engine.store, name, count(getattr(engine.store, name)))
    engine.store.requests.add = count(engine.store.requests.add)
    engine.import_collection()
"""


@pytest.mark.parametrize("steps", range(5))
def test_killed_at_any_step_of_renewing_documents_the_next_run_renews_them(
    docs: Path, write: Write, steps: int
) -> None:
    write("a.md", "# A\n\n" + "word " * 3000)
    with Engine(quick_config(docs)) as engine:
        engine.import_collection()
    arguments = [sys.executable, "-c", KILLED_WITH_NEW_SETTINGS, str(docs), str(steps)]
    done = subprocess.run(arguments, cwd=Path(__file__).parents[2], capture_output=True, check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL, done.stderr
    with Engine(override(quick_config(docs), "chunking", max_tokens=100_000)) as engine:
        engine.import_collection()
        assert engine.status().collections[0].statistics.sections == 1


class OtherEmbedder(Embedder):
    """Another model, to be mistaken for none."""

    dimension = 8
    identity = "other/8"

    def embed_batch(self, texts: Sequence[str], _kind: Kind) -> Vectors:
        """One direction for everything."""
        return np.eye(1, 8, dtype=np.float32).repeat(len(texts), axis=0)


def test_another_embedder_is_told_with_the_way_out(docs: Path, write: Write) -> None:
    write("a.md", "# A\napple")
    with Engine(quick_config(docs)) as engine:
        engine.refresh()
    with Engine(quick_config(docs)) as engine:
        engine.__dict__["embedder"] = OtherEmbedder(4)
        answer = engine.search(Query("apple"))
        assert [hit.path for hit in answer] == ["a.md"]
        assert "annai import -c root -m replace" in answer.note
        assert "annai import -c root -m replace" in engine.import_collection().note
        assert engine.search(Query("apple", mode="keyword")).note == ""
        assert engine.import_collection("root", "replace") == ImportSummary(added=1)
        assert engine.search(Query("apple")).results


def test_passages_are_embedded_across_files_in_bounded_batches(engine: Engine, write: Write) -> None:
    sizes: list[int] = []

    class Recording(OtherEmbedder):
        def embed_documents(self, texts: Sequence[str]) -> Vectors:
            sizes.append(len(texts))
            return super().embed_documents(texts)

    engine.__dict__["embedder"] = Recording(4)
    for number in range(300):
        write(f"{number}.md", f"# {number}\ntext")
    engine.import_collection()
    assert sum(sizes) == 300
    assert max(sizes) <= preparation.BATCH_PASSAGES
    assert len(sizes) <= 4


def test_a_parent_has_the_vector_of_its_parts_together(engine: Engine, write: Write) -> None:
    write("a.md", "# A\n\n## B\n" + "apple " * 150 + "\n\n## C\n" + "banana " * 150)
    engine.refresh()
    stored = engine.store.sections("root", "a.md")
    rows = engine.store.vectors([each.key for each in stored], engine.embedder.dimension)
    leaves = [row for each, row in zip(stored, rows, strict=True) if each.section.is_passage]
    assert np.linalg.norm(rows, axis=1) == pytest.approx(1, abs=0.01)
    assert all(float(rows[0] @ leaf) > 0.5 for leaf in leaves)


def test_an_additive_embedder_embeds_each_text_once_and_counts_fields_by_weight(
    engine: Engine, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("guide/pears.md", "# Fruit\n\n## One\n" + "apple " * 150 + "\n\n## Two\n" + "banana " * 150)
    embedded: list[str] = []
    embed = engine.embedder.embed_sums

    def record(texts: Sequence[str]) -> Vectors:
        embedded.extend(texts)
        return embed(texts)

    monkeypatch.setattr(engine.embedder, "embed_sums", record)
    engine.refresh()
    assert sorted(embedded) == sorted(["Fruit", "guide/pears", "One", "Two", "apple " * 150 + "\n\n", "banana " * 150])
    (passage,) = [each for each in engine.store.sections("root", "guide/pears.md") if each.section.heading == "One"]
    (row,) = engine.store.vectors([passage.key], engine.embedder.dimension)
    title, headings, path, body = embed(["Fruit", "One", "guide/pears", "apple " * 150])
    most = 0.3 * np.linalg.norm(body)
    assert most > 3 * max(np.linalg.norm(title), np.linalg.norm(path)), "long enough for the full weights"
    expected = 3 * title + headings + 3 * path + body
    assert row == pytest.approx(expected / np.linalg.norm(expected), abs=0.001)


def test_a_short_text_is_not_outweighed_by_its_title(engine: Engine, write: Write) -> None:
    write("a.md", "# Several words of a title\n\napple")
    engine.refresh()
    (root,) = engine.store.sections("root", "a.md")
    (row,) = engine.store.vectors([root.key], engine.embedder.dimension)
    assert float(row @ engine.embedder.embed_query("apple")) > 0.9


def test_what_a_page_says_of_itself_is_found(engine: Engine, write: Write) -> None:
    write("a.md", "---\ntags: [zebra, lion]\ndescription: On okapis.\nweight: 3\n---\n# A\n\ntext")
    engine.refresh()
    assert paths(engine, "zebra") == paths(engine, "okapi") == ["a.md"]


def test_an_answer_before_the_first_index_says_what_is_awaited(engine: Engine, write: Write) -> None:
    write("a.md", "# A\napple")
    engine.queue_changes("root")
    answer = engine.search("apple", refresh=False)
    assert (answer.results, answer.freshness.waiting) == ((), 1)
    assert engine.search("apple").freshness.waiting == 0


def test_a_large_first_index_asks_first(engine: Engine, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "MAX_UNCONFIRMED_FILES", 10)
    for number in range(11):
        write(f"{number}.md", f"# {number}\ntext")
    asked: list[tuple[int, float]] = []

    def refuse(count: int, seconds: float) -> bool:
        asked.append((count, seconds))
        return False

    with pytest.raises(CollectionError, match="--yes"):
        engine.refresh(confirm=refuse)
    assert asked[0][0] == 11
    assert asked[0][1] > 0
    assert engine.store.states("root") == {}
    engine.refresh(confirm=lambda *_: True)
    assert len(engine.store.states("root")) == 11
    write("more.md", "# More")
    engine.refresh(confirm=lambda *_: pytest.fail("only the first index asks"))


KILLED_IMPORT = """
import os, sys
from annai.config import load_config, override
from annai.engine import Engine
from pathlib import Path
config = override(load_config(docs_dir=Path(sys.argv[1])), "embedding", provider="hashing")
def stop(done):
    if done.files >= int(sys.argv[2]):
        os.kill(os.getpid(), int(sys.argv[3]))
with Engine(config) as engine:
    engine.import_collection(mode=sys.argv[4], progress=stop)
"""


@pytest.mark.parametrize("death", [signal.SIGKILL, signal.SIGINT])
@pytest.mark.parametrize("mode", ["update", "replace"])
def test_an_interrupted_import_leaves_a_valid_index_and_the_next_goes_on(
    docs: Path, write: Write, death: signal.Signals, mode: str
) -> None:
    for number in range(500):
        write(f"{number}.md", f"# {number}\napple number{number}")
    arguments = [sys.executable, "-c", KILLED_IMPORT, str(docs), "200", str(int(death)), mode]
    done = subprocess.run(arguments, capture_output=True, check=False, timeout=60)
    assert done.returncode != 0
    with Engine(quick_config(docs)) as engine:
        kept = engine.status().collections[0].statistics.documents
        # The last files were read, and not written yet.
        assert kept == 0 if mode == "replace" else 100 <= kept < 500
        summary = engine.import_collection(mode="update")
        assert summary == ImportSummary(added=500 - kept, unchanged=kept)
        assert engine.search(Query("apple", limit=1000, mode="keyword")).total == 500
        assert paths(engine, "number499") == ["499.md"]


def test_a_killed_replace_does_not_disturb_the_data_it_was_to_replace(docs: Path, write: Write) -> None:
    for number in range(300):
        write(f"{number}.md", f"# {number}\napple")
    with Engine(quick_config(docs)) as engine:
        engine.import_collection()
    arguments = [sys.executable, "-c", KILLED_IMPORT, str(docs), "128", str(int(signal.SIGKILL)), "replace"]
    subprocess.run(arguments, capture_output=True, check=False, timeout=60)
    with Engine(quick_config(docs)) as engine:
        assert engine.search(Query("apple", limit=1000, mode="keyword")).total == 300
        assert engine.import_collection(mode="replace") == ImportSummary(added=300)
        assert engine.search(Query("apple", limit=1000, mode="keyword")).total == 300


def test_two_processes_indexing_at_once_end_with_one_right_index(docs: Path, write: Write) -> None:
    for number in range(200):
        write(f"{number}.md", f"# {number}\napple")
    arguments = [sys.executable, "-c", KILLED_IMPORT, str(docs), "9999", "0", "update"]
    processes = [subprocess.Popen(arguments) for _ in range(3)]
    assert [process.wait(timeout=60) for process in processes] == [0, 0, 0]
    with Engine(quick_config(docs)) as engine:
        assert engine.import_collection() == ImportSummary(unchanged=200)
        assert engine.search(Query("apple", limit=1000, mode="keyword")).total == 200


def test_collections_are_indexed_and_searched_apart(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.md").write_text(f"# {name}\napple {name}")
    with Engine(quick_config(tmp_path)) as engine:
        engine.refresh()
        engine.add_collection("one", tmp_path / "one", "First")
        engine.add_collection("two", tmp_path / "two", "Second")
        engine.refresh()
        found = engine.search(Query("apple")).results
        assert sorted((hit.collection, hit.path) for hit in found) == [("one", "a.md"), ("two", "a.md")]
        engine.update_collection("two", enabled=False)
        assert [hit.collection for hit in engine.search(Query("apple")).results] == ["one"]
        named = replace(Query("apple"), where=replace(Query("").where, collections=("two",)))
        assert [hit.collection for hit in engine.search(named).results] == ["two"]
        engine.delete_collection("one")
        engine.delete_collection("two")
        assert engine.list_collections() == []


def test_queueing_many_files_returns_how_many_and_some_of_them(engine: Engine, write: Write) -> None:
    for number in range(150):
        write(f"{number:03}.md", "apple")
    queued = engine.request_index("000.md")
    assert (queued.count, [each.path for each in queued.requests]) == (1, ["000.md"])
    queued = engine.request_index("root:.", force=True)
    assert (queued.count, len(queued.requests)) == (150, 100)


def test_the_time_of_a_first_index_is_that_of_all_processes(
    docs: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparison, "MAX_UNCONFIRMED_FILES", 10)
    for number in range(20):
        write(f"{number}.md", "apple " * 50)
    told: list[float] = []

    def refuse(_: int, seconds: float) -> bool:
        told.append(seconds)
        return False

    for processes in (1, 4):
        # One second passes between two looks at the clock.
        monkeypatch.setattr(pipeline, "perf_counter", count().__next__)
        config = override(quick_config(docs), "worker", processes=processes)
        with Engine(config) as engine, pytest.raises(CollectionError, match="was not indexed"):
            engine.refresh(confirm=refuse)
    alone, together = told
    assert alone == pytest.approx(4 * together)


def test_what_happens_once_does_not_spoil_the_estimate(
    docs: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparison, "MAX_UNCONFIRMED_FILES", 10)
    for number in range(1_200):
        write(f"{number}.md", f"apple {number:4}")
    passed, calls = 0.0, count()

    def embed_sums(self: HashingEmbedder, texts: Sequence[str]) -> Vectors:
        nonlocal passed
        # A millisecond a text; but once, not at the beginning, it makes something that it keeps.
        passed += 100.0 if next(calls) == 5 else 0.001 * len(texts)
        return np.ones((len(texts), self.dimension), np.float32)

    monkeypatch.setattr(HashingEmbedder, "embed_sums", embed_sums)
    monkeypatch.setattr(pipeline, "perf_counter", lambda: passed)
    told: list[float] = []

    def refuse(_: int, seconds: float) -> bool:
        told.append(seconds)
        return False

    with (
        Engine(override(quick_config(docs), "worker", processes=1)) as engine,
        pytest.raises(CollectionError, match="was not indexed"),
    ):
        engine.refresh(confirm=refuse)
    assert 0.001 * 1_200 <= told[0] < 10
