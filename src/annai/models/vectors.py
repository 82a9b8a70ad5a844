"""What do a model's vectors depend on? Their dimension, the prefixes of texts, and the identity that names it all."""

import hashlib
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from annai.definitions import dataclass
from annai.errors import EmbedderError
from annai.models.catalog import MODELS, KnownModel
from annai.models.names import known_model
from annai.settings import Embedding

AUTO = "auto"
"""The prefix of a model whose own files say what it is."""

DIGEST_BYTES = 1 << 16
"""How much is read at the beginning and at the end of a file to tell it from others: weights differ everywhere."""


@dataclass(frozen=True, slots=True)
class Prefixes:
    """What a model wants before queries and before documents."""

    query: str = ""
    document: str = ""

    def of(self, kind: Literal["query", "document"]) -> str:
        """The prefix of one kind of text."""
        return self.query if kind == "query" else self.document

    @property
    def longest(self) -> str:
        """The longer of the two."""
        return max(self.query, self.document, key=len)

    def or_else(self, own: "Prefixes") -> "Prefixes":
        """The same, with `own` in place of every `AUTO`."""
        return Prefixes(
            own.query if self.query == AUTO else self.query,
            own.document if self.document == AUTO else self.document,
        )


NO_PREFIXES = Prefixes()


def configured_prefixes(settings: Embedding, known: KnownModel | None, *, runs_code: bool = False) -> Prefixes:
    """The prefixes that the settings name, else those of the known model; `AUTO` where only the model can tell.

    Where the model's own code runs (`runs_code`), it may add them itself.
    """
    asked = Prefixes(settings.query_prefix, settings.document_prefix)
    if known is None or (runs_code and known.adds_prefixes):
        return asked
    return asked.or_else(Prefixes(known.query_prefix, known.document_prefix))


def configured_dimension(settings: Embedding, known: KnownModel | None, default: int = 0) -> int:
    """How many numbers a vector is to have; 0 where only the model can tell."""
    if not settings.dimensions:
        return default or (known.dimension if known else 0)
    # A folder is known by its name, though its own files say how it was trained.
    named = known or known_model(Path(settings.model).name)
    if named and not named.allows(settings.dimensions):
        raise _wrong_dimension(named.name, dimensions_text(named), settings)
    return settings.dimensions


def dimensions_text(known: KnownModel) -> str:
    """The dimensions that a known model's vectors may have, for people."""
    if known.min_dimension:
        return f"{known.min_dimension} to {known.dimension}" if known.dimension else f"{known.min_dimension} or more"
    return " or ".join(map(str, (known.dimension, *known.truncations)))


def truncate(rows: NDArray[np.float32], settings: Embedding, name: str) -> NDArray[np.float32]:
    """Vectors with as many numbers as the settings ask for; they no longer have length 1."""
    if rows.shape[1] < settings.dimensions:
        raise _wrong_dimension(name, str(rows.shape[1]), settings)
    return rows[:, : settings.dimensions or None]


def identity(provider: str, name: str, dimension: int, prefixes: Prefixes) -> str:
    """Names what vectors depend on: provider, model, dimension and prefixes."""
    size = f"/{dimension}" if dimension else ""
    both = (prefixes.query, prefixes.document)
    marks = f" [{prefixes.query}|{prefixes.document}]" if any(each not in ("", AUTO) for each in both) else ""
    return f"{provider}:{name}{size}{marks}"


def folder_name(folder: Path) -> str:
    """A name for the model in a folder that depends on the contents and not on the path: the folder may be moved."""
    digest = hashlib.blake2b(digest_size=4)
    for file in sorted(each for each in folder.rglob("*") if each.is_file() and not each.name.startswith(".")):
        size = file.stat().st_size
        digest.update(f"{file.relative_to(folder).as_posix()} {size}\0".encode())
        with file.open("rb") as stream:
            digest.update(stream.read(DIGEST_BYTES))
            stream.seek(max(size - DIGEST_BYTES, 0))
            digest.update(stream.read(DIGEST_BYTES))
    return f"{folder.name}-{digest.hexdigest()}"


def _wrong_dimension(name: str, possible: str, settings: Embedding) -> EmbedderError:
    others = ", ".join(each.name for each in MODELS if each.min_dimension or each.truncations)
    return EmbedderError(
        f"{name} makes vectors of {possible} numbers, but embedding.dimensions is {settings.dimensions}",
        f"correct it in annai.toml. Vectors that can be cut have, by their cards: {others}.",
    )
