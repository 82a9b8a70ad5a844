"""Is the section shown the right one? Of the right page, chosen by several rules: a table of docs/ranking.md.

    python benchmarks/sections.py [--keep FOLDER]

The judgements of docs_ray name a page, and most of them a section of it. Those of en_chunking name passages of long
texts, which are joined here into pages of twelve, each passage a section under a heading that is only a number. Only
questions whose right page is among the first ten count. Every rule chooses one of the page's passages that were found;
its section is the right one, or the one around it or directly in it, or neither. The last row is what a search shows.
"""

import argparse
import gzip
import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from ranking import open_indexed

from annai.answers import Query
from annai.asking.exclusion import Exclusions
from annai.asking.meant import understand
from annai.engine import Engine
from annai.searching import passages as passage_search
from annai.searching import search
from annai.searching.closeness import Closeness
from annai.searching.evaluation import RANK_CUTOFF, read_judgements
from annai.searching.ranking import KEYWORD_WEIGHT, PHRASE_WEIGHT, Candidates
from annai.searching.results import ancestors
from annai.stores.base import Store
from annai.types import Section

sys.path.insert(0, str(Path(__file__).parents[1]))
from model.corpus import eval_folder

PASSAGES_PER_PAGE = 12

MARKUP = re.compile(r"\A(?:#+ |\.\. _|\()|(?::|\)=)\Z")
"""What surrounds the name of a section in its heading, or in a label before it."""

Floats = NDArray[np.floating]
Rule = Callable[[Candidates, Closeness, NDArray[np.int64]], Floats]
"""From the candidates, and the closeness of one page's passages, a score for each passage in these rows."""

SHOWN = "as shown"

RULES: Mapping[str, Rule] = {
    "the rule: cosine, words and phrases": lambda found, _, rows: _own(found)[rows],
    "cosine": lambda found, _, rows: found.similarity[rows],
    "words": lambda found, _, rows: found.keywords[rows],
    "closeness of the passage": lambda _, close, __: close.passage,
    "closeness of the best window": lambda _, close, __: close.window,
    "the rule + passage": lambda found, close, rows: _own(found)[rows] + close.passage,
    "the rule + window": lambda found, close, rows: _own(found)[rows] + close.window,
    "the rule + passage + window": lambda found, close, rows: _own(found)[rows] + close.passage + close.window,
    "cosine + words": lambda found, _, rows: found.similarity[rows] + found.keywords[rows],
    "cosine + 5 words": lambda found, _, rows: found.similarity[rows] + 5 * found.keywords[rows],
}


@dataclass(frozen=True, slots=True)
class SectionQuestion:
    """A question, the right page, and the names of the right sections."""

    text: str
    page: str
    names: frozenset[str]


def main() -> None:
    """Print one table for both sets."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", type=Path, help="lay out and index the sets here, and use what is there already")
    options = parser.parse_args()
    folder = eval_folder()
    with tempfile.TemporaryDirectory() as temporary:
        workspace = options.keep or Path(temporary)
        with open_indexed(folder, "docs_ray", workspace / "docs_ray") as engine:
            ray = measure(engine, [*ray_questions(folder / "docs_ray")])
        pages = workspace / "en_chunking_pages"
        questions = [*page_questions(folder / "en_chunking", pages / "tree")]
        with open_indexed(folder, "en_chunking", pages) as engine:
            joined = measure(engine, questions)
    print(
        "| the passage with the best | docs_ray | or next to it | en_chunking | or next to it |\n|---|---|---|---|---|"
    )
    for rule in (*RULES, SHOWN):
        cells = (f"{value:.1%}" for figures in (ray, joined) for value in np.mean(figures[rule], axis=0))
        print(f"| {rule} | {' | '.join(cells)} |")
    print(f"questions: {', '.join(str(len(next(iter(figures.values())))) for figures in (ray, joined))}")


def measure(engine: Engine, questions: Sequence[SectionQuestion]) -> dict[str, list[tuple[bool, bool]]]:
    """For every rule and question, whether the section is the right one, and whether it is that or one next to it."""
    figures: dict[str, list[tuple[bool, bool]]] = {rule: [] for rule in (*RULES, SHOWN)}
    for question in questions:
        tree = [each.section for each in engine.store.sections("root", question.page)]
        wanted = {each.order for name in question.names for each in find_named(engine.store, question.page, tree, name)}
        for rule, order in choose_sections(engine, question).items() if wanted else ():
            figures[rule].append((order in wanted, any(are_related(tree, order, each) for each in wanted)))
    return figures


def are_related(tree: Sequence[Section], one: int, other: int) -> bool:
    """Whether two leaves are under the same heading, or one is under a heading directly below the other's."""
    # The text before the first part of a section, numbered 0, is under the section's own heading.
    first, second = (
        tree[leaf.parent] if leaf.number[-1:] == (0,) and leaf.parent is not None else leaf
        for leaf in (tree[one], tree[other])
    )
    return first == second or first.parent == second.order or second.parent == first.order


