"""How is a document cut into sections? The contract of splitters, and the table of strategies."""

from collections.abc import Sequence
from importlib import import_module
from typing import Protocol, cast

from annai import plugins
from annai.errors import ConfigError
from annai.settings import Chunking
from annai.types import Document, Section


class Splitter(Protocol):
    """A pure function from a document to its sections.

    It promises for any text:
    - the first section is the root: depth 0, no parent, its span the whole body (`body_start` to the end);
    - `order` counts 0, 1, 2 …; every parent comes before its children, and its span contains theirs;
    - the leaves' spans, in order, join exactly to the body: nothing is lost or added
      (windows of the `tokens` strategy are pieces of the only leaf, the root);
    - `(number, piece)` is unique within the document;
    - `is_passage` is true for pieces and for leaves without pieces, except for a leaf that has only headings: its
      words are in the heading paths of its neighbours. At least one section is a passage;
    - equal documents give equal sections.
    """

    def __call__(self, document: Document, chunking: Chunking) -> Sequence[Section]:
        """Cut the document; the list is never empty."""
        ...


STRATEGIES = {
    "sections": "annai.splitters.sections",
    "tokens": "annai.splitters.tokens",
    "headings": "annai.splitters.headings",
}
"""Strategy → the module whose `split` is the splitter; imported when it is needed."""


def load_splitter(strategy: str) -> Splitter:
    """The splitter of a strategy."""
    if strategy in STRATEGIES:
        return cast(Splitter, import_module(STRATEGIES[strategy]).split)
    return cast(Splitter, plugins.load("annai.splitters", strategy, ConfigError))
