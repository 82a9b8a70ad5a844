"""Is a text the sum of its subwords, whatever the text? Units, the best cutting, the files, and the vectors."""

import sys
import unicodedata
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from annai.embedders import subwords
from annai.embedders.base import load_embedder
from annai.embedders.piece_table import piece_table
from annai.embedders.static import BUNDLED, StaticEmbedder
from annai.embedders.static_model import StaticModel, open_model, write_model
from annai.embedders.subwords import MAX_UNIT_CHARACTERS, WORD_START, SortedPieces, Subwords, units
from annai.errors import EmbedderError
from annai.settings import Embedding

PIECES = [
    *(WORD_START, *"abcdefghijklmnopqrstuvwxyz0123456789", "▁the", "▁get", "ing", "er", "▁serv", "▁c++", "▁2024"),
    *("サーバー", "サ", "ー", "バ", "設定", "設", "定", "する", "す", "る", "を", "の", "é", "ガ", "한", "국"),
]
SCORES = [-9.0 - number / 16 if len(piece) == 1 else -4.0 - number / 16 for number, piece in enumerate(PIECES)]

TEXTS = st.text() | st.text(alphabet="aB9é́サー設す ．+#c_\n한", max_size=40)


def tiny_vectors() -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return np.random.default_rng(7).normal(size=(len(PIECES), 8)).astype(np.float32)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    write_model(folder, PIECES, SCORES, tiny_vectors(), "tiny")
    return folder


@pytest.fixture(scope="module")
def model(folder: Path) -> StaticModel:
    return open_model(folder)


@pytest.fixture(scope="module")
def embedder(folder: Path) -> StaticEmbedder:
    return StaticEmbedder(4, folder)


def vocabulary() -> Subwords:
    return Subwords(PIECES, SCORES)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("getElementById, HTTPServer2024", ["▁get", "▁element", "▁by", "▁id", "▁http", "▁server", "▁2024"]),
        ("snake_case-names café", ["▁snake", "▁case", "▁names", "▁café"]),
        ("C++ or C#? F#!", ["▁c++", "▁or", "▁c#", "▁f#"]),
        ("サーバーの設定をする", ["サーバー", "の", "設定をする"]),
        ("人々は２０２４年に読み込みます。", ["人々は", "▁2024", "年に", "読み", "込みます"]),
        ("ｻｰﾊﾞ・らーめん", ["サーバ", "らーめん"]),
        ("Привет, 한국어 Kubernetesの", ["▁привет", "▁한국어", "▁kubernetes", "の"]),
        ("🎉 — ((…)) \0 \ud800", []),
    ],
)
def test_a_text_has_units_by_script_and_nothing_for_marks(text: str, expected: list[str]) -> None:
    assert list(units(text)) == expected


@given(TEXTS)
def test_the_form_in_which_a_text_is_typed_does_not_matter(text: str) -> None:
    forms = {tuple(units(unicodedata.normalize(form, text))) for form in ("NFC", "NFD", "NFKC")}
    assert forms == {tuple(units(text))}


@given(TEXTS)
def test_a_text_is_encoded_unit_by_unit(text: str) -> None:
    known = vocabulary()
    ids = known.encode(text)
    assert ids == [number for unit in units(text) for number in known.encode_unit(unit)]
    assert ids == known.encode(text)


@given(TEXTS)
def test_the_pieces_of_a_unit_are_all_of_it_that_the_vocabulary_covers(text: str) -> None:
    known = vocabulary()
    for unit in units(text):
        covered = "".join(character for character in unit if character in PIECES)
        assert "".join(PIECES[number] for number in known.encode_unit(unit)).replace("▁c++", "▁c") == covered


@given(TEXTS, TEXTS)
def test_two_texts_with_a_space_between_have_the_subwords_of_both(one: str, other: str) -> None:
    known = vocabulary()
    assert known.encode(f"{one} {other}") == known.encode(one) + known.encode(other)


