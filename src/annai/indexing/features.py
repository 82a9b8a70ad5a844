"""What is a document found by? Vectors for its sections; words and tokens for its passages."""

from collections.abc import Callable, Sequence

import numpy as np

from annai.embedders.base import Embedder, Vectors, normalise_rows
from annai.embedders.packing import TextTokens
from annai.embedders.static import token_model
from annai.stores.base import IndexedDocument
from annai.text.fields import FIELD_WEIGHTS, MAX_FIELD_SHARE, Fields, meaningful_path, passage_fields
from annai.text.keywords import extract_all
from annai.text.tokens import is_cjk_text
from annai.types import Document, Section


def add_features(documents: Sequence[tuple[Document, Sequence[Section]]], embedder: Embedder) -> list[IndexedDocument]:
    """Documents with their sections, ready to be written; the passages of all of them are embedded together."""
    passages = [passage for each in documents for passage in _passages(*each)]
    tokens = TextTokens(token_model())
    keywords = extract_all(passages, also=tokens.__getitem__)
    if embedder.is_additive:
        # The bundled model's vectors are made of the tokens that the index holds anyway.
        is_bundled = embedder.identity == token_model().identity
        vectors = weighted_sums(tokens.sums if is_bundled else embedder.embed_sums, passages)
    else:
        vectors = embedder.embed_documents([embedded_text(passage) for passage in passages])
    indexed = []
    start = 0
    for document, sections in documents:
        orders = _passage_orders(sections)
        own = slice(start, start + len(orders))
        start = own.stop
        indexed.append(
            IndexedDocument(
                document=document,
                is_cjk=is_cjk_text(document.text),
                sections=sections,
                vectors=_tree_vectors(sections, vectors[own], embedder.is_additive),
                keywords=dict(zip(orders, keywords[own], strict=True)),
                tokens=dict(zip(orders, map(tokens.pack, passages[own]), strict=True)),
            )
        )
    return indexed


def weighted_sums(embed_sums: Callable[[Sequence[str]], Vectors], passages: Sequence[Fields]) -> Vectors:
    """The vectors that an additive embedder gives passages: sums of their fields by weight, not yet scaled."""

    def sums(texts: Sequence[str]) -> Vectors:
        # A text that comes again, as a title does with every passage, is embedded once.
        row = {text: number for number, text in enumerate(dict.fromkeys(texts))}
        return embed_sums([*row])[[row[text] for text in texts]]

    body = sums([passage.body for passage in passages])
    total = body + FIELD_WEIGHTS.headings * sums([passage.headings for passage in passages])
    total += _cap(sums([passage.title for passage in passages]), FIELD_WEIGHTS.title, body)
    total += _cap(sums([meaningful_path(passage.path) for passage in passages]), FIELD_WEIGHTS.path, body)
    return total.astype(np.float32)


def embedded_texts(document: Document, sections: Sequence[Section]) -> list[str]:
    """The texts of a document that any embedder but an additive one embeds."""
    return [embedded_text(passage) for passage in _passages(document, sections)]


def embedded_text(passage: Fields) -> str:
    """What any other embedder reads: a passage after its title and headings, since alone it seldom says enough."""
    headings = " > ".join(dict.fromkeys((passage.title, *passage.headings.split("\n"))))
    return f"{headings}\n{passage.body}"


def _passages(document: Document, sections: Sequence[Section]) -> list[Fields]:
    return [passage_fields(document, section) for section in sections if section.is_passage]


def _cap(sums: Vectors, weight: float, body: Vectors) -> Vectors:
    """A field's sums by weight, none longer than its share of the body."""
    lengths, longest = np.linalg.norm(sums, axis=1), MAX_FIELD_SHARE * np.linalg.norm(body, axis=1)
    limits = np.divide(longest, lengths, out=np.full_like(lengths, weight), where=(lengths > 0) & (longest > 0))
    capped: Vectors = sums * np.minimum(limits, np.float32(weight))[:, None]
    return capped


def _tree_vectors(sections: Sequence[Section], passages: Vectors, additive: bool) -> Vectors:
    """A vector for every section: a passage's own, and for the others the sum of theirs.

    Vectors that were scaled to length 1 count by their passages' tokens; the sums of an additive embedder as they are.
    """
    sums = np.zeros((len(sections), passages.shape[1]), np.float32)
    order = _passage_orders(sections)
    weights = [1 if additive else max(sections[each].token_count, 1) for each in order]
    sums[order] = passages * np.array(weights, np.float32)[:, None]
    for section in reversed(sections):
        if section.parent is not None:
            sums[section.parent] += sums[section.order]
    for number in np.flatnonzero(~sums.any(axis=1)).tolist():
        # What holds only a heading is about what its parent is about.
        if (parent := sections[number].parent) is not None:
            sums[number] = sums[parent]
    return normalise_rows(sums)


def _passage_orders(sections: Sequence[Section]) -> list[int]:
    return [section.order for section in sections if section.is_passage]
