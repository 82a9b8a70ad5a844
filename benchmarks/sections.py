"""Is the section shown the one that was asked for? Of the right file, by several rules: a table of docs/ranking.md.

    python benchmarks/sections.py [--keep FOLDER]

docs_ray's questions name a page and most of them a section of it. en_chunking's name passages of long texts, which are
joined here into pages of twelve, each passage a section under a heading that is a mere number. Only questions count
whose right page is among the first ten; of its passages that were found, every rule chooses one, and the section that
it belongs to is the one asked for, or the one around it or directly in it, or neither.
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
from ranking import indexed

from annai.engine import Engine
from annai.searching import search
from annai.searching.closeness import Closeness
from annai.searching.evaluation import DEPTH, read_judgements
from annai.searching.ranking import KEYWORD_WEIGHT, PHRASE_WEIGHT, Candidates
from annai.stores.base import Store
from annai.types import Query, Section

sys.path.insert(0, str(Path(__file__).parents[1]))
from model.corpus import eval_folder

PASSAGES_PER_PAGE = 12

MARKUP = re.compile(r"\A(?:#+ |\.\. _|\()|(?::|\)=)\Z")
"""What stands around the name of a section in its heading, or in a label before it."""

Numbers = NDArray[np.floating]
Rule = Callable[[Candidates, Closeness, NDArray[np.int64]], Numbers]
"""From what is known of all passages, and how close those of one page are, a score for these."""

RULES: Mapping[str, Rule] = {
    "the rule: cosine, words and phrases": lambda found, _, places: _own(found)[places],
    "cosine": lambda found, _, places: found.similarity[places],
    "words": lambda found, _, places: found.keywords[places],
    "closeness of the passage": lambda _, close, __: close.passage,
    "closeness of the best window": lambda _, close, __: close.window,
    "the rule + passage": lambda found, close, places: _own(found)[places] + close.passage,
    "the rule + window": lambda found, close, places: _own(found)[places] + close.window,
    "the rule + passage + window": lambda found, close, places: _own(found)[places] + close.passage + close.window,
    "cosine + words": lambda found, _, places: found.similarity[places] + found.keywords[places],
    "cosine + 5 words": lambda found, _, places: found.similarity[places] + 5 * found.keywords[places],
}


@dataclass(frozen=True, slots=True)
class Asked:
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
        place = options.keep or Path(temporary)
        with indexed(folder, "docs_ray", place / "docs_ray") as engine:
            ray = measured(engine, [*ray_questions(folder / "docs_ray")])
        pages = place / "en_chunking_pages"
        questions = [*page_questions(folder / "en_chunking", pages / "tree")]
        with indexed(folder, "en_chunking", pages) as engine:
            joined = measured(engine, questions)
    print(
        "| the passage with the best | docs_ray | or next to it | en_chunking | or next to it |\n|---|---|---|---|---|"
    )
    for rule in RULES:
        cells = (f"{value:.1%}" for figures in (ray, joined) for value in np.mean(figures[rule], axis=0))
        print(f"| {rule} | {' | '.join(cells)} |")
    print(f"questions: {', '.join(str(len(next(iter(figures.values())))) for figures in (ray, joined))}")


def measured(engine: Engine, questions: Sequence[Asked]) -> dict[str, list[tuple[bool, bool]]]:
    """For every rule and question whether the section was the one asked for, and whether it or one next to it was."""
    found: dict[str, list[tuple[bool, bool]]] = {rule: [] for rule in RULES}
    for asked in questions:
        tree = [each.section for each in engine.store.sections("root", asked.page)]
        wanted = {section.order for name in asked.names for section in named(engine.store, asked.page, tree, name)}
        for rule, order in shown(engine, asked).items() if wanted else ():
            found[rule].append((order in wanted, any(are_related(tree, order, each) for each in wanted)))
    return found


def are_related(tree: Sequence[Section], one: int, other: int) -> bool:
    """Whether two leaves stand under the same heading, or one of them under a heading directly below the other's."""
    # What stands before the first part of a section, numbered 0, stands under the section's own heading.
    first, second = (
        tree[leaf.parent] if leaf.number[-1:] == (0,) and leaf.parent is not None else leaf
        for leaf in (tree[one], tree[other])
    )
    return first == second or first.parent == second.order or second.parent == first.order


def shown(engine: Engine, asked: Asked) -> dict[str, int]:
    """Rule → the section that it shows of the page; nothing if the page is not among the first."""
    store, embedder = engine.store, engine.embedder_of("root")
    with patch.object(search, "FAINT", 0.0), store.snapshot():
        candidates = search._candidates(store, embedder, Query(asked.text))
        pages = [*dict.fromkeys(each.stored.path for each in candidates)][:DEPTH]
        own = [each for each in candidates if each.stored.path == asked.page]
        if asked.page not in pages:
            return {}
        stored = [each.stored for each in own]
        close = search._compare(store, embedder, asked.text, stored, range(len(own)))
    evidence = own[0].evidence.found
    if close is None or evidence is None:
        return {}
    places = np.array([each.place for each in own])
    tree = store.sections("root", asked.page)
    best = {name: stored[int(np.argmax(rule(evidence, close, places)))].section for name, rule in RULES.items()}
    return {
        name: next(each.order for each in search._lineage(tree, section) if not each.piece)
        for name, section in best.items()
    }


def named(store: Store, page: str, tree: Sequence[Section], name: str) -> Iterator[Section]:
    """The deepest section that a heading of this name, or what follows a label of this name, stands in."""
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
    """A heading as it is named in an address."""
    return re.sub(r"[^a-z0-9]+", "-", heading.lower()).strip("-")


def ray_questions(folder: Path) -> Iterator[Asked]:
    """The questions that name a section."""
    judgements = read_judgements(folder / "qrels.tsv")
    for line in (folder / "queries.jsonl").read_text("utf-8").splitlines():
        values = json.loads(line)
        (page, *_) = judgements[values["id"]]
        if values["section"]:
            page = page if page.endswith(".rst") else f"{page}.md"
            yield Asked(values["text"], page, frozenset({slug(values["section"])}))


def page_questions(folder: Path, tree: Path) -> Iterator[Asked]:
    """Lay the passages out as pages; the questions with the pages and sections that answer them."""
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
        yield Asked(values["text"], page_of[first], names)


def _own(found: Candidates) -> Numbers:
    return np.asarray(found.similarity + KEYWORD_WEIGHT * found.keywords + PHRASE_WEIGHT * found.phrases)


if __name__ == "__main__":
    main()
