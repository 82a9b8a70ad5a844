"""Which short questions do people ask, and which documents answer them? Derived mechanically, in both languages.

    python benchmarks/short_questions.py [--keep FOLDER] [--show 20]

One to three words: the tags, titles and headings of documents of docs_en and docs_ja, their nouns, the other language's
word for these (JMdict) and another word of the same meaning (WordNet; both lie in ../shared/model). They are asked of
collections of 30, 300 and some 2,000 documents. A document is right if the term that the question was made from is its
tag or stands in its title or in one of its headings. What no document holds in any of these forms is not answered:
terms of documents that are not in the collection, of other sets' questions for the largest one. Half of the questions,
by a digest of the term, are for fitting and half for judging. --show prints some of them; `confidence.py` asks them.
"""

import argparse
import gzip
import hashlib
import json
import random
import re
import shutil
import sys
import tempfile
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from annai.files.front_matter import split_front_matter
from annai.searching.evaluation import read_questions
from annai.text.tokens import STOP_WORDS

sys.path.insert(0, str(Path(__file__).parents[1]))
from model.corpus import corpus_names, eval_folder, write_files
from model.settings import SHARED

TREES: Mapping[str, bool] = {"docs_en": False, "docs_ja": True}
"""The trees that collections are taken from, and whether their documents are in Japanese."""

SIZES: Mapping[int, tuple[int, int]] = {30: (16, 16), 300: (4, 64), 0: (1, 256)}
"""Documents of a collection (0: all of them) → how many such collections of each tree, and questions of each kind for
each of them."""

ALL_SIZES = 2000
"""What the largest collections are called: docs_ja has 1,642 documents and docs_en 2,328."""

MAX_WORDS, MAX_CHARACTERS = 3, 10
"""The longest short question: words between spaces, and characters of one in Japanese."""

MAX_RIGHT_SHARE = 0.1
"""A term that a greater share of the documents has names no document."""

FREQUENT_WORDS = 15_000
"""Dictionaries know many words that nobody types: their words count if they are among so many of their language."""

_HEADING = re.compile(r"^#{1,4}\s+(.+?)\s*#*\s*$", re.MULTILINE)
_FENCE = re.compile(r"^(`{3,}|~{3,}).*?^\1", re.MULTILINE | re.DOTALL)
_HEADING_ID = re.compile(r"\{[#/%<].*?\}+|<[^>]*>|[`*_]|\[|\]\([^)]*\)|\{\{.*?\}\}")
_ENGLISH_WORD = re.compile(r"[A-Za-z][A-Za-z-]{3,}")
_JAPANESE_WORD = re.compile(r"[ァ-ヺー]{3,}|[一-龥]{2,6}")
_JAPANESE_RUN, _LATIN_WORD = re.compile(r"[ぁ-んァ-ヺー一-龥]+"), re.compile(r"[a-z0-9]+")
_JAPANESE = re.compile(r"[぀-ヿ一-龥]")
_NOT_A_PLAIN_PHRASE = re.compile(r"[^\w\s-]")
_GLOSS_REMARK = re.compile(r"\([^)]*\)")

_PART, _KANJI = re.compile(r"[A-Z]?[a-z]{2,}|[A-Z]{2,}"), re.compile(r"[一-龥]{3,}")

Kind = Literal["term", "translation", "synonym"]
KINDS: tuple[Kind, ...] = get_args(Kind)


class Document(NamedTuple):
    """What short questions are made from."""

    path: str
    labels: tuple[str, ...]
    """Its title, headings and tags."""
    terms: frozenset[str]
    """What it is about in one to three words: its short labels, and the nouns of all labels."""
    held: frozenset[str]
    """The words in its text, and the pairs of neighbouring characters in Japanese."""


class ShortQuestion(NamedTuple):
    """A short question, and the documents that answer it: none, if nothing does."""

    text: str
    kind: Kind
    right: frozenset[str]
    is_for_fitting: bool


class Collection(NamedTuple):
    """A collection of documents, as a folder, and what is asked of it."""

    name: str
    size: int
    folder: Path
    questions: tuple[ShortQuestion, ...]


def make_collections(workspace: Path) -> list[Collection]:
    """Lay out all collections below a folder; the same every time."""
    made = []
    foreign = foreign_terms()
    for tree, is_japanese in TREES.items():
        whole = workspace / tree / "tree"
        if not whole.exists():
            write_files(eval_folder(), tree, whole)
        documents = read_documents(whole, is_japanese)
        for size, (count, questions) in SIZES.items():
            for number in range(count):
                chance = random.Random(f"{tree} {size} {number}")  # noqa: S311
                chosen = chance.sample(documents, size) if size else documents
                folder = lay_out(whole, chosen, workspace / f"{tree}_{size}_{number}") if size else workspace / tree
                inside = {each.path for each in chosen}
                others = {term for each in documents if each.path not in inside for term in each.terms}
                outside = sorted(others) if size else foreign
                asked = answered(chosen, questions, chance)
                asked += unanswered(chosen, outside, questions, chance)
                made.append(Collection(f"{tree} {size or ALL_SIZES} {number}", size or ALL_SIZES, folder, tuple(asked)))
    return made


