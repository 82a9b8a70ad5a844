"""Which words is a passage found by? The words of each of its fields, made the same way wherever they are needed.

The indexer writes them, `store check` counts them again and a move to another engine makes them again: if these
differed, a sound index would look damaged.
"""

from dataclasses import dataclass

from annai.text.fields import FIELD_NAMES, Fields
from annai.text.tokens import words


@dataclass(frozen=True, slots=True)
class Keywords:
    """The words of one passage, separated by spaces, for each of its `Fields`."""

    title: str
    headings: str
    path: str
    body: str

    @property
    def length(self) -> int:
        """How many words there are in all."""
        return sum(len(field.split()) for field in (self.title, self.headings, self.path, self.body))

    @property
    def distinct(self) -> set[str]:
        """The different words, whatever field they are in."""
        return {word for field in (self.title, self.headings, self.path, self.body) for word in field.split()}


def extract_keywords(fields: Fields) -> Keywords:
    """The words of a passage, from its texts."""
    return Keywords(**{name: " ".join(words(getattr(fields, name))) for name in FIELD_NAMES})
