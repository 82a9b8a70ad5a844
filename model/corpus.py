"""What is searched, and what should be found? The evaluation sets, cut into passages as the product does it."""

import gzip
import hashlib
import importlib.util
import json
import logging
import os
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from pathlib import Path
from types import ModuleType

import annai
from annai.files.reader import read_document
from annai.files.scanner import scan
from annai.settings import Chunking, Files
from annai.splitters.base import load_splitter
from annai.text.fields import Fields, passage_fields
from model.settings import BUILD, SHARED

logger = logging.getLogger(__name__)

CUTTING_CODE = ("files/encoding.py", "files/front_matter.py", "files/reader.py", "splitters/*.py", "text/*.py")
"""The modules of the product that decide which passages a text has and what their fields are."""


@dataclass(frozen=True, slots=True)
class Query:
    """A question, its type, and the documents that answer it."""

    text: str
    type: str
    relevant: dict[str, int]


@dataclass(frozen=True, slots=True)
class Corpus:
    """One set: documents, their passages, and queries."""

    name: str
    documents: list[str]
    passages: list[Fields]
    owners: list[int]
    """For each passage, the index of its document."""
    queries: list[Query]


def eval_folder() -> Path:
    """The folder of the evaluation sets: ANNAI_EVAL, or `shared/eval` beside the checkout."""
    return Path(os.environ.get("ANNAI_EVAL", SHARED / "eval"))


def corpus_names(folder: Path) -> list[str]:
    """The names of the sets in an evaluation folder."""
    return sorted(path.parent.name for path in folder.glob("*/queries.jsonl"))


def load_script(folder: Path, script: str = "score") -> ModuleType:
    """A script of the evaluation folder as a module."""
    spec = importlib.util.spec_from_file_location(f"eval_{script}", folder / f"{script}.py")
    if spec is None or spec.loader is None:
        raise FileNotFoundError(f"There is no {script}.py in {folder}; set ANNAI_EVAL to the folder that has it.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def read_corpus(folder: Path, name: str, cache: Path = BUILD / "corpora") -> Corpus:
    """One set; its passages come from the cache if the same code of the product cut them before."""
    documents: dict[str, int] = {}
    passages, owners = [], []
    for path, *fields in _cached_passages(folder, name, cache):
        passages.append(Fields(*fields))
        owners.append(documents.setdefault(path, len(documents)))
    relevant: dict[str, dict[str, int]] = defaultdict(dict, load_script(folder).load_qrels(folder / name / "qrels.tsv"))
    lines = [json.loads(line) for line in (folder / name / "queries.jsonl").read_text("utf-8").splitlines() if line]
    queries = [Query(line["text"], line.get("type", ""), relevant[line["id"]]) for line in lines]
    return Corpus(name, list(documents), passages, owners, queries)


def _cached_passages(folder: Path, name: str, cache: Path) -> list[list[str]]:
    """Document id, title, headings, path words and body of every passage."""
    file = cache / f"{name}-{_product_version()}.json"
    if not file.exists():
        logger.info("cutting %s into passages", name)
        rows = _passages(cache / name, write_files(folder, name, cache / name))
        file.write_text(json.dumps(rows, ensure_ascii=False), "utf-8")
    found: list[list[str]] = json.loads(file.read_text("utf-8"))
    return found


def write_files(folder: Path, name: str, target: Path) -> dict[str, str]:
    """Write the set's files below `target`; returns path → document id.

    The folder's own unpack.py cannot create the folders that ids with slashes need.
    """
    doc_id = load_script(folder).doc_id
    corpus = folder / name / "corpus.jsonl.gz"
    if not corpus.exists():
        load_script(folder, "unpack").unpack(name, target)
        found = (str(path.relative_to(target).as_posix()) for path in target.rglob("*") if path.is_file())
        return {path: doc_id(path) for path in found}
    ids = {}
    with gzip.open(corpus, "rt", encoding="utf-8") as lines:
        for document in map(json.loads, lines):
            path = target / f"{document['id']}.md"
            path.parent.mkdir(parents=True, exist_ok=True)
            title = f"# {document['title']}\n\n" if document.get("title") else ""
            path.write_text(f"{title}{document['text']}\n", "utf-8")
            ids[path.relative_to(target).as_posix()] = doc_id(document["id"])
    return ids


def _product_version() -> str:
    """A digest of the code that cuts texts into passages."""
    package = Path(annai.__file__).parent
    files = [file for pattern in CUTTING_CODE for file in sorted(package.glob(pattern))]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:8]


def _passages(source: Path, ids: Mapping[str, str]) -> list[list[str]]:
    files, chunking = Files(exclude=(), respect_gitignore=False), Chunking()
    split = load_splitter(chunking.strategy)
    rows: list[list[str]] = []
    for change in scan(source, files, {}).changes:
        document = read_document("evaluation", source, change, files)
        passages = (section for section in split(document, chunking) if section.is_passage)
        rows.extend([ids[change.path], *astuple(passage_fields(document, passage))] for passage in passages)
    return rows
