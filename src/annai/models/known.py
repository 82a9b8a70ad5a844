"""What is known of models? The settings that each was trained with, so that naming it is enough."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from annai.errors import EmbedderError
from annai.settings import Embedding

AUTO = "auto"


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A model that is known by its name."""

    name: str
    provider: str
    dimension: int
    max_tokens: int
    languages: str
    licence: str
    parameters: str = ""
    query_prefix: str = ""
    document_prefix: str = ""
    cuts: tuple[int, ...] = ()
    """Smaller dimensions its vectors may be cut to (Matryoshka); every one up to the full, if it holds only a 0."""
    own_code: bool = False
    """Whether it runs Python code that comes with it, and puts its prefixes there."""

    def allows(self, dimensions: int) -> bool:
        """Whether its vectors may have so many numbers."""
        anything = self.cuts == (0,) and 0 < dimensions <= self.dimension
        return anything or dimensions in (*self.cuts, self.dimension)


_APACHE, _MIT = "Apache-2.0", "MIT"
_LOCAL = "sentence-transformers"
_ANY_CUT = (0,)


def _ruri(size: str, dimension: int) -> KnownModel:
    return KnownModel(
        f"cl-nagoya/ruri-v3-{size}",
        _LOCAL,
        dimension,
        max_tokens=8192,
        languages="ja",
        licence=_APACHE,
        parameters=size.upper(),
        query_prefix="検索クエリ: ",
        document_prefix="検索文書: ",
    )


def _e5(size: str, dimension: int, parameters: str) -> KnownModel:
    return KnownModel(
        f"intfloat/multilingual-e5-{size}",
        _LOCAL,
        dimension,
        max_tokens=512,
        languages="100 languages",
        licence=_MIT,
        parameters=parameters,
        query_prefix="query: ",
        document_prefix="passage: ",
    )


MODELS: tuple[KnownModel, ...] = (
    _ruri("30m", 256),
    _ruri("70m", 384),
    _ruri("130m", 512),
    _ruri("310m", 768),
    KnownModel("pfnet/plamo-embedding-1b", _LOCAL, 2048, 4096, "ja", _APACHE, "1B", own_code=True),
    _e5("small", 384, "118M"),
    _e5("base", 768, "278M"),
    _e5("large", 1024, "560M"),
    KnownModel("BAAI/bge-m3", _LOCAL, 1024, 8192, "100 languages", _MIT, "568M"),
    KnownModel(
        "Qwen/Qwen3-Embedding-0.6B",
        _LOCAL,
        1024,
        32_768,
        "100 languages",
        _APACHE,
        "596M",
        query_prefix="Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:",
        cuts=_ANY_CUT,
    ),
    KnownModel(
        "google/embeddinggemma-300m",
        _LOCAL,
        768,
        2048,
        "100 languages",
        "Gemma",
        "308M",
        query_prefix="task: search result | query: ",
        document_prefix="title: none | text: ",
        cuts=(512, 256, 128),
    ),
    KnownModel("gemini-embedding-001", "gemini", 3072, 2048, "100 languages", "a service", cuts=_ANY_CUT),
    KnownModel("text-embedding-3-small", "openai", 1536, 8191, "many languages", "a service", cuts=_ANY_CUT),
    KnownModel("text-embedding-3-large", "openai", 3072, 8191, "many languages", "a service", cuts=_ANY_CUT),
)
"""Every model that is known, in the order in which they are shown."""


def known_model(name: str, provider: str = "") -> KnownModel | None:
    """What is known of a model, if anything; its name may leave out who made it, as Ollama's do."""
    for model in MODELS:
        if provider in ("", model.provider) and name.lower() in (model.name.lower(), model.name.lower().split("/")[-1]):
            return model
    return None


def wanted_dimension(settings: Embedding, known: KnownModel | None, usual: int = 0) -> int:
    """How many numbers a vector is to have; 0 where only the model knows."""
    if not settings.dimensions:
        return usual or (known.dimension if known else 0)
    if known and not known.allows(settings.dimensions):
        smaller = f", or cut to {', '.join(map(str, known.cuts))}" if known.cuts not in ((), _ANY_CUT) else ""
        raise EmbedderError(
            f"{known.name} has vectors of {known.dimension} numbers{smaller}, and embedding.dimensions asks for "
            f"{settings.dimensions}; correct it in annai.toml."
        )
    return settings.dimensions


def cut(rows: NDArray[np.float32], settings: Embedding, name: str) -> NDArray[np.float32]:
    """Vectors with as many numbers as are asked for; base scales what is left to length 1 again."""
    if rows.shape[1] < settings.dimensions:
        raise EmbedderError(
            f"{name} has vectors of {rows.shape[1]} numbers, and embedding.dimensions asks for "
            f"{settings.dimensions}; correct it in annai.toml."
        )
    return rows[:, : settings.dimensions or None]


def prefixes(settings: Embedding, known: KnownModel | None) -> tuple[str, str]:
    """What is put before queries and documents; `auto` where only the model knows."""
    own = (known.query_prefix, known.document_prefix) if known and not known.own_code else (AUTO, AUTO)
    return (
        own[0] if settings.query_prefix == AUTO else settings.query_prefix,
        own[1] if settings.document_prefix == AUTO else settings.document_prefix,
    )


def identity(provider: str, name: str, dimension: int, before: tuple[str, str]) -> str:
    """Names what vectors depend on: provider, model, how many numbers, and what stands before the texts."""
    size = f"/{dimension}" if dimension else ""
    marks = f" [{before[0]}|{before[1]}]" if any(each not in ("", AUTO) for each in before) else ""
    return f"{provider}:{name}{size}{marks}"


def folder_name(folder: Path) -> str:
    """A name for the model in a folder that tells its contents and not its place: it may be moved."""
    digest = hashlib.blake2b(digest_size=4)
    for file in sorted(each for each in folder.rglob("*") if each.is_file() and not each.name.startswith(".")):
        size = file.stat().st_size
        digest.update(f"{file.relative_to(folder).as_posix()} {size}\0".encode())
        with file.open("rb") as stream:
            digest.update(stream.read(_LOOKED_AT))
            stream.seek(max(size - _LOOKED_AT, 0))
            digest.update(stream.read(_LOOKED_AT))
    return f"{folder.name}-{digest.hexdigest()}"


def read_json(file: Path) -> dict[str, Any]:
    """A model's settings; none where the file is missing or damaged."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


_LOOKED_AT = 1 << 16
"""Bytes at the beginning and at the end of a file that tell it from others: weights differ everywhere."""
