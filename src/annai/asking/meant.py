"""What was meant? A query without what it excludes, with its words corrected and its abbreviations explained."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from annai.answers import Answer, Query
from annai.asking.abbreviations import apply_expansions, find_expansions
from annai.asking.exclusion import find_exclusions, strip_exclusions
from annai.asking.spelling import apply_corrections, find_corrections
from annai.definitions import dataclass
from annai.text.tokens import query_words

if TYPE_CHECKING:  # Whoever only shows an answer needs no store.
    from annai.stores.base import PassageSearcher


@dataclass(frozen=True, slots=True)
class Meant:
    """A query as it is searched for, and what became of its words."""

    query: Query
    """With the text that is searched for: abbreviations and what they stand for."""
    spelled_out: str
    """The same text with what abbreviations stand for in their place."""
    corrected: Mapping[str, str]
    expanded: Mapping[str, str]
    excluded: tuple[str, ...]

    @property
    def spare_words(self) -> float:
        """The share of the words, by weight, that a document need not hold: it may spell abbreviations out."""
        if not self.expanded:
            return 0.0
        asked = query_words(self.query.text)
        needed = query_words(self.spelled_out)
        return sum(weight for word, weight in asked.items() if word not in needed) / sum(asked.values())


def understand(store: "PassageSearcher", query: Query) -> Meant:
    """What a query means for what is indexed."""
    excluded = find_exclusions(store, query.text, query.where)
    text = strip_exclusions(query.text, excluded)
    corrected = find_corrections(store, text, query.where)
    expanded = find_expansions(store, text, query.where)
    text = apply_corrections(text, corrected)
    return Meant(
        replace(query, text=apply_expansions(text, expanded)),
        apply_expansions(text, expanded, instead=True),
        corrected,
        expanded,
        excluded,
    )


def searched_text(answer: Answer) -> str:
    """The text that an answer was searched for with, for whoever marks or compares what was found."""
    text = apply_corrections(strip_exclusions(answer.query, answer.excluded), answer.corrected)
    return apply_expansions(text, answer.expanded)