def read_documents(tree: Path, is_japanese: bool) -> list[Document]:
    """The documents of a tree."""
    found = []
    for file in sorted(tree.rglob("*.md")):
        source = file.read_text("utf-8")
        front = split_front_matter(source)
        fields, body = front.values, source[front.body_start :]
        title = str(fields.get("title") or "")
        tags = fields.get("tags") or ()
        labels = [title, *map(str, tags if isinstance(tags, list) else ())]
        labels += _HEADING.findall(_FENCE.sub("", body))
        plain = tuple(filter(None, (" ".join(_HEADING_ID.sub(" ", label).split()) for label in labels)))
        path = file.relative_to(tree).as_posix()
        found.append(Document(path, plain, terms(plain, is_japanese), held_by(source)))
    return found


def answered(documents: Sequence[Document], count: int, chance: random.Random) -> list[ShortQuestion]:
    """Questions made from terms of these documents, a third of each kind as far as there are any."""
    owners: dict[str, set[str]] = defaultdict(set)
    for document in documents:
        for term in document.terms:
            owners[term].add(document.path)
    texts = [(each.path, "\n".join(each.labels).lower()) for each in documents]
    candidates: dict[Kind, list[tuple[str, str]]] = {"term": [], "translation": [], "synonym": []}
    for term in sorted(owners):
        candidates["term"].append((term, term))
        candidates["translation"] += [(term, each) for each in translations(term)[:1]]
        candidates["synonym"] += [(term, each) for each in synonyms(term)[:1]]
    found = []
    for kind, pairs in candidates.items():
        chance.shuffle(pairs)
        wanted = (count + 2) // 3
        for term, text in pairs:
            # Whatever has the term, or what is asked, among its labels.
            right = frozenset(path for path, labels in texts if term.lower() in labels or text.lower() in labels)
            if len(right) <= max(1, MAX_RIGHT_SHARE * len(documents)):
                found.append(ShortQuestion(text, kind, right, is_for_fitting(term)))
                wanted -= 1
            if not wanted:
                break
    return found


