"""What was searched for? The text of a query as it was understood, for whoever marks or compares what was found."""

from annai.searching.exclusion import strip_exclusions
from annai.searching.spelling import apply_corrections
from annai.types import Answer


def searched_text(answer: Answer) -> str:
    """The query of an answer without what it excludes, and with its words corrected."""
    return apply_corrections(strip_exclusions(answer.query, answer.excluded), answer.corrected)