def choose_sections(engine: Engine, question: SectionQuestion) -> dict[str, int]:
    """Rule → the section of the page that it chooses; nothing if the page is not among the first."""
    store, embedder = engine.store, engine.embedder
    with patch.object(passage_search, "MIN_SCORE_SHARE", 0.0), store.snapshot():
        passages = passage_search.find_passages(
            store, embedder, understand(store, Query(question.text)), Exclusions(store, ())
        )
        pages = [*dict.fromkeys(each.stored.path for each in passages)][:RANK_CUTOFF]
        answer = search.search(store, embedder, Query(question.text, limit=RANK_CUTOFF))
        own = [each for each in passages if each.stored.path == question.page]
        if question.page not in pages:
            return {}
        stored = [each.stored for each in own]
        close = passage_search.compare_tokens(store, question.text, stored, range(len(own)))
    candidates = own[0].details.candidates
    shown = [hit.section_number for hit in answer if hit.path == question.page]
    if close is None or not shown:
        return {}
    rows = np.array([each.row for each in own])
    tree = store.sections("root", question.page)
    best = {name: stored[int(np.argmax(rule(candidates, close, rows)))].section for name, rule in RULES.items()}
    orders = {
        name: next(each.order for each in ancestors(tree, section) if not each.piece) for name, section in best.items()
    }
    leaves = (each.section for each in tree if not each.section.piece)
    return {**orders, SHOWN: next(each.order for each in leaves if each.number == shown[0])}


def find_named(store: Store, page: str, tree: Sequence[Section], name: str) -> Iterator[Section]:
    """The deepest section with a heading of this name, or with what follows a label of this name."""
    document = store.document("root", page)
    at, follows = 0, False
    for line in document.text.splitlines(keepends=True) if document else ():
        words = line.strip()
        if words and (follows or slug(MARKUP.sub("", words)) == name):
            follows = words.startswith(".. _") or words.endswith(")=")
            if not follows:
                around = [each for each in tree if not each.piece and each.start <= at < each.end]
                yield from around[-1:]
                return
        at += len(line)


def slug(heading: str) -> str:
    """A heading as a web address names it."""
    return re.sub(r"[^a-z0-9]+", "-", heading.lower()).strip("-")


def ray_questions(folder: Path) -> Iterator[SectionQuestion]:
    """The questions that name a section."""
    judgements = read_judgements(folder / "qrels.tsv")
    for line in (folder / "queries.jsonl").read_text("utf-8").splitlines():
        values = json.loads(line)
        (page, *_) = judgements[values["id"]]
        if values["section"]:
            page = page if page.endswith(".rst") else f"{page}.md"
            yield SectionQuestion(values["text"], page, frozenset({slug(values["section"])}))


def page_questions(folder: Path, tree: Path) -> Iterator[SectionQuestion]:
    """Lay out the passages as pages, and return the questions with the pages and sections that answer them."""
    texts: dict[str, dict[str, str]] = {}
    page_of: dict[str, str] = {}
    with gzip.open(folder / "corpus.jsonl.gz", "rt", encoding="utf-8") as lines:
        for document in map(json.loads, lines):
            source, number = document["id"].rsplit("-", 1)
            page = f"{source}-{int(number) // PASSAGES_PER_PAGE:02}.md"
            page_of[document["id"]] = page
            texts.setdefault(page, {})[number] = document["text"]
    tree.mkdir(parents=True, exist_ok=True)
    for page, parts in texts.items():
        body = "\n\n".join(f"## {number}\n\n{text}" for number, text in parts.items())
        (tree / page).write_text(f"# {page.partition('-')[0]}\n\n{body}\n", "utf-8")
    judgements = read_judgements(folder / "qrels.tsv")
    for line in (folder / "queries.jsonl").read_text("utf-8").splitlines():
        values = json.loads(line)
        (first, *_) = ids = [*judgements[values["id"]]]
        names = frozenset(each.rsplit("-", 1)[1] for each in ids if page_of[each] == page_of[first])
        yield SectionQuestion(values["text"], page_of[first], names)


def _own(found: Candidates) -> Floats:
    return np.asarray(found.similarity + KEYWORD_WEIGHT * found.keywords + PHRASE_WEIGHT * found.phrases)


if __name__ == "__main__":
    main()
