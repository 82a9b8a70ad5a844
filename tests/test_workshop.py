"""Does the workshop make a model that finds documents? All steps on a handful of made-up pairs."""

import gzip
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest

from annai.embedders.base import Embedder, Kind, Vectors
from annai.embedders.static import StaticEmbedder
from annai.embedders.static_model import open_model, write_model
from annai.embedders.subwords import WORD_START, Subwords
from model import card
from model import evaluate as evaluation
from model.build import STEPS, Workshop, build, install
from model.corpus import corpus_names, read_corpus
from model.evaluate import Result, evaluate_sets, rank, read_results, write_results
from model.pairs import pair_files
from model.prepare import prepare
from model.quantise import losses, quantise
from model.settings import FOLDER, Settings, Start, read_settings
from model.start import reduce_dimensions, start_vectors, write_start
from model.tables import Table, read_rows, trained_table, write_mean, write_rows
from model.teach import sample_sentences, teach
from model.translations import write_translations
from model.use import TEXTS_PER_FILE, CachedEmbedder
from model.vocabulary import Scores, read_vocabulary, write_vocabulary
from model.whiten import whitening_map

THINGS = {"cat": "猫", "dog": "犬", "river": "川", "mountain": "山", "bread": "パン", "water": "水", "train": "電車"}
DEEDS = {"sees": "見る", "likes": "好む", "finds": "探す", "loses": "失う", "paints": "描く", "sells": "売る"}
TINY = {
    "latin": "60",
    "japanese": "60",
    "least_count_latin": "1",
    "least_count_japanese": "1",
    "general_share": "0",
    "whole_words": "20",
    "provider": '"hashing"',
    "steps": "60",
    "batch": "64",
    "warm_up": "10",
    "smallest_set": "30",
    "rate": "3e-2",
    "largest_set": "250",
    "seeds": "[1, 2]",
    "dimensions": "32",
}
REPEATED_KEYS = {
    "dimensions = [288]": "dimensions = [32, 16]",
    "dimension_weights = [1.0]": "dimension_weights = [1.0, 0.3]",
    "steps = 2_000": "steps = 80",
}
"""Keys that occur twice, in [training] and in its soup."""


def sentences() -> list[tuple[str, str]]:
    """English and Japanese texts that mean the same: only their pairing says so."""
    return [
        (f"The {one} {deed} the {other}", f"{THINGS[one]}が{THINGS[other]}を{DEEDS[deed]}")
        for one in THINGS
        for deed in DEEDS
        for other in THINGS
    ]


