"""Which texts are similar? A large sentence encoder's vectors of sentences of the sources, as a teacher for training.

`teach.npz` has the sentences as ids of pieces end to end, `pieces` and `lengths`, and for each the encoder's vector,
`rows` × `scales`.
"""

import logging
import random
import re
from collections.abc import Iterator, Sequence
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from annai.embedders.base import Embedder, Vectors, load_embedder
from annai.embedders.subwords import Subwords
from annai.settings import Embedding
from model.pairs import PairFile, pair_files
from model.settings import Settings, Teach
from model.start import quantise_rows, reduce_dimensions
from model.vocabulary import Scores

logger = logging.getLogger(__name__)

BATCH_SIZE = 64
"""Texts of about equal length, since the encoder pads the shorter ones."""
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])\s*|\n+")


def teach(data: Path, settings: Settings, scores: Scores, target: Path) -> None:
    """Encode a sample of the sentences, and write their vectors."""
    subwords = Subwords(list(scores), list(scores.values()))
    encoded = {text: subwords.encode(text) for text in sample_sentences(data, settings)}
    texts = sorted((text for text, pieces in encoded.items() if pieces), key=lambda text: (len(text), text))
    vectors = _encoder_vectors(texts, settings.start.provider)
    rows, scales = quantise_rows(
        reduce_dimensions(vectors, min(settings.teach.dimensions, len(texts), vectors.shape[1]))
    )
    target.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(
        target,
        allow_pickle=False,
        pieces=np.concatenate([encoded[text] for text in texts]).astype(np.uint16),
        lengths=np.array([len(encoded[text]) for text in texts], np.uint16),
        rows=rows,
        scales=scales,
    )
    logger.info("%d sentences, %.1f MB", len(texts), target.stat().st_size / 1e6)


def sample_sentences(data: Path, settings: Settings) -> Sequence[str]:
    """Distinct sentences of the sources, as many of each file as the settings say; the same ones each time."""
    rng = random.Random(settings.teach.seed)  # noqa: S311 - a sample, not a secret
    found: dict[str, None] = {}
    for file in pair_files(data, settings):
        if most := settings.teach.sentences.get(file.name):
            sentences = list(dict.fromkeys(_sentences(file, settings.teach)))
            found.update(dict.fromkeys(rng.sample(sentences, min(most, len(sentences)))))
    return list(found)


def _sentences(file: PairFile, settings: Teach) -> Iterator[str]:
    """The sentences of a file; for a dictionary, of its definitions."""
    for left, right in file:
        for text in (right,) if file.source.kind == "word" else (left, right):
            for sentence in map(str.strip, _SENTENCE_END.split(text)):
                if settings.shortest <= len(sentence) <= settings.longest:
                    yield sentence


def _encoder_vectors(texts: Sequence[str], provider: str) -> Vectors:
    """The encoder's vectors of texts, computed on all cores."""
    batches = [texts[start : start + BATCH_SIZE] for start in range(0, len(texts), BATCH_SIZE)]
    with get_context("spawn").Pool(initializer=_Encoder.start, initargs=(provider,)) as pool:
        return np.concatenate(list(pool.imap(_Encoder.encode, batches)))


class _Encoder:
    """One process's encoder."""

    embedder: Embedder

    @classmethod
    def start(cls, provider: str) -> None:
        cls.embedder = load_embedder(Embedding(provider=provider, batch_size=BATCH_SIZE))

    @classmethod
    def encode(cls, texts: Sequence[str]) -> Vectors:
        return cls.embedder.embed_documents(texts)