@st.composite
def small_vocabularies(draw: st.DrawFn) -> tuple[list[str], list[float]]:
    pieces = draw(st.lists(st.text("abc", min_size=1, max_size=3), unique=True, min_size=1, max_size=9))
    scores = draw(st.lists(st.integers(-9, -1), min_size=len(pieces), max_size=len(pieces)))
    return pieces, [float(score) for score in scores]


def cuttings(unit: str, known: dict[str, float]) -> Iterator[float]:
    """The score of every way to cut a unit, character by character where no piece fits."""
    for cuts in range(1 << (len(unit) - 1)):
        places = [0, *(place for place in range(1, len(unit)) if cuts >> (place - 1) & 1), len(unit)]
        parts = [unit[start:end] for start, end in pairwise(places)]
        if all(part in known or len(part) == 1 for part in parts):
            yield sum(max(known.get(part, subwords.UNCOVERED_SCORE), subwords.UNCOVERED_SCORE) for part in parts)


@given(small_vocabularies(), st.text("abcd", min_size=1, max_size=8))
def test_no_way_to_cut_a_unit_is_better(pieces_and_scores: tuple[list[str], list[float]], unit: str) -> None:
    pieces, scores = pieces_and_scores
    ids = Subwords(pieces, scores).encode_unit(unit)
    uncovered = len(unit) - sum(len(pieces[number]) for number in ids)
    score = sum(scores[number] for number in ids) + uncovered * subwords.UNCOVERED_SCORE
    assert score == max(cuttings(unit, dict(zip(pieces, scores, strict=True))))


def test_of_equally_good_ways_the_longest_last_piece_counts() -> None:
    pieces = ["ab", "c", "a", "bc"]
    assert [pieces[number] for number in Subwords(pieces, [-1.0] * 4).encode_unit("abc")] == ["a", "bc"]


@given(st.lists(st.text(st.characters(exclude_characters="\n\r", codec="utf-8"), min_size=1), unique=True, min_size=1))
def test_sorted_pieces_are_found_and_nothing_else_is(pieces: list[str]) -> None:
    kept, missing = sorted(pieces)[::2], sorted(pieces)[1::2]
    lines = "\n".join(kept).encode()
    found = SortedPieces(lines, [*(at for at, byte in enumerate(lines) if byte == 10), len(lines)], 9)
    assert list(found) == found[:] == kept
    assert [found.find(piece) for piece in kept] == list(range(len(kept)))
    assert {found.find(piece) for piece in missing} <= {None}


def test_the_table_knows_every_piece_of_the_bundled_model_and_nothing_else() -> None:
    pieces = open_model(BUNDLED).subwords.pieces
    find = piece_table(pieces)
    assert [*map(find, pieces)] == [*range(len(pieces))]
    known = {*pieces}
    others = {piece[start:end] for piece in pieces for start in (0, 1) for end in range(start + 1, len(piece))} - known
    # Their bytes in memory may be those of a piece: "tr" and "牴".
    others |= {piece.encode("utf-16-le").decode("latin-1") for piece in pieces} - known
    assert {*map(find, others)} == {None}


