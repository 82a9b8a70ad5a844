"""Do the lists of words say the same however they came together?"""

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from annai.engine import Engine
from annai.stores.base import IndexedDocument
from annai.stores.sqlite import postings
from annai.stores.sqlite.postings import POSTING
from annai.stores.sqlite.store import SqliteStore
from annai.stores.sqlite.vocabulary import MANY_WORDS
from annai.text.fields import Fields
from annai.text.keywords import extract_all
from annai.types import Collection, Document, FileState, Section
from tests.conftest import quick_config

TEXTS = [f"word{number} common サーバー{number % 7} {'again ' * (number % 4)}" for number in range(60)]


def documents(first: int, texts: list[str], together: int) -> list[IndexedDocument]:
    """A document of one passage for each text; so many of them have one vocabulary."""
    section = Section(0, None, 0, "", (), (), 0, 0, 1, 1, 1, last_depth=0)
    fields = [Fields("", "", f"{first + number}", text) for number, text in enumerate(texts)]
    words = [
        each for start in range(0, len(fields), together) for each in extract_all(fields[start : start + together])
    ]
    return [
        IndexedDocument(
            Document("a", f"{first + number}.md", "", "", FileState(f"{first + number}.md", 0, 0)),
            False,
            [section],
            np.ones((1, 8), np.float32),
            {0: each},
        )
        for number, each in enumerate(words)
    ]


def lists(path: Path, batch: int, together: int) -> dict[str, list[tuple[int, ...]]]:
    """Every word's list after all texts were written in batches, some replaced and some deleted."""
    store = SqliteStore(path)
    store.save_collection(Collection("a", path.parent))
    for start in range(0, len(TEXTS), batch):
        store.write("a", documents(start, TEXTS[start : start + batch], together))
    store.write("a", documents(3, ["instead"], 1), removed=["5.md", "59.md"])
    store.vacuum()
    found: dict[str, list[tuple[int, ...]]] = defaultdict(list)
    for word, packed in store._database.rows("SELECT word, list FROM postings ORDER BY segment, word"):
        found[word] += np.frombuffer(packed, POSTING).tolist()
    assert store._database.number("SELECT count(*) FROM segments") == 1
    store.close()
    return found


def test_lists_are_the_same_however_passages_were_written_and_merged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = lists(tmp_path / "at_once.sqlite", len(TEXTS), len(TEXTS))
    assert [key for key, *_ in expected["common"]] == sorted({*range(1, 62)} - {4, 6, 60, 61})
    assert expected["instead"] == [(61, 0, 0, 0, 1)]
    assert lists(tmp_path / "one_by_one.sqlite", 1, 1) == expected
    assert lists(tmp_path / "by_vocabularies.sqlite", 20, 3) == expected
    monkeypatch.setattr(postings, "MERGE_BYTES", 40)
    assert lists(tmp_path / "word_by_word.sqlite", 2, 2) == expected


def test_many_words_are_found_in_every_segment_whichever_of_them_were_read_before(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "index.sqlite")
    store.save_collection(Collection("a", tmp_path))
    slips = [f"slip{number}" for number in range(MANY_WORDS)]
    for start in range(0, len(TEXTS), 20):
        store.write("a", documents(start, TEXTS[start : start + 20], 20))
        # Each lookup reads the words of one more segment, and finds words that none before it looked for.
        for turn in range(5):
            words = [f"word{number}" for number in range(turn, len(TEXTS), 5)]
            assert {*store.holding([*slips, *words])} == {word for word in words if int(word[4:]) < start + 20}
    store.write("a", documents(3, ["slip7"], 1), removed=["5.md"])
    assert store.holding([*slips, "word3", "word4", "word5"]) == {"slip7": 1, "word4": 1}
    store.close()


def test_lists_are_without_what_was_deleted_once_much_was_replaced(
    docs: Path, write: Callable[[str, str], Path]
) -> None:
    for number in range(20):
        write(f"{number}.md", f"# Title\n\ncommon word{number}")
    with Engine(quick_config(docs)) as engine:
        engine.rebuild()
        database = cast(SqliteStore, engine.store)._database

        def common() -> tuple[int, int]:
            """The passages in the list of a word that all have, and the segment of the list."""
            rows = database.rows("SELECT segment, list FROM postings WHERE word = 'common'")
            return sum(len(part) // POSTING.itemsize for _, part in rows), max(segment for segment, _ in rows)

        write("0.md", "# Title\n\ncommon other")
        engine.rebuild()
        assert common()[0] == 21
        engine.rebuild(force=True)
        held, segment = common()
        assert held == 20
        engine.rebuild()
        assert common() == (20, segment)
