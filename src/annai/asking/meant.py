"""What was searched for? The text of a query as it was understood, for whoever marks or compares what was found."""

from annai.asking.abbreviations import apply_expansions
from annai.asking.exclusion import strip_exclusions
from annai.asking.spelling import apply_corrections
from annai.types import Answer


def searched_text(answer: Answer) -> str:
    """The query of an answer without what it excludes, its words corrected and its abbreviations explained."""
    text = apply_corrections(strip_exclusions(answer.query, answer.excluded), answer.corrected)
    return apply_expansions(text, answer.expanded)
