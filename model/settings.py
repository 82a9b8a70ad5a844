"""Which settings make the model? `settings.toml`, read into frozen values.

`[training]` is not here: `train.py` is copied alone to the machine with the GPU and reads it itself.
"""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, get_args

FOLDER = Path(__file__).parent
BUILD = FOLDER / "build"
SHARED = FOLDER.parents[1] / "shared"

Kind = Literal["plain", "passage", "section", "word"]


@dataclass(frozen=True, slots=True)
class Source:
    """Pairs of one origin, whose licence allows this use."""

    files: tuple[str, ...]
    kind: Kind
    name: str
    address: str
    licence: str
    attribution: str


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """How the pieces are learnt."""

    latin: int
    japanese: int
    most: int
    least_count_latin: int
    least_count_japanese: int
    longest_word: int
    longest_piece_latin: int
    longest_piece_japanese: int
    general_share: float
    general_words: int
    whole_words: int
    merge_penalty: float


@dataclass(frozen=True, slots=True)
class Start:
    """What the vectors are before training."""

    provider: str
    dimensions: int


@dataclass(frozen=True, slots=True)
class Pack:
    """How much of the pairs is read."""

    longest_text: int
    longest_characters: int
    largest_set: int
    largest_word_set: int


@dataclass(frozen=True, slots=True)
class Teach:
    """Which sentences the large encoder is asked about."""

    seed: int
    dimensions: int
    shortest: int
    longest: int
    sentences: Mapping[str, int]
    """File of pairs → number of its sentences."""


@dataclass(frozen=True, slots=True)
class Whiten:
    """How far a trained table is whitened."""

    power: float
    passages: int
    seed: int


@dataclass(frozen=True, slots=True)
class Evaluation:
    """How the model is evaluated."""

    seeds: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Settings:
    """All of `settings.toml` except `[training]`."""

    name: str
    vocabulary: Vocabulary
    start: Start
    pack: Pack
    teach: Teach
    whiten: Whiten
    evaluation: Evaluation
    sources: tuple[Source, ...]

    def source_of(self, name: str) -> Source | None:
        """The source that lists a file of pairs, by its name without suffixes; None if its licence is unknown."""
        for source in self.sources:
            if any(fnmatchcase(name, pattern) for pattern in source.files):
                return source
        return None


def read_settings(path: Path = FOLDER / "settings.toml") -> Settings:
    """Read the file; a key that is missing or unknown is an error that names it."""
    values = tomllib.loads(path.read_text("utf-8"))
    return Settings(
        name=values["name"],
        vocabulary=Vocabulary(**values["vocabulary"]),
        start=Start(**values["start"]),
        pack=Pack(**values["pack"]),
        teach=Teach(**values["teach"]),
        whiten=Whiten(**values["whiten"]),
        evaluation=Evaluation(tuple(values["evaluation"]["seeds"])),
        sources=tuple(_source(source) for source in values["sources"]),
    )


def data_folder() -> Path:
    """The folder of the pairs and word counts: ANNAI_MODEL_DATA, or `shared/model` beside the checkout."""
    return Path(os.environ.get("ANNAI_MODEL_DATA", SHARED / "model"))


def _source(values: Mapping[str, Any]) -> Source:
    source = Source(**{**values, "files": tuple(values["files"])})
    if source.kind not in get_args(Kind):
        raise ValueError(f"The source {source.name} has the kind {source.kind!r}; use one of {get_args(Kind)}.")
    return source