def test_ids_are_the_same_by_search_table_and_dictionary(model: StaticModel, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "The servers are getting サーバーの設定をする 2024 C++ ぬ한국"
    expected = [PIECES[number] for number in vocabulary().encode(text)]
    for searches, units_by_table in ((10_000, 0), (0, 10_000), (0, 0)):
        monkeypatch.setattr(subwords, "SEARCHES_BEFORE_TABLE", searches)
        monkeypatch.setattr(subwords, "UNITS_BEFORE_DICTIONARY", units_by_table)
        pieces = model.subwords.pieces
        known = Subwords(pieces, [SCORES[PIECES.index(piece)] for piece in pieces])
        assert [known.pieces[number] for number in known.encode(text)] == expected


def test_threads_that_begin_together_cut_words_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """While one of them builds the table or the dictionary of pieces, the others do not use half of it."""
    switch_seconds = sys.getswitchinterval()
    texts = [f"orchard{number} deployment{number * 7} handbook{number * 13}" for number in range(600)]
    expected = [*map(open_model(BUNDLED).subwords.encode, texts)]
    monkeypatch.setattr(subwords, "SEARCHES_BEFORE_TABLE", 8)
    monkeypatch.setattr(subwords, "UNITS_BEFORE_DICTIONARY", 300)
    sys.setswitchinterval(1e-4)
    try:
        with ThreadPoolExecutor(8) as threads:
            assert [*threads.map(open_model(BUNDLED).subwords.encode, texts)] == expected
    finally:
        sys.setswitchinterval(switch_seconds)


@given(st.lists(st.text()))
def test_several_texts_have_the_tokens_that_each_has(texts: list[str]) -> None:
    embedder = StaticEmbedder(1)
    tokens, counts = embedder.tokens_of_each(texts)
    each = [embedder.token_ids(text).tolist() for text in texts]
    assert counts.tolist() == [*map(len, each)]
    assert tokens.tolist() == [*chain.from_iterable(each)]


def test_a_long_text_is_encoded_in_blocks_with_the_same_ids() -> None:
    known = vocabulary()
    words = "The servers サーバーの設定をする, getting C++ ".split(" ")
    text = " ".join(words * 5_000)
    blocks = [list(block) for block in known.encode_blocks(text)]
    assert len(blocks) > 5
    assert [number for block in blocks for number in block] == [n for w in words for n in known.encode(w)] * 5_000


@pytest.mark.parametrize(
    ("part", "megabytes"), [("設定する", 10), ("a", 1), ("設", 1), ("aB1", 1), ("ж+", 1), ("\ud800", 1), ("\u0301", 1)]
)
def test_megabytes_in_one_line_are_one_text(part: str, megabytes: int, embedder: StaticEmbedder) -> None:
    text = part * (megabytes * 1_000_000 // len(part.encode("utf-8", "surrogatepass")))
    (vector,) = embedder.embed_documents([text])
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-4) or not vector.any()


def test_units_have_a_longest() -> None:
    assert {len(unit) for unit in units("設" * 1_000 + "x" * 1_000 + "ж" * 1_000 + "9" * 1_000)} <= set(
        range(MAX_UNIT_CHARACTERS + 2)
    )


def test_a_model_comes_back_from_the_disk_as_it_was_written(model: StaticModel) -> None:
    vectors = tiny_vectors()
    assert (model.dimension, str(model.vectors.dtype), str(model.scales.dtype)) == (8, "int8", "float32")
    for number, piece in enumerate(model.subwords.pieces):
        row = vectors[PIECES.index(piece)]
        assert np.abs(model.vectors[number] * model.scales[number] - row).max() <= np.abs(row).max() / 127 / 2 + 1e-6


@given(st.lists(st.lists(st.integers(0, len(PIECES) - 1), max_size=40), max_size=9))
def test_rows_that_are_kept_are_those_of_the_file(folder: Path, asked: list[list[int]]) -> None:
    model = open_model(folder)
    for numbers in asked:
        chosen = np.array(numbers, np.uint16)
        assert (model.rows.take(chosen) == model.vectors[chosen]).all()


def test_threads_that_begin_together_get_the_same_rows() -> None:
    model = open_model(BUNDLED)
    chance = np.random.default_rng(1)
    asked = [chance.integers(0, len(model.vectors), 200) for _ in range(300)]
    switch_seconds = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    try:
        with ThreadPoolExecutor(8) as threads:
            found = [*threads.map(model.rows.take, asked)]
    finally:
        sys.setswitchinterval(switch_seconds)
    assert all((rows == model.vectors[numbers]).all() for rows, numbers in zip(found, asked, strict=True))


def test_a_written_model_cuts_texts_as_the_vocabulary_it_was_written_from(tmp_path: Path) -> None:
    pieces, scores = ["a", "b", "ab", "ba"], [-1.1, -2.2, -3.3000000001, -3.2999999999]
    write_model(tmp_path, pieces, scores, np.ones((4, 2), np.float32), "close")
    before, after = Subwords(pieces, scores), open_model(tmp_path).subwords
    for unit in ("ab", "ba", "aba", "bab", "c", "\ud800", "abba" * 9):
        assert [pieces[number] for number in before.encode_unit(unit)] == [
            after.pieces[number] for number in after.encode_unit(unit)
        ]


def test_equal_models_have_equal_files_and_other_models_another_name(folder: Path, tmp_path: Path) -> None:
    again = write_model(tmp_path / "again", PIECES, SCORES, tiny_vectors(), "tiny")
    reversed_ = write_model(tmp_path / "reversed", PIECES[::-1], SCORES[::-1], tiny_vectors()[::-1], "tiny")
    assert again == reversed_
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == {
        file.name: file.read_bytes() for file in (tmp_path / "again").iterdir()
    }
    write_model(tmp_path / "other", PIECES, SCORES, -tiny_vectors(), "tiny")
    names = [open_model(each).identity for each in (folder, tmp_path / "other")]
    assert names[0] != names[1]
    assert all(name.startswith("static-tiny-") and name.endswith("/8") for name in names)


def test_pieces_that_cannot_be_written_are_refused(tmp_path: Path) -> None:
    for pieces in (["a", "a"], ["a\n", "b"], ["", "b"], ["a"]):
        with pytest.raises(ValueError, match="piece"):
            write_model(tmp_path, pieces, [-1.0, -1.0], np.ones((2, 4), np.float32), "bad")


def test_a_missing_or_damaged_model_is_a_sentence(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(EmbedderError, match=r"reinstall annai, or set another embedding\.provider"):
        StaticEmbedder(4, tmp_path / "nowhere")
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "vocabulary.txt").write_bytes(b"a\nb")
    with pytest.raises(EmbedderError, match="damaged"):
        StaticEmbedder(4, tmp_path)


@given(TEXTS, TEXTS)
def test_the_sums_of_two_texts_add_up(embedder: StaticEmbedder, one: str, other: str) -> None:
    parts = embedder.embed_sums([one, other])
    assert np.allclose(embedder.embed_sums([f"{one} {other}"])[0], parts[0] + parts[1], atol=1e-4)


@given(st.lists(TEXTS, max_size=9))
def test_vectors_do_not_depend_on_the_batch(embedder: StaticEmbedder, texts: list[str]) -> None:
    vectors = embedder.embed_documents(texts)
    for text, vector in zip(texts, vectors, strict=True):
        assert np.allclose(vector, embedder.embed_query(text), atol=1e-6)
        assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5) or not vector.any()