def unanswered(
    documents: Sequence[Document], outside: Sequence[str], count: int, chance: random.Random
) -> list[ShortQuestion]:
    """Questions about what none of these documents holds in any form, not even a part of it."""
    held = sorted(frozenset().union(*(each.held for each in documents)))
    found: list[ShortQuestion] = []
    wanted = dict.fromkeys(KINDS, (count + 2) // 3)
    for term in chance.sample(outside, len(outside)):
        made = {"term": [term], "translation": translations(term)[:1], "synonym": synonyms(term)[:1]}
        kind = next((each for each in reversed(KINDS) if wanted[each] and made[each]), None)
        if kind is None:
            continue
        text = made[kind][0]
        forms = {form for part in {*parts(term), *parts(text)} for form in (part, *translations(part), *synonyms(part))}
        if not any(is_held(form, held) for form in forms):
            found.append(ShortQuestion(text, kind, frozenset(), is_for_fitting(term)))
            wanted[kind] -= 1
    return found


def parts(term: str) -> set[str]:
    """A term and the words that it is made of: of a name from code and of a Japanese compound too."""
    words = {term, *_PART.findall(term), *_JAPANESE_WORD.findall(term)}
    for word in _KANJI.findall(term):
        inner = {word[at:end] for at in range(len(word)) for end in range(at + 2, len(word) + 1)}
        words |= inner & japanese_words().keys()
    return words


def terms(labels: Sequence[str], is_japanese: bool) -> frozenset[str]:
    """The labels that are short, and the nouns of all of them."""
    found = set()
    for label in labels:
        if is_short(label) and not _NOT_A_PLAIN_PHRASE.search(label):
            found.add(label)
        for word in _JAPANESE_WORD.findall(label) if is_japanese else _ENGLISH_WORD.findall(label):
            if (is_japanese and word in japanese_words()) or (not is_japanese and word.lower() in english_words()):
                found.add(word if is_japanese else word.lower())
    return frozenset(found)


def held_by(text: str) -> frozenset[str]:
    """The words of a text, and the pairs of neighbouring characters of what is Japanese in it."""
    pairs = (run[at : at + 2] for run in _JAPANESE_RUN.findall(text) for at in range(len(run) - 1))
    return frozenset((*_LATIN_WORD.findall(text.lower()), *pairs))


def is_held(form: str, held: Sequence[str]) -> bool:
    """Whether each word of a form begins one of those that are held, which come in their order."""
    parts = [part for word in form.split() for part in (held_by(word) if _JAPANESE.search(word) else [stem(word)])]
    places = [bisect_left(held, part) for part in parts]
    return all(at < len(held) and held[at].startswith(part) for at, part in zip(places, parts, strict=True))


def foreign_terms() -> list[str]:
    """Words of questions on other subjects: those of the sets that are not software documentation."""
    folder = eval_folder()
    texts = [
        question.text
        for name in corpus_names(folder)
        if name.endswith(("_squad", "_niilc", "_law"))
        for question in read_questions(folder / name / "queries.jsonl")
    ]
    words = {word for text in texts for word in _JAPANESE_WORD.findall(text) if word in japanese_words()}
    words |= {word.lower() for text in texts for word in _ENGLISH_WORD.findall(text) if word.lower() in english_words()}
    return sorted(words)


def is_short(text: str) -> bool:
    """Whether it is one to three words."""
    if _JAPANESE.search(text):
        return 2 <= len(text) <= MAX_CHARACTERS and " " not in text
    words = text.split()
    return 1 <= len(words) <= MAX_WORDS and len(text) > 2 and not {each.lower() for each in words} <= STOP_WORDS


def is_for_fitting(term: str) -> bool:
    """Whether questions made from a term are for fitting; the others are for judging."""
    return hashlib.sha256(term.lower().encode()).digest()[0] % 2 == 0


def translations(term: str) -> list[str]:
    """The other language's words for a term."""
    found = japanese_words().get(term, ()) if _JAPANESE.search(term) else english_words().get(term.lower(), ())
    return [each for each in found if is_frequent(each)]


def synonyms(term: str) -> list[str]:
    """Other words of a term's first meaning."""
    return [each for each in synsets().get(term.lower(), ()) if is_frequent(each)]


def stem(form: str) -> str:
    """What every form of a word begins with, roughly."""
    form = form.lower()
    return form if _JAPANESE.search(form) else re.sub(r"(ies|es|s|y|e|ing|ed)$", "", form)


@cache
def japanese_words() -> Mapping[str, Sequence[str]]:
    """Japanese nouns → the words of their first meaning."""
    found: dict[str, list[str]] = {}
    for word, gloss in pairs("jmdict"):
        meaning = [_GLOSS_REMARK.sub("", each).strip() for each in gloss.split(" / ")[0].split(";")]
        plain = [each for each in meaning if is_short(each) and not _NOT_A_PLAIN_PHRASE.search(each)]
        if plain and not plain[0].startswith("to "):
            found.setdefault(word, plain)
    return found


@cache
def english_words() -> Mapping[str, Sequence[str]]:
    """English nouns → the Japanese words that mean them first."""
    found: dict[str, list[str]] = defaultdict(list)
    for word, meaning in japanese_words().items():
        if is_short(word) and _JAPANESE.search(word):
            found[meaning[0].lower()].append(word)
    return found


def is_frequent(form: str) -> bool:
    """Whether a form is made of words that people write often."""
    return all(word.lower() in frequent_words() for word in form.split())


@cache
def frequent_words() -> frozenset[str]:
    """The words of either language that texts are mostly made of."""
    found = []
    for language in ("ja", "latin"):
        with gzip.open(SHARED / "model" / f"words_{language}.tsv.gz", "rt", encoding="utf-8") as lines:
            found += [line.split("\t")[0] for line in islice(lines, FREQUENT_WORDS)]
    return frozenset(found)


@cache
def synsets() -> Mapping[str, Sequence[str]]:
    """English words → the others of their first meaning."""
    found: dict[str, list[str]] = {}
    for members, _ in pairs("wordnet"):
        words = [each.lower() for each in members.split("; ") if is_short(each)]
        for word in words:
            others = [each for each in words if each != word and stem(word) not in each and each in english_words()]
            if others:
                found.setdefault(word, others)
    return found


def pairs(name: str) -> Iterator[tuple[str, str]]:
    """The lines of a dictionary."""
    with gzip.open(SHARED / "model" / "pairs" / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            first, second = json.loads(line)
            yield first, second


def lay_out(tree: Path, documents: Iterable[Document], workspace: Path) -> Path:
    """Copy some documents of a tree to a folder of their own."""
    for document in documents:
        target = workspace / "tree" / document.path
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(tree / document.path, target)
    return workspace


def main() -> None:
    """Print how many questions there are, and some of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", type=Path, help="lay out the collections here, and use what is there already")
    parser.add_argument("--show", type=int, default=0, help="print so many questions of each size")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        collections = make_collections(options.keep or Path(temporary))
    for size in sorted({each.size for each in collections}):
        asked = [question for each in collections if each.size == size for question in each.questions]
        counts = [sum(bool(each.right) == wanted for each in asked) for wanted in (True, False)]
        print(f"{size} documents: {counts[0]} questions that are answered, {counts[1]} that are not")
        for question in random.Random(5).sample(asked, min(options.show, len(asked))):  # noqa: S311
            print(f"  {question.text} ({question.kind}) → {', '.join(sorted(question.right)[:3]) or 'nothing'}")


if __name__ == "__main__":
    main()