def write_lines(path: Path, rows: Sequence[object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder of pairs and word counts."""
    folder = tmp_path / "data"
    pairs = sentences()
    write_lines(folder / "pairs" / "pydocs_po_en_ja.jsonl.gz", pairs)
    write_lines(folder / "pairs" / "fastapi_en_heading2body.jsonl.gz", [(left.split()[1], left) for left, _ in pairs])
    sections = [(f"{word}\n{left}", f"{THINGS[word]}\n{right}") for left, right in pairs for word in left.split()[1:2]]
    write_lines(folder / "pairs" / "fastapi_section_en_ja.jsonl.gz", sections)
    write_lines(folder / "pairs" / "jmdict.jsonl.gz", [(there, here) for here, there in (THINGS | DEEDS).items()] * 3)
    write_lines(folder / "pairs" / "found_somewhere.jsonl.gz", [("a", "b")])
    for name, words in (("latin", [*THINGS, *DEEDS, "the"]), ("ja", [*THINGS.values(), *DEEDS.values(), "が", "を"])):
        with gzip.open(folder / f"words_{name}.tsv.gz", "wt", encoding="utf-8") as file:
            file.writelines(f"{word}\t{count}\n" for count, word in enumerate(words, 5))
    return folder


@pytest.fixture
def settings_file(tmp_path: Path) -> Path:
    """The real settings, made small."""
    text = (FOLDER / "settings.toml").read_text("utf-8")
    for key, value in TINY.items():
        # Only the first, in its own section: [training.cpu] is taken out, and `dimensions` of [training] is a list.
        text, found = re.subn(rf"^{key} = [^#\n]*", f"{key} = {value} ", text, count=1, flags=re.MULTILINE)
        assert found, key
    text = re.sub(r"\[training\.cpu\].*?(?=\n\[)", "", text, flags=re.DOTALL)
    for old, new in REPEATED_KEYS.items():
        assert old in text, old
        text = text.replace(old, new)
    file = tmp_path / "settings.toml"
    file.write_text(text, "utf-8")
    return file


@pytest.fixture
def tiny(settings_file: Path) -> Settings:
    return read_settings(settings_file)


@pytest.fixture
def scores() -> Scores:
    """A vocabulary made by hand: every word of the sentences."""
    words = [*THINGS.values(), *DEEDS.values(), "が", "を", *(WORD_START + word for word in (*THINGS, *DEEDS, "the"))]
    return {word: -2.0 - number / 100 for number, word in enumerate(words)}


@pytest.fixture
def evals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An evaluation folder with one set, asked in the other language, and a judge."""
    folder = tmp_path / "eval"
    (folder / "tiny").mkdir(parents=True)
    (folder / "score.py").write_text(
        dedent("""
            from collections import defaultdict

            def doc_id(path):
                return path.removesuffix(".md")

            def load_qrels(path):
                found = defaultdict(dict)
                for line in path.read_text("utf-8").splitlines():
                    query, document, relevance = line.split("\\t")
                    found[query][document] = int(relevance)
                return found

            def measures(ranked, relevant):
                hits = [rank for rank, document in enumerate(ranked) if document in relevant]
                value = 1 / (hits[0] + 1) if hits else 0.0
                return value, value, value
        """),
        "utf-8",
    )
    documents = [
        {"id": f"d/{n}", "title": f"{it}", "text": f"{it}が{it}を見る"} for n, it in enumerate(THINGS.values())
    ]
    write_lines(folder / "tiny" / "corpus.jsonl.gz", documents)
    queries = [{"id": f"q{here}", "text": f"the {here}", "type": "xl"} for here in THINGS]
    (folder / "tiny" / "queries.jsonl").write_text("".join(json.dumps(query) + "\n" for query in queries), "utf-8")
    (folder / "tiny" / "qrels.tsv").write_text(
        "".join(f"q{here}\td/{n}\t1\n" for n, here in enumerate(THINGS)), "utf-8"
    )
    monkeypatch.setenv("ANNAI_EVAL", str(folder))
    return folder


def write_table(folder: Path, scores: Mapping[str, float], files: int = 2) -> Path:
    """A table as train.py writes it, in which words of one meaning share a direction."""
    meanings = {WORD_START + here: there for here, there in (THINGS | DEEDS).items()}
    directions = np.random.default_rng(0).normal(size=(len(scores), 32))
    ids = {piece: number for number, piece in enumerate(scores)}
    rows = np.array([directions[ids.get(meanings.get(piece, piece), ids[piece])] for piece in scores], np.float16)
    folder.mkdir(parents=True)
    for number, part in enumerate(np.array_split(rows, files)):
        np.save(folder / f"rows-{number}.npy", part)
    (folder / "table.json").write_text(json.dumps({"files": files, "rows": len(rows)}), "utf-8")
    return folder


def test_only_files_with_a_known_licence_are_read(data: Path, tiny: Settings, caplog: pytest.LogCaptureFixture) -> None:
    names = [file.name for file in pair_files(data, tiny)]
    assert names == ["fastapi_en_heading2body", "fastapi_section_en_ja", "jmdict", "pydocs_po_en_ja"]
    assert "skipped found_somewhere.jsonl.gz" in caplog.text


def test_no_pairs_at_all_says_which_variable_names_their_folder(tmp_path: Path, tiny: Settings) -> None:
    with pytest.raises(FileNotFoundError, match="ANNAI_MODEL_DATA"):
        pair_files(tmp_path, tiny)


def test_a_source_of_an_unknown_kind_is_refused(settings_file: Path) -> None:
    settings_file.write_text(settings_file.read_text("utf-8").replace('kind = "word"', 'kind = "wrd"'), "utf-8")
    with pytest.raises(ValueError, match="'wrd'"):
        read_settings(settings_file)


def test_every_source_has_what_the_card_must_say() -> None:
    for source in read_settings().sources:
        assert all((source.name, source.address, source.licence, source.attribution)), source


def test_a_vocabulary_survives_its_file(tmp_path: Path) -> None:
    scores = {"▁a": -1.5, "\u2028": -2.0, "\t": -3.0, "東京": -4.25}
    write_vocabulary(scores, tmp_path / "vocabulary.tsv")
    assert read_vocabulary(tmp_path / "vocabulary.tsv") == scores


def test_the_pack_holds_the_pairs_as_the_product_cuts_them(
    data: Path, tiny: Settings, scores: Scores, tmp_path: Path
) -> None:
    prepare(data, tiny, scores, tmp_path / "pack.npz")
    with np.load(tmp_path / "pack.npz") as pack:
        ends = np.cumsum(pack["lengths"], dtype=np.int64)
        texts = [part.tolist() for part in np.split(pack["pieces"], ends[:-1])]
        subwords = Subwords(list(scores), list(scores.values()))
        pairs = [[texts[left], texts[right]] for left, right in _sides(pack, "pydocs_po_en_ja")]
        assert len(pairs) == 250, "largest_set bounds a set"
        known = [[subwords.encode(left), subwords.encode(right)] for left, right in sentences()]
        assert all(pair in known for pair in pairs)
        headings = {tuple(texts[number]) for number in pack["fastapi_section_en_ja.left_heading"]}
        assert headings == {(list(scores).index(WORD_START + thing),) for thing in THINGS}
        assert pack["counts"].sum() == len(pack["pieces"])
        assert pack["kinds"].tolist() == ["passage", "section", "word", "plain"]


def _sides(pack: Mapping[str, "np.ndarray[tuple[int], np.dtype[np.uint32]]"], name: str) -> list[tuple[int, int]]:
    return list(zip(pack[f"{name}.left"].tolist(), pack[f"{name}.right"].tolist(), strict=True))


def test_texts_without_a_piece_teach_nothing(data: Path, tiny: Settings, scores: Scores, tmp_path: Path) -> None:
    write_lines(data / "pairs" / "pydocs_po_en_ja.jsonl.gz", [("the cat", "…"), ("the dog", "犬")])
    prepare(data, tiny, scores, tmp_path / "pack.npz")
    with np.load(tmp_path / "pack.npz") as pack:
        assert len(pack["pydocs_po_en_ja.left"]) == 1


def test_start_vectors_keep_what_sets_pieces_apart() -> None:
    chance = np.random.default_rng(0)
    plane = chance.normal(size=(50, 2)).astype(np.float32) @ chance.normal(size=(2, 40)).astype(np.float32)
    rows = reduce_dimensions(plane + 5, 2)
    assert rows.shape == (50, 2)
    assert (rows**2).sum(axis=1).mean() == pytest.approx(1, rel=1e-4)
    centred = plane - plane.mean(axis=0)
    apart, kept = (np.linalg.norm(each[:, None] - each[None], axis=2) for each in (centred, rows))
    np.testing.assert_allclose(kept / kept.max(), apart / apart.max(), atol=1e-3)


def test_start_vectors_are_written_as_int8(tmp_path: Path) -> None:
    rows = start_vectors(["▁cat", "猫", "▁cat"], Start(provider="hashing", dimensions=4))
    write_start(rows, tmp_path / "start.npz")
    with np.load(tmp_path / "start.npz") as written:
        np.testing.assert_allclose(written["rows"] * written["scales"][:, None], rows, atol=0.02)
    np.testing.assert_array_equal(rows[0], rows[2])


def test_a_quantised_table_finds_as_the_table_does(tmp_path: Path, scores: Scores, evals: Path) -> None:
    table = write_table(tmp_path / "seed1", scores)
    digests = quantise(table, scores, tmp_path / "model", "tiny")
    assert "vectors.npy" in digests
    whole = evaluate_sets("seed1", trained_table(table, scores), tmp_path / "build")
    small = evaluate_sets("int8", StaticEmbedder(64, tmp_path / "model"), tmp_path / "build")
    assert corpus_names(evals) == ["tiny"]
    assert whole[0].ndcg == 1.0
    assert losses(whole, small) == {"tiny": 0.0}
    assert read_results(tmp_path / "build" / "results.jsonl") == whole + small


def test_pieces_that_mean_the_same_in_the_other_script_translate_each_other(tmp_path: Path) -> None:
    pieces = ["▁service", "▁services", "サービス", "▁rose", "薔薇", "か", "▁far"]
    angles = np.radians([0, 20, 5, 90, 95, 2, 200])
    vectors = np.column_stack([np.cos(angles), np.sin(angles)]).astype(np.float32)
    write_model(tmp_path, pieces, [-1.0] * len(pieces), vectors, "angles")
    write_translations(tmp_path)
    embedder = StaticEmbedder(0, tmp_path)
    found = {each: embedder.translations(number) for number, each in enumerate(sorted(pieces))}
    assert found["サービス"] == ["▁service", "▁services"]
    assert found["▁rose"] == ["薔薇"]
    assert found["▁service"] == found["▁services"] == ["サービス"]  # and not か, which would begin other words
    assert found["▁far"] == []


def test_a_table_of_another_vocabulary_is_refused(tmp_path: Path, scores: Scores) -> None:
    table = write_table(tmp_path / "seed1", scores)
    with pytest.raises(ValueError, match="another vocabulary"):
        quantise(table, {**scores, "more": -1.0}, tmp_path / "model", "tiny")


def test_a_table_with_a_missing_part_is_refused(tmp_path: Path, scores: Scores) -> None:
    table = write_table(tmp_path / "seed1", scores, files=2)
    (table / "table.json").write_text(json.dumps({"files": 1, "rows": len(scores)}), "utf-8")
    with pytest.raises(ValueError, match="a file is missing"):
        read_rows(table)


def test_documents_are_ranked_by_their_best_passage_and_their_whole() -> None:
    passages = np.array([[1, 0], [0, 1], [0.8, 0.6], [0, 1]], np.float32)
    queries = np.array([[1, 0]], np.float32)
    assert rank(passages, queries, [0, 0, 1, 2], whole=0.0) == [[0, 1, 2]]
    assert rank(passages, queries, [0, 0, 1, 2], whole=3.0) == [[1, 0, 2]]


def test_passages_of_a_set_know_their_document(tmp_path: Path, evals: Path) -> None:
    corpus = read_corpus(evals, "tiny", tmp_path / "corpora")
    assert corpus.documents[corpus.owners[2]] == "d/2"
    assert corpus.passages[2].title == "川"
    assert corpus.queries[2].relevant == {"d/2": 1}


def test_new_results_replace_older_ones_of_the_same_model_and_set(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    write_results([result("seed1", "tiny", 0.5), result("use", "tiny", 0.4)], file)
    write_results([result("seed1", "tiny", 0.6)], file)
    assert read_results(file) == [result("use", "tiny", 0.4), result("seed1", "tiny", 0.6)]


def result(model: str, corpus: str, ndcg: float) -> Result:
    return Result(model, corpus, "all", 7, ndcg, ndcg, ndcg)


def test_the_command_line_measures_a_table(
    tmp_path: Path, scores: Scores, evals: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = write_table(tmp_path / "build" / "tables" / "seed1", scores)
    write_vocabulary(scores, tmp_path / "build" / "vocabulary.tsv")
    evaluation.main(["--table", str(table), "--build", str(tmp_path / "build"), "--name", "mine", *corpus_names(evals)])
    assert re.search(r"^mine +tiny +nDCG@10 1\.0000 .*7 queries", capsys.readouterr().out)


class Counting(Embedder):
    """Counts the texts that it embeds."""

    dimension = 2
    identity = "counting"

    def __init__(self) -> None:
        super().__init__(batch_size=64)
        self.asked = 0

    def embed_batch(self, texts: Sequence[str], kind: Kind) -> Vectors:  # noqa: ARG002 - queries are texts like others
        self.asked += len(texts)
        return np.array([[len(text), 1] for text in texts], np.float32)


def test_vectors_of_a_slow_encoder_are_computed_once(tmp_path: Path) -> None:
    embedder = Counting()
    texts = ["a" * (number % 9 + 1) for number in range(TEXTS_PER_FILE + 10)]
    first = CachedEmbedder(embedder, tmp_path).embed_documents(texts)
    again = CachedEmbedder(embedder, tmp_path).embed_documents(texts)
    assert embedder.asked == len(texts)
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(first, embedder.embed_documents(texts))
    assert CachedEmbedder(embedder, tmp_path).embed_documents([]).shape == (0, 2)


def test_the_card_names_every_source_and_every_figure(tmp_path: Path, scores: Scores) -> None:
    quantise(write_table(tmp_path / "seed1", scores), scores, tmp_path / "model", "tiny")
    results = [result("seed1", "tiny", 0.5), result("seed2", "tiny", 0.52), result("use", "tiny", 0.4)]
    results += [result("mean", "tiny", 0.515), result("int8", "tiny", 0.514), result("fused", "small", 0.75)]
    (tmp_path / "TRIED.md").write_text("Nothing helped.\n", "utf-8")
    text = card.write_card(
        read_settings(), tmp_path / "model", results, ["seed1", "seed2", "seed3"], tmp_path / "TRIED.md"
    )
    assert "| nDCG@10 | queries | seeds | shipped | USE | annai |" in text
    assert "| tiny | 7 | .510 ± .010 | .514 | .400 | – |" in text
    assert "| small | 7 | – | – | – | .750 |" in text
    assert "mean of 2 seeds" in text
    assert "lose at most +0.0010 nDCG@10 against the floats they come from (tiny)" in text
    assert "## What was tried\n\nNothing helped.\n\n## Limits" in text
    assert open_model(tmp_path / "model").name in text
    for source in read_settings().sources:
        assert source.licence in text
        assert source.attribution in text
        assert f"<{source.address}>" in text
        assert all(f"`{file}`" in text for file in source.files)
    assert "wordfreq" in text
    assert "USE-multilingual-3" in text
    assert "$" not in text


def test_whitening_spreads_vectors_more_equally_and_power_0_changes_nothing() -> None:
    vectors = np.random.default_rng(1).standard_normal((500, 8)).astype(np.float32)
    vectors[:, 0] *= 5
    assert whitening_map(vectors, 0.0) == pytest.approx(np.eye(8), abs=1e-5)
    half, whole = (np.linalg.cond(np.cov((vectors @ whitening_map(vectors, power)).T)) for power in (0.5, 1.0))
    assert np.linalg.cond(np.cov(vectors.T)) > 2 * half > 2 * whole
    assert whole == pytest.approx(1, abs=0.1)


def test_sentences_come_with_the_encoders_vectors(data: Path, tiny: Settings, scores: Scores, tmp_path: Path) -> None:
    teach(data, tiny, scores, tmp_path / "teach.npz")
    sentences = sample_sentences(data, tiny)
    assert sentences == sample_sentences(data, tiny), "the same ones each time"
    assert all(tiny.teach.shortest <= len(sentence) <= tiny.teach.longest for sentence in sentences)
    subwords = Subwords(list(scores), list(scores.values()))
    with np.load(tmp_path / "teach.npz") as taught:
        assert len(taught["rows"]) == len(taught["lengths"]) == len(sentences)
        texts = np.split(taught["pieces"], np.cumsum(taught["lengths"], dtype=np.int64)[:-1])
        assert sorted(map(list, texts)) == sorted(map(subwords.encode, sentences))


def test_only_as_many_sentences_as_the_settings_say_are_sampled(data: Path, tiny: Settings) -> None:
    asked = replace(tiny, teach=replace(tiny.teach, sentences={"pydocs_po_en_ja": 5, "jmdict": 5}))
    assert len(sample_sentences(data, asked)) == 5, "definitions of one word are no sentences"


def test_the_mean_of_tables_lies_between_them(tmp_path: Path) -> None:
    for name, value in (("a", 1.0), ("b", 3.0)):
        write_rows(np.full((4, 2), value, np.float32), tmp_path / name, {})
    write_mean([tmp_path / "a", tmp_path / "b"], tmp_path / "mean")
    np.testing.assert_array_equal(read_rows(tmp_path / "mean"), np.full((4, 2), 2.0))


def test_each_training_of_a_soup_differs_in_what_the_settings_say(settings_file: Path) -> None:
    pytest.importorskip("torch")
    from model.train import read_soup  # needs torch

    soup = read_soup(settings_file, "cuda", ["batch=32"])
    assert [training.teach_share for training in soup] == [0, 0, 0.4]
    assert {training.batch for training in soup} == {32}
    assert {training.steps for training in read_soup(FOLDER / "settings.toml", "cpu")} == {3000}
    with pytest.raises(SystemExit, match="'bach'"):
        read_soup(settings_file, "cuda", ["bach=32"])


def test_sentences_that_are_as_similar_as_wanted_have_the_least_loss(settings_file: Path) -> None:
    torch = pytest.importorskip("torch")
    from model.train import read_soup, similarity_loss  # needs torch

    settings = read_soup(settings_file, "cuda")[0]
    torch.manual_seed(0)
    vectors, others = torch.nn.functional.normalize(torch.randn(2, 20, 8), dim=2)
    near = settings.scale * vectors @ vectors.T
    assert similarity_loss(vectors, vectors, near, settings) < similarity_loss(others, others, near, settings)


@pytest.mark.usefixtures("evals")
def test_a_table_from_elsewhere_becomes_a_model_a_card_and_a_report(
    data: Path, settings_file: Path, scores: Scores, tmp_path: Path
) -> None:
    folder = tmp_path / "build"
    tables = tuple(write_table(tmp_path / "gpu" / name, scores) for name in ("a", "b"))
    write_vocabulary(scores, folder / "vocabulary.tsv")
    workshop = Workshop(data, settings_file, folder, tables)
    build(workshop)
    report = json.loads((folder / "report.json").read_text("utf-8"))
    assert set(report["seconds"]) == {"mean", "whiten", "quantise", "evaluate", "card"}
    assert report["int8_loses"] == {"tiny": 0.0}
    assert {str(workshop.model / "vectors.npy"), str(workshop.card)} <= report["artefacts"].keys()
    assert str(data / "pairs" / "jmdict.jsonl.gz") in report["sources"]
    assert {result.model for result in read_results(workshop.results)} == {"a", "b", "mean", "int8"}

    install(workshop, tmp_path / "product", tmp_path / "card.md")
    assert open_model(tmp_path / "product").dimension == 32
    assert (tmp_path / "product" / card.COPY).read_text("utf-8") == (tmp_path / "card.md").read_text("utf-8")


def test_nothing_to_measure_with_still_makes_a_model(
    data: Path, settings_file: Path, scores: Scores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANNAI_EVAL", str(tmp_path / "nowhere"))
    write_vocabulary(scores, tmp_path / "build" / "vocabulary.tsv")
    workshop = Workshop(data, settings_file, tmp_path / "build", (write_table(tmp_path / "a", scores),))
    build(workshop)
    assert workshop.card.exists()
    assert not workshop.results.exists()


@pytest.mark.usefixtures("evals")
def test_the_whole_chain_learns_what_only_the_pairs_say(data: Path, settings_file: Path, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("sentencepiece")
    torch.set_num_threads(1)  # more would wait for each other where tests run side by side
    workshop = Workshop(data, settings_file, tmp_path / "build")
    build(workshop)
    scores = read_vocabulary(workshop.vocabulary)
    with np.load(workshop.start) as start:
        rows = start["rows"] * start["scales"][:, None]
    untrained = Table(rows, Subwords(list(scores), list(scores.values())).encode)
    assert evaluate_sets("untrained", untrained, tmp_path / "untrained")[0].ndcg < 0.6
    measured = {result.model: result.ndcg for result in read_results(workshop.results) if result.type == "all"}
    assert measured.keys() == {"seed1", "seed2", "mean", "int8"}
    assert min(measured.values()) > 0.9
    report = json.loads((workshop.folder / "report.json").read_text("utf-8"))
    assert list(report["seconds"]) == list(STEPS)

    before = read_rows(workshop.tables[0])
    build(workshop, skip=[step for step in STEPS if step != "train"])
    np.testing.assert_array_equal(read_rows(workshop.tables[0]), before, "equal seeds give equal tables")


def test_unused_rows_catch_up_to_where_plain_adam_moves_them() -> None:
    torch = pytest.importorskip("torch")
    from model.train import RowAdam  # needs torch

    torch.manual_seed(0)
    plain = torch.nn.Parameter(torch.ones(4, 3))
    adam = torch.optim.Adam([plain], 0.01, (0.9, 0.99))
    rows = RowAdam(torch.ones(4, 3), 0.01, (0.9, 0.99))
    for step in range(1, 30):
        touched = torch.tensor([0, step % 4]).unique()
        gradient = torch.randn(len(touched), 3) + 1
        rows.catch_up(touched, step, 1.0)
        rows.update(touched, gradient, step, 1.0)
        plain.grad = torch.zeros(4, 3)
        plain.grad[touched] = gradient
        adam.step()
    assert torch.allclose(rows.catch_up(torch.arange(4), 30, 1.0), plain.detach(), atol=0.006)