def test_a_text_is_the_sum_of_its_subwords(embedder: StaticEmbedder) -> None:
    vectors = tiny_vectors()
    expected = sum(vectors[PIECES.index(piece)] for piece in ("▁get", "ing", "設定", "する"))
    assert np.allclose(embedder.embed_sums(["Geting 設定する"])[0], expected, atol=0.1)


@pytest.mark.parametrize("text", ["", " ", "🎉", "\0", "\ud800\udfff", "…——", "\u3099"])
def test_a_text_that_says_nothing_is_a_row_of_zeros(embedder: StaticEmbedder, text: str) -> None:
    assert not embedder.embed_query(text).any()
    assert not embedder.embed_sums([text]).any()


def test_the_bundled_model_brings_the_two_languages_together() -> None:
    embedder = load_embedder(Embedding())
    texts = [
        "ログインの方法",
        "送料はいくらですか",
        "データベースを復元する",
        "how to log in",
        "what does shipping cost",
        "restore a database",
    ]
    rows = embedder.embed_documents(texts)
    cosines = rows[:3] @ rows[3:].T
    assert cosines.argmax(axis=0).tolist() == [0, 1, 2]
    assert cosines.argmax(axis=1).tolist() == [0, 1, 2]


def test_the_bundled_model_is_small_enough_for_the_package_and_has_its_card() -> None:
    assert sum(file.stat().st_size for file in BUNDLED.iterdir()) < 20_000_000
    assert "licence" in (BUNDLED / "CARD.md").read_text(encoding="utf-8").lower()
