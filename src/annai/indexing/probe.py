"""Which files end the process that indexes them? One that may is first read by a process made for that."""

import contextlib
import os
import sys
from collections.abc import Sequence
from typing import IO, cast

from annai.collection import chunking_of
from annai.config import Config
from annai.files import child
from annai.types import Change, Collection

KILLED_TWICE = (
    "indexing it ended the process twice, probably because there was not enough memory; split the file, or exclude it "
    "in [files] of annai.toml (`annai index rebuild --force PATH` tries it again)"
)
"""Why a file was set aside: it is not tried again before it changes."""

NOT_KILLED = (0, 1)
"""How a process ends by itself: well, or with an error of its own, which says nothing about a file."""


def find_killers(collection: Collection, changes: Sequence[Change], config: Config) -> set[str]:
    """The paths of those files that kill a process which does nothing but read, split and embed them."""
    killers: set[str] = set()
    remaining = [*changes] if sys.executable else []
    while remaining:
        done, code = _read_in_process(collection, remaining, config)
        if code in NOT_KILLED or done >= len(remaining):
            break
        killers.add(remaining[done].path)
        remaining = remaining[done + 1 :]
    return killers


def _read_in_process(collection: Collection, changes: Sequence[Change], config: Config) -> tuple[int, int]:
    """How many files a process got through, and its exit code."""
    import pickle  # hardly ever needed, and a search loads this module

    process = child.start("annai.indexing.probe")
    try:
        with contextlib.suppress(OSError):  # It may have been killed already.
            child.send(cast("IO[bytes]", process.stdin), pickle.dumps((collection, changes, config)))
        done = cast("IO[bytes]", process.stdout).read()
        return len(done), process.wait()
    finally:
        child.end(process)


def main() -> None:
    """Run in the process: read the files that standard input names, and write a byte after each."""
    child.offer_to_be_killed()
    own, messages = child.claim_output(), child.incoming()
    # Whatever is wrong, the process that indexes finds out and says so, unless it has ended.
    with contextlib.suppress(Exception):
        _read_all(messages.get(), own.fileno())
    os._exit(0)  # Standard input is still being read, which would keep Python from ending.


def _read_all(message: bytes, done: int) -> None:
    import pickle

    from annai.embedders.base import load_embedder
    from annai.files.reader import read_document
    from annai.indexing.features import add_features
    from annai.splitters.base import load_splitter

    collection: Collection
    config: Config
    # Only the process that started this one can write here.
    collection, changes, config = pickle.loads(message)  # noqa: S301
    chunking = chunking_of(config, collection)
    split = load_splitter(chunking.strategy)
    embedder = load_embedder(config.embedding_of(collection.name), config.model, config.retry)
    for change in changes:
        with contextlib.suppress(Exception):
            document = read_document(collection.name, collection.source, change, config.files, config.documents)
            sections = split(document, chunking)
            if embedder.is_additive:
                add_features([(document, sections)], embedder)
        os.write(done, b".")
