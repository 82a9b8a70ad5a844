"""What if indexing cannot go on? Nothing that is out of date says that it is fresh, and searches are answered."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from annai.answers import Hit, Query, Where
from annai.config import override
from annai.embedders.base import Vectors
from annai.engine import Engine
from annai.errors import CollectionError, EmbedderError
from annai.types import Collection
from tests.conftest import Annai, quick_config, state_of, trust
from tests.engines import config_for, postgres_folder, postgres_url
from tests.service import Moody, running
from tests.stores.test_failures import files_at_most, small_disk

__all__ = ["postgres_folder", "postgres_url", "small_disk"]

Write = Callable[[str, str], Path]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="processes are killed as on Unix")


@pytest.fixture
def moody(engine: Engine, write: Write, monkeypatch: pytest.MonkeyPatch) -> Moody:
    """The embedder of a project with one document, which is down from now on."""
    monkeypatch.setattr("annai.indexing.indexer.RETRY_SECONDS", 0.0)
    embedder = engine.__dict__["embedder"] = Moody(256)
    embedder.down = False
    write("a.md", "# A\n\napple")
    engine.refresh()
    embedder.down = True
    return embedder


def hit_of(engine: Engine, word: str, *, refresh: bool = False, clean_only: bool = False) -> Hit | None:
    """The one document that holds the word."""
    query = Query(word, mode="keyword", where=Where(clean_only=clean_only))
    return next(iter(engine.search(query, refresh=refresh).results), None)


def is_known_stale(engine: Engine) -> bool:
    """Whether `apple` is found and told as out of date, and not found by who wants what is clean."""
    hit, clean = hit_of(engine, "apple"), hit_of(engine, "apple", clean_only=True)
    return hit is not None and hit.index_status != "latest" and hit.is_dirty and clean is None


# A stale answer is told


def test_a_document_that_could_not_be_renewed_is_outdated_until_it_is(
    engine: Engine, moody: Moody, write: Write
) -> None:
    write("a.md", "# A\n\nbanana")
    engine.queue_changes("root")
    for _ in range(engine.config.worker.retries + 1):
        assert is_known_stale(engine)
        with pytest.raises(EmbedderError):
            engine.process_queue(timeout=0)
    assert engine.store.requests.counts().get("failed") == 1
    assert is_known_stale(engine)
    hit = hit_of(engine, "apple")
    assert hit
    assert hit.index_status == "outdated"
    (problem,) = engine.status().collections[0].problems
    assert problem.problem
    assert "The service is down" in problem.problem.reason
    # Not even when the queue has forgotten about it.
    engine.store.requests.prune(older_than=-1)
    assert is_known_stale(engine)
    moody.down = False
    engine.refresh()
    assert hit_of(engine, "apple") is None
    hit = hit_of(engine, "banana", clean_only=True)
    assert hit
    assert hit.index_status == "latest"


def test_a_document_whose_file_is_again_what_was_indexed_is_fresh_without_an_embedder(
    engine: Engine, moody: Moody, write: Write
) -> None:
    write("a.md", "# A\n\nbanana")
    engine.queue_changes("root")
    for _ in range(engine.config.worker.retries + 1):
        with pytest.raises(EmbedderError):
            engine.process_queue(timeout=0)
    write("a.md", "# A\n\napple")
    assert engine.refresh().problem == ""
    assert moody.down
    hit = hit_of(engine, "apple", clean_only=True)
    assert hit
    assert hit.index_status == "latest"


def test_a_deleted_file_is_forgotten_without_an_embedder(engine: Engine, moody: Moody, write: Write) -> None:
    write("b.md", "# B\n\nbanana")
    (engine.config.root / "a.md").unlink()
    write("c.md", "# C\n\ncherry")
    moody.down = False
    engine.refresh()
    moody.down = True
    write("c.md", "# C\n\ncherries and more")
    (engine.config.root / "b.md").unlink()
    assert "The service is down" in engine.refresh().problem
    assert hit_of(engine, "banana") is None
    assert hit_of(engine, "cherry")


def test_what_was_written_before_the_embedder_failed_is_not_called_outdated(
    engine: Engine, moody: Moody, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("annai.indexing.preparation.BATCH_FILES", 1)
    write("b.md", "# B\n\napple")
    embed = moody.embed_sums
    calls: list[int] = []

    def fail_with_the_second(texts: Sequence[str]) -> Vectors:
        calls.append(len(texts))
        moody.down = len(calls) > 4  # a file takes four calls: title, headings, path and body
        return embed(texts)

    moody.down = False
    engine.refresh()
    write("a.md", "# A\n\napple changed")
    write("b.md", "# B\n\napple changed")
    monkeypatch.setattr(moody, "embed_sums", fail_with_the_second)
    with pytest.raises(EmbedderError):
        engine.rebuild()
    found = {hit.path: hit.is_dirty for hit in engine.search(Query("apple", mode="keyword"), refresh=False).results}
    assert found == {"a.md": False, "b.md": True}


def test_an_index_that_cannot_be_written_says_what_changed_since(
    engine: Engine, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("a.md", "# A\n\napple")
    write("b.md", "# B\n\napple")
    engine.refresh()
    write("a.md", "# A\n\nbanana")
    monkeypatch.setattr(engine.store, "read_only", True)
    answer = engine.search(Query("apple", mode="keyword"))
    assert {hit.path: hit.index_status for hit in answer.results} == {"a.md": "outdated", "b.md": "latest"}
    clean = engine.search(Query("apple", mode="keyword", where=Where(clean_only=True)))
    assert [hit.path for hit in clean.results] == ["b.md"]


# It keeps answering


def test_without_an_embedder_a_search_answers_from_what_is_indexed_and_says_so(
    engine: Engine, moody: Moody, write: Write
) -> None:
    write("b.md", "# B\n\nbanana")
    by_words = engine.search(Query("apple", mode="keyword"))
    assert [hit.path for hit in by_words.results] == ["a.md"]
    assert by_words.freshness.problem == "The service is down; start it. Until then answers may be out of date."
    both = engine.search(Query("apple"))
    assert [hit.path for hit in both.results] == ["a.md"]
    assert both.note == "searched without vectors, by words and the bundled model: The service is down; start it."
    with pytest.raises(EmbedderError):
        engine.search(Query("apple", mode="vector"))
    assert engine.locate("a.md").document.path == "a.md"
    assert moody.down


def test_the_command_line_answers_when_the_service_is_gone(docs: Path, write: Write) -> None:
    annai = Annai(docs)
    write("a.md", "# A\n\napple")
    with running() as service:
        (docs / "annai.toml").write_text(
            f'[embedding]\nprovider = "openai"\nmodel = "some-model"\nbase_url = "{service.url}"\n'
            "[retry]\nmax_retries = 0\n"
        )
        trust(docs)
        assert annai("search", "apple", "--format", "files").stdout == "a.md:1\n"
    write("b.md", "# B\n\nbanana")
    for mode in ("keyword", "hybrid"):
        done = annai("search", "apple", "--format", "files", "--mode", mode)
        assert done.stdout == "a.md:1\n"
        assert "answers may be out of date" in done.stderr
    assert "apple" in annai("get", "a.md").stdout
    annai("status")
    # Where nothing is indexed there is nothing to answer from.
    (state_of(docs) / "index.sqlite").unlink()
    assert "some-model" in annai("search", "apple", code=2).stderr


def test_a_folder_that_is_gone_is_noted_and_the_others_are_searched(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.md").write_text(f"# {name}\n\napple {name}")
    with Engine(quick_config(tmp_path)) as engine:
        engine.add_collection("one", tmp_path / "one")
        engine.add_collection("two", tmp_path / "two")
        engine.refresh()
        (tmp_path / "one").rename(tmp_path / "away")
        (tmp_path / "two" / "b.md").write_text("# B\n\napple")
        answer = engine.search(Query("apple", limit=9))
        assert "There is no folder" in answer.freshness.problem
        found = {(hit.collection, hit.path): hit.index_status for hit in answer.results}
        assert found == {("one", "a.md"): "outdated", ("two", "a.md"): "latest", ("two", "b.md"): "latest"}
        (tmp_path / "away").rename(tmp_path / "one")
        answer = engine.search(Query("apple", limit=9))
        assert answer.freshness.problem == ""
        assert {hit.index_status for hit in answer.results} == {"latest"}


def test_a_folder_that_was_never_there_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    with Engine(quick_config(tmp_path)) as engine:
        engine.add_collection("one", tmp_path / "one")
        (tmp_path / "one").rmdir()
        with pytest.raises(CollectionError, match="There is no folder"):
            engine.search(Query("apple"))


def test_requests_of_a_folder_that_is_gone_do_not_hold_up_the_others(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    with Engine(quick_config(tmp_path)) as engine:
        for name in ("one", "two"):
            engine.add_collection(name, tmp_path / name)
            (tmp_path / name / "a.md").write_text("# A\n\napple")
            engine.queue_changes(name)
        (tmp_path / "one" / "a.md").unlink()
        (tmp_path / "one").rmdir()
        engine.process_queue(timeout=0)
        assert engine.document_paths("two") == ["a.md"]
        (waiting,) = engine.requests("pending")
        assert "There is no folder" in waiting.error


def test_a_search_does_not_wait_for_a_machine_that_is_off(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("annai.engine.engine.SEARCH_WAIT_SECONDS", 30.0)
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    here.mkdir()
    (here / "a.md").write_text("# A\n\napple")
    with Engine(override(config_for("postgres", tmp_path, request), "embedding", provider="hashing")) as engine:
        engine.store.save_collection(Collection("elsewhere", elsewhere))
        engine.add_collection("here", here)
        engine.refresh()
        engine.store.requests.add("elsewhere", ["b.md"])
        engine.wake = lambda: None
        assert engine.search(Query("apple")).freshness.waiting == 0


def test_the_embedder_of_one_collection_does_not_hold_up_another(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.md").write_text("# A\n\napple")
    moody = Moody(256)
    with Engine(quick_config(tmp_path)) as engine:
        for name in ("one", "two"):
            engine.add_collection(name, tmp_path / name)
            engine.queue_changes(name)
        fine = engine.embedder
        engine._pipeline.embedder = lambda collection: moody if collection.name == "one" else fine
        with pytest.raises(EmbedderError, match="start it"):
            engine.process_queue(timeout=0)
        assert engine.document_paths("two") == ["a.md"]
        assert [each.collection for each in engine.requests("pending")] == ["one"]


def test_another_embedder_that_was_named_offline_and_taken_back_changes_nothing(docs: Path, write: Write) -> None:
    config = quick_config(docs)
    write("a.md", "# A\n\napple")
    with Engine(config) as engine:
        embedder = engine.__dict__["embedder"] = Moody(256)
        embedder.identity = "other/256"
        with pytest.raises(EmbedderError):
            engine.refresh()
        assert [each.embedder for each in engine.store.collections()] == ["other/256"]
    with Engine(config) as engine:
        assert engine.search(Query("apple")).results


INDEX_AND_DIE = """
import os, signal, sys
from pathlib import Path
from annai.config import load_config
from annai.engine import Engine
engine = Engine(load_config(docs_dir=Path(sys.argv[1])))
engine.refresh()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("with_log", [False, True])
def test_where_nothing_can_be_written_what_is_indexed_is_still_found(
    annai: Annai, write: Write, with_log: bool
) -> None:
    write("a.md", "# A\n\napple")
    write("b.md", "# B\n\napple")
    if with_log:
        # What a process that was killed wrote last is in the log, and the memory that it shared with others is gone.
        subprocess.run([sys.executable, "-c", INDEX_AND_DIE, str(annai.folder)], check=False, timeout=60)
        (state_of(annai.folder) / "index.sqlite-shm").unlink()
        assert (state_of(annai.folder) / "index.sqlite-wal").stat().st_size
    else:
        annai("search", "apple")
    write("b.md", "# B\n\nbanana")
    # So little that not even the shared memory fits, as on a full disk.
    with files_at_most(1_000):
        for mode in ("keyword", "hybrid"):
            done = annai("search", "apple", "--mode", mode, "--format", "json")
            found = {hit["path"]: hit["index_status"] for hit in json.loads(done.stdout)["results"]}
            assert found == {"a.md": "latest", "b.md": "outdated"}
            assert "the disk is full" in done.stderr
        assert annai("search", "apple", "--clean-only", "--format", "files").stdout == "a.md:1\n"
        assert "apple" in annai("get", "a.md").stdout
        assert "root" in annai("status").stdout
        assert "There is no space left" in annai("import", "-m", "update", code=2).stderr
    assert annai("search", "banana", "--format", "files").stdout == "b.md:1\n"


def test_on_a_full_disk_what_is_indexed_is_still_found(annai: Annai, write: Write, small_disk: Path) -> None:
    with (annai.folder / "annai.toml").open("a") as settings:
        settings.write(f'[database]\npath = "{small_disk}/index.sqlite"\n')
    trust(annai.folder)
    write("a.md", "# A\n\napple")
    annai("search", "apple")
    with (small_disk / "ballast").open("wb", buffering=0) as ballast, suppress(OSError):
        while True:
            ballast.write(bytes(4096))
    assert os.statvfs(small_disk).f_bavail == 0
    assert annai("search", "apple", "--format", "files").stdout == "a.md:1\n"
    assert "apple" in annai("get", "a.md").stdout
    annai("status")
