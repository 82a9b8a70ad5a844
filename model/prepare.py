"""What does training read? The pairs as ids of pieces, in one compressed file that can be copied to another machine.

The pack has each distinct text once: `pieces` end to end, `lengths`, and how often each piece occurs, `counts`.
Sets are columns of text numbers: `NAME.left`, `NAME.right`. For sections, whose texts are a heading line and a body,
these are the bodies; `NAME.left_heading` and `NAME.right_heading` are the headings.
"""

import logging
from collections.abc import Iterator, Sequence
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from annai.embedders.subwords import Subwords
from model.pairs import PairFile, pair_files
from model.settings import Pack, Settings
from model.vocabulary import Scores

logger = logging.getLogger(__name__)

Numbers = NDArray[np.int64]
TEXTS_PER_TASK = 2_000
"""Texts that a process encodes at a time."""
SEED = 0
"""Every run must keep the same pairs of a large set."""


def prepare(data: Path, settings: Settings, scores: Scores, target: Path) -> None:
    """Encode the pairs with the product's own tokenizer and write the pack."""
    numbers: dict[str, int] = {}
    columns: dict[str, Numbers] = {}
    files = pair_files(data, settings)
    for file in files:
        for column, texts in _columns(file, settings.pack).items():
            columns[f"{file.name}.{column}"] = np.array([numbers.setdefault(text, len(numbers)) for text in texts])
    pieces, lengths = _encode(list(numbers), scores, settings.pack.longest_text)
    for file in files:
        names = [name for name in columns if name.startswith(f"{file.name}.")]
        has_pieces = np.all([lengths[columns[name]] > 0 for name in names], axis=0)
        columns.update((name, columns[name][has_pieces]) for name in names)
        logger.info("%s: %d pairs", file.name, has_pieces.sum())
    target.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(
        target,
        allow_pickle=False,
        pieces=pieces,
        lengths=lengths.astype(np.uint16),
        counts=np.bincount(pieces, minlength=len(scores)),
        names=np.array([file.name for file in files]),
        kinds=np.array([file.source.kind for file in files]),
        **{name: column.astype(np.uint32) for name, column in columns.items()},
    )
    logger.info("%d texts, %d pieces, %.1f MB", len(lengths), len(pieces), target.stat().st_size / 1e6)


def _columns(file: PairFile, settings: Pack) -> dict[str, Sequence[str]]:
    """The texts of a file by column, truncated to `longest_characters`."""
    pairs = list(file)
    most = settings.largest_word_set if file.source.kind == "word" else settings.largest_set
    if len(pairs) > most:
        chosen = np.random.default_rng(SEED).choice(len(pairs), most, replace=False)
        pairs = [pairs[number] for number in sorted(chosen.tolist())]
    end = settings.longest_characters
    if file.source.kind != "section":
        return {"left": [left[:end] for left, _ in pairs], "right": [right[:end] for _, right in pairs]}
    halves = [(*left.partition("\n")[::2], *right.partition("\n")[::2]) for left, right in pairs]
    order = ("left_heading", "left", "right_heading", "right")
    return {column: [half[index][:end] for half in halves] for index, column in enumerate(order)}


def _encode(texts: Sequence[str], scores: Scores, longest: int) -> tuple[NDArray[np.uint16], Numbers]:
    """The piece ids of all texts end to end, and how many each text has."""
    # Start new interpreters on every platform: a fork could copy a thread halfway through its work.
    with get_context("spawn").Pool(initializer=_Encoder.start, initargs=(scores, longest)) as pool:
        parts = list(pool.imap(_Encoder.encode, _batches(texts)))
    return np.concatenate([pieces for pieces, _ in parts]), np.concatenate([lengths for _, lengths in parts])


def _batches(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    return (texts[start : start + TEXTS_PER_TASK] for start in range(0, len(texts), TEXTS_PER_TASK))


class _Encoder:
    """One process's tokenizer."""

    subwords: Subwords
    longest: int

    @classmethod
    def start(cls, scores: Scores, longest: int) -> None:
        cls.subwords = Subwords(list(scores), list(scores.values()))
        cls.longest = longest

    @classmethod
    def encode(cls, texts: Sequence[str]) -> tuple[NDArray[np.uint16], Numbers]:
        encoded = [cls.subwords.encode(text)[: cls.longest] for text in texts]
        lengths = np.array([len(pieces) for pieces in encoded], np.int64)
        return np.fromiter((piece for pieces in encoded for piece in pieces), np.uint16, int(lengths.sum())), lengths
