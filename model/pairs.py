"""Which texts belong together? The files of pairs; only those with a known licence."""

import gzip
import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from model.settings import Settings, Source

logger = logging.getLogger(__name__)

SUFFIX = ".jsonl.gz"


@dataclass(frozen=True, slots=True)
class PairFile:
    """One file of pairs: each line is a JSON list of two texts."""

    name: str
    source: Source
    path: Path

    def __iter__(self) -> Iterator[tuple[str, str]]:
        with gzip.open(self.path, "rt", encoding="utf-8") as lines:
            for line in lines:
                left, right = json.loads(line)
                yield left, right


def pair_files(data: Path, settings: Settings) -> list[PairFile]:
    """The files below `pairs/` that a source of the settings lists, by name; others are skipped with a warning."""
    found = []
    for path in sorted((data / "pairs").glob(f"*{SUFFIX}")):
        name = path.name.removesuffix(SUFFIX)
        source = settings.source_of(name)
        if source is None:
            logger.warning("skipped %s: no source in settings.toml lists it with a licence", path.name)
        else:
            found.append(PairFile(name, source, path))
    if not found:
        raise FileNotFoundError(f"There are no pairs in {data / 'pairs'}; set ANNAI_MODEL_DATA to their folder.")
    return found
