"""Which words is a passage found by? The words of each of its fields, made the same way wherever they are needed.

The indexer writes them, `store check` counts them again and a move to another engine makes them again: if these
differed, a sound index would look damaged.
"""

from dataclasses import dataclass

from annai.text.fields import FIELD_NAMES, Fields
from annai.text.tokens import KATAKANA_MARK, katakana_terms, words


@dataclass(frozen=True, slots=True)
class Keywords:
    """The words of one passage, separated by spaces, for each of its `Fields`."""

    title: str
    headings: str
    path: str
    body: str

    @property
    def length(self) -> int:
        """How many words there are in all; those in katakana, which have terms of their own, count once."""
        fields = (self.title, self.headings, self.path, self.body)
        return sum(len(field.split()) - field.count(KATAKANA_MARK) for field in fields)

    @property
    def distinct(self) -> set[str]:
        """The different words, whatever field they are in."""
        return {word for field in (self.title, self.headings, self.path, self.body) for word in field.split()}


def extract_keywords(fields: Fields) -> Keywords:
    """The words of a passage, from its texts."""
    texts = {name: getattr(fields, name) for name in FIELD_NAMES}
    return Keywords(**{name: " ".join([*words(text), *katakana_terms(text)]) for name, text in texts.items()})
