"""Which vector does a piece have? Tables of rows from training, and the yardstick's."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from annai.embedders.subwords import Subwords
from model.vocabulary import Scores

Vectors = NDArray[np.float32]
MEAN = "mean"
"""The name of the mean of the seeds' tables."""


class Table:
    """One row for each piece; a text's vector is the sum of its pieces' rows."""

    def __init__(self, rows: Vectors, encode: Callable[[str], Sequence[int]]) -> None:
        self._rows = rows
        self._encode = encode

    def embed_sums(self, texts: Sequence[str]) -> Vectors:
        """The sums, one row for each text, not scaled."""
        sums = np.zeros((len(texts), self._rows.shape[1]), np.float32)
        for number, text in enumerate(texts):
            ids, counts = np.unique(np.fromiter(self._encode(text), np.int64), return_counts=True)
            sums[number] = counts.astype(np.float32) @ self._rows[ids]
        return sums


def trained_table(folder: Path, scores: Scores) -> Table:
    """A table that `train.py` wrote, with the vocabulary it was trained with."""
    return Table(read_rows(folder), Subwords(list(scores), list(scores.values())).encode)


def read_rows(folder: Path) -> Vectors:
    """The rows that `train.py` wrote into a folder, from all its files."""
    report = json.loads((folder / "table.json").read_text("utf-8"))
    parts = [np.load(folder / f"rows-{number}.npy") for number in range(report["files"])]
    rows: Vectors = np.concatenate(parts).astype(np.float32)
    if len(rows) != report["rows"]:
        raise ValueError(f"{folder} has {len(rows)} of {report['rows']} rows: a file is missing; copy it again.")
    return rows


def write_rows(rows: Vectors, folder: Path, report: Mapping[str, object]) -> None:
    """Write rows as `train.py` does, in one file."""
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "rows-0.npy", rows.astype(np.float16))
    text = json.dumps({**report, "files": 1, "rows": len(rows)}, indent=1)
    (folder / "table.json").write_text(text + "\n", "utf-8")


def write_mean(tables: Sequence[Path], target: Path) -> None:
    """Write the mean of tables that were trained from the same start."""
    rows: Vectors = np.mean([read_rows(table) for table in tables], axis=0, dtype=np.float32)
    write_rows(rows, target, {"mean": [table.name for table in tables]})


def yardstick(folder: Path) -> Table:
    """The first result of the recipe, never shipped: Hugging Face's tokenizer and int8 rows."""
    from tokenizers import Tokenizer  # only this comparison needs it

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    data = (folder / "model.safetensors").read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])

    def read(name: str, kind: str) -> NDArray[np.generic]:
        start, end = header[name]["data_offsets"]
        return np.frombuffer(data[8 + size + start : 8 + size + end], kind).reshape(header[name]["shape"])

    rows = read("embedding", "i1").astype(np.float32) * read("scale", "<f2").astype(np.float32)[:, None]
    return Table(rows, lambda text: tokenizer.encode(text, add_special_tokens=False).ids)
