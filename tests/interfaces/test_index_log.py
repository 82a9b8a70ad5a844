"""Can the history of indexing be read, and does what waits say so?"""

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from annai.engine import Engine
from annai.indexing.pace import KEEPS_CHANGING
from annai.stores.base import RequestResult
from tests.conftest import Annai, AnnaiHere, quick_config

Write = Callable[[str, str], Path]


def log(annai: Annai, *arguments: str) -> list[dict[str, object]]:
    return list(json.loads(annai("index", "log", *arguments, "--json").stdout))


@pytest.fixture
def history(annai_here: Annai, write: Write) -> Annai:
    """A file that was changed, one that was deleted, and one that cannot be read."""
    write("guide/a.md", "# A")
    write("guide/gone.md", "# Gone")
    (annai_here.folder / "bad.md").write_bytes(b"\x00\x01\x02")
    annai_here("import")
    write("guide/a.md", "# A, changed")
    (annai_here.folder / "guide" / "gone.md").unlink()
    annai_here("import")
    return annai_here


def test_the_log_says_when_from_which_content_and_how_long(history: Annai) -> None:
    changed, first = log(history, "guide/a.md")
    assert changed["hash"] == sha256(b"# A, changed").hexdigest()
    assert first["hash"] == sha256(b"# A").hexdigest()
    assert str(first["created_at"]) <= str(first["started_at"]) <= str(first["completed_at"])
    assert str(first["completed_at"]) <= str(changed["completed_at"])
    assert isinstance(first["seconds"], float)
    shown = history("index", "log").stdout
    assert str(first["hash"])[:12] in shown
    assert "root:guide/a.md" in shown


def test_the_log_says_why_something_was_skipped_or_failed(history: Annai) -> None:
    assert [(each["path"], each["error"]) for each in log(history, "--status", "skipped")] == [
        ("bad.md", "binary file"),
    ]
    with Engine(quick_config(history.folder)) as engine:
        engine.store.requests.add("root", ["guide/a.md"])
        (request,) = engine.store.requests.claim(1)
        engine.store.requests.finish([RequestResult(request.id, "failed", "The service is down; start it.")])
    (failed,) = log(history, "--status", "failed")
    assert (failed["path"], failed["error"]) == ("guide/a.md", "The service is down; start it.")
    assert "The service is down; start it." in history("index", "log", "--status", "failed").stdout


def test_the_log_of_a_folder_and_of_a_file_that_is_gone(history: Annai) -> None:
    gone = [(each["path"], each["status"], each["error"]) for each in log(history, "guide/gone.md")]
    assert gone == [("guide/gone.md", "completed", "the file was deleted"), ("guide/gone.md", "completed", "")]
    assert {each["path"] for each in log(history, "guide")} == {"guide/a.md", "guide/gone.md"}
    assert len(log(history, "guide", "-n", "3")) == 3
    inside = AnnaiHere(history.folder / "guide")
    assert log(inside, "gone.md") == log(history, "guide/gone.md")
    assert log(inside, "../bad.md") == log(history, "bad.md")
    assert "no file or folder" in history("index", "log", "nothing.md", code=1).stderr


def test_the_log_has_what_was_indexed_anew(history: Annai) -> None:
    before = len(log(history))
    history("import", "-m", "replace")
    assert [(each["path"], each["status"], each["error"]) for each in log(history)[:-before]] == [
        ("guide/a.md", "completed", ""),
        ("bad.md", "skipped", "binary file"),
    ]
    assert log(history, "guide/a.md")[0]["hash"] == sha256(b"# A, changed").hexdigest()


def test_the_log_is_empty_before_anything_was_indexed(annai_here: Annai, write: Write) -> None:
    write("a.md", "# A")
    done = annai_here("index", "log")
    assert (done.stdout, done.stderr) == ("", "Nothing was indexed lately.\n")
    assert log(annai_here) == []


def test_the_history_is_kept_as_long_as_the_settings_say_whoever_indexes(docs: Path, write: Write) -> None:
    (docs / "annai.toml").write_text('[embedding]\nprovider = "hashing"\n[worker]\nkeep_days = 0\n')
    write("a.md", "# A")
    with Engine(quick_config(docs)) as engine:
        engine.import_collection()
        write("b.md", "# B")
        engine.import_collection()
        assert "a.md" not in {each.path for each in engine.requests()}


def test_what_waits_is_called_waiting(annai_here: Annai, write: Write) -> None:
    write("log.md", "# A log")
    annai_here("import")
    with Engine(quick_config(annai_here.folder)) as engine:
        engine.store.requests.add("root", ["log.md"], pause=3600, error=KEEPS_CHANGING)
    shown = annai_here("index", "status").stdout
    assert f"Waiting root:log.md: {KEEPS_CHANGING}" in " ".join(shown.split())
    assert "Failed" not in shown
    (annai_here.folder / "new.md").write_text("# New")
    with Engine(quick_config(annai_here.folder)) as engine:
        engine.store.requests.add("root", ["new.md"], pause=3600, error=KEEPS_CHANGING)
        assert f"it waits ({KEEPS_CHANGING})" in engine.why_missing("new.md")


def test_a_failure_is_forgotten_when_the_file_was_indexed_after_all(engine: Engine, write: Write) -> None:
    write("a.md", "# A")
    engine.store.requests.add("root", ["a.md"])
    (request,) = engine.store.requests.claim(1)
    engine.store.requests.finish([RequestResult(request.id, "failed", "The service is down; start it.")])
    assert [each.error for each in engine.status().errors] == ["The service is down; start it."]
    engine.import_collection()
    assert engine.status().errors == ()
