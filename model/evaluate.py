"""How well does a model find documents? Measured on the evaluation sets, with vectors only and files as documents.

    python -m model.evaluate (--table DIR | --model FOLDER | --yardstick | --use) [--name NAME] [SET …]

adds the results to build/results.jsonl and prints a line for each set.
"""

import argparse
import json
import logging
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np

from annai.embedders.base import Vectors, normalise_rows
from annai.embedders.static import StaticEmbedder
from annai.indexing.features import embedded_text, weighted_sums
from annai.searching.ranking import DOCUMENT_WEIGHT
from model.corpus import Corpus, corpus_names, eval_folder, load_script, read_corpus
from model.settings import BUILD, data_folder
from model.tables import trained_table, yardstick
from model.use import sentence_encoder
from model.vocabulary import read_vocabulary

logger = logging.getLogger(__name__)

QUERY_BATCH_SIZE = 256
"""Queries ranked at once: this bounds the memory of the scores."""


@runtime_checkable
class Additive(Protocol):
    """An embedder whose vectors add up."""

    def embed_sums(self, texts: Sequence[str]) -> Vectors:
        """The sums, one row for each text, not scaled."""
        ...


class Plain(Protocol):
    """Any other embedder."""

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Vectors of length 1, one row for each text."""
        ...


@dataclass(frozen=True, slots=True)
class Result:
    """The measures of one type of queries of a set, or of all of them (type "all")."""

    model: str
    corpus: str
    type: str
    queries: int
    ndcg: float
    recall: float
    mrr: float

    def __str__(self) -> str:
        measures = f"nDCG@10 {self.ndcg:.4f}  Recall@5 {self.recall:.4f}  MRR@10 {self.mrr:.4f}"
        return f"{self.model:<16} {self.corpus:<18} {measures}  ({self.queries} queries)"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure one embedder on the named sets, or on all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    subject = parser.add_mutually_exclusive_group(required=True)
    subject.add_argument("--table", type=Path, metavar="DIR", help="a table that train.py wrote")
    subject.add_argument("--model", type=Path, metavar="FOLDER", help="a model as the product opens it")
    subject.add_argument("--yardstick", action="store_true", help="the first result of the recipe")
    subject.add_argument("--use", action="store_true", help="USE-multilingual-3, about 60 texts a second")
    parser.add_argument("--name", help="the name of the results; default: the folder's name")
    parser.add_argument(
        "--build", type=Path, default=BUILD, metavar="FOLDER", help="the folder of the workshop's files"
    )
    parser.add_argument("sets", nargs="*", metavar="SET")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    name, embedder = _subject(options)
    evaluate_sets(options.name or name, embedder, options.build, options.sets)


def evaluate_sets(model: str, embedder: Additive | Plain, build: Path, sets: Sequence[str] = ()) -> list[Result]:
    """Evaluate the named sets, or all; each is printed and written before the next begins."""
    folder = eval_folder()
    found = []
    for name in sets or corpus_names(folder):
        corpus = read_corpus(folder, name, build / "corpora")
        results = evaluate(model, embedder, corpus, folder)
        write_results(results, build / "results.jsonl")
        print(results[0], flush=True)
        found += results
    return found


def evaluate(model: str, embedder: Additive | Plain, corpus: Corpus, folder: Path) -> list[Result]:
    """Rank the documents for every query, and measure with the evaluation's own script."""
    passages, queries = passage_vectors(embedder, corpus), query_vectors(embedder, corpus)
    measures = load_script(folder).measures
    groups: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
    for query, ranked in zip(corpus.queries, rank(passages, queries, corpus.owners, DOCUMENT_WEIGHT), strict=True):
        measured = measures([corpus.documents[index] for index in ranked], query.relevant)
        groups["all"].append(measured)
        groups[query.type].append(measured)
    found = []
    for kind, rows in sorted(groups.items(), key=lambda group: (group[0] != "all", group[0])):
        ndcg, recall, mrr = (round(float(column), 4) for column in np.mean(rows, axis=0))
        found.append(Result(model, corpus.name, kind, len(rows), ndcg, recall, mrr))
    return found


def passage_vectors(embedder: Additive | Plain, corpus: Corpus) -> Vectors:
    """One row for each passage, as the product's indexer makes them; not scaled for an additive embedder."""
    if isinstance(embedder, Additive):
        return weighted_sums(embedder.embed_sums, corpus.passages)
    return embedder.embed_documents([embedded_text(passage) for passage in corpus.passages])


def query_vectors(embedder: Additive | Plain, corpus: Corpus) -> Vectors:
    """One row of length 1 for each query."""
    texts = [query.text for query in corpus.queries]
    return normalise_rows(
        embedder.embed_sums(texts) if isinstance(embedder, Additive) else embedder.embed_documents(texts)
    )


def rank(passages: Vectors, queries: Vectors, owners: Sequence[int], whole: float) -> list[list[int]]:
    """The ten best documents of each query, by the best passage's cosine + `whole` × the whole document's."""
    order = np.argsort(owners, kind="stable")
    sorted_owners = np.asarray(owners)[order]
    starts = np.flatnonzero(np.r_[True, sorted_owners[1:] != sorted_owners[:-1]])
    documents = normalise_rows(np.add.reduceat(passages[order], starts, axis=0))
    rows = normalise_rows(passages[order])
    ranked: list[list[int]] = []
    for start in range(0, len(queries), QUERY_BATCH_SIZE):
        batch = queries[start : start + QUERY_BATCH_SIZE]
        scores = np.maximum.reduceat(batch @ rows.T, starts, axis=1) + whole * (batch @ documents.T)
        ranked.extend(np.argsort(-scores, axis=1, kind="stable")[:, :10].tolist())
    return ranked


def write_results(results: Sequence[Result], path: Path) -> None:
    """Add results to a file of JSON lines; they replace older ones of the same model and set."""
    new = {(result.model, result.corpus) for result in results}
    kept = [result for result in read_results(path) if (result.model, result.corpus) not in new]
    lines = (json.dumps({name: getattr(result, name) for name in Result.__slots__}) for result in [*kept, *results])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")


def read_results(path: Path) -> list[Result]:
    """What `write_results` wrote so far."""
    if not path.exists():
        return []
    return [Result(**json.loads(line)) for line in path.read_text("utf-8").splitlines()]


def _subject(options: argparse.Namespace) -> tuple[str, Additive | Plain]:
    """The embedder that the command line names, and its default name."""
    if options.table:
        return options.table.name, trained_table(options.table, read_vocabulary(options.build / "vocabulary.tsv"))
    if options.model:
        return options.model.name, StaticEmbedder(batch_size=64, folder=options.model)
    if options.yardstick:
        return "yardstick", yardstick(data_folder() / "baseline")
    return "use", sentence_encoder(options.build / "use")


if __name__ == "__main__":
    main()
