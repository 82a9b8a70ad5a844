"""How well does a text answer, to a service? Any that has Cohere's, Jina's or TEI's `/rerank`."""

import math
from collections.abc import Sequence
from functools import cached_property

from annai.config import Config, secret
from annai.errors import RerankerError
from annai.models.remote import Refused, check_url, post_json
from annai.rerankers.base import Reranker

NOT_UNDERSTOOD = (400, 422)
"""What a service answers that calls the texts by another name."""


def create(config: Config) -> Reranker:
    """The reranker of a service."""
    return HttpReranker(config)


class HttpReranker(Reranker):
    """Sends the question and the texts to `/rerank`."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self._settings = config.rerank
        self._texts_name = "documents"

    def load(self) -> None:
        """See that the address and the key are there."""
        _ = self._place

    def score(self, query: str, texts: Sequence[str], seconds: float) -> list[float]:
        """One request for all the texts; there is no time for a second."""
        try:
            try:
                found = self._ask(query, texts, seconds)
            except Refused as refused:
                if self._texts_name == "texts" or refused.code not in NOT_UNDERSTOOD:
                    raise
                # TEI says "texts" where the others say "documents".
                self._texts_name = "texts"
                found = self._ask(query, texts, seconds)
        except Refused as refused:
            raise RerankerError(str(refused)) from None
        return _scores(found, len(texts))

    def _ask(self, query: str, texts: Sequence[str], seconds: float) -> object:
        url, key = self._place
        body: dict[str, object] = {"query": query, self._texts_name: list(texts)}
        if self._texts_name == "documents":
            body |= {"model": self._settings.model, "top_n": len(texts), "return_documents": False}
        return post_json(f"{url}/rerank", body, key=key, timeout=seconds)

    @cached_property
    def _place(self) -> tuple[str, str]:
        try:
            url = check_url(self._settings.base_url)
        except ValueError as error:
            raise RerankerError(f"rerank.base_url {error}; correct it in annai.toml.") from None
        variable = self._settings.api_key_env
        key = secret(variable) if variable else ""
        if variable and not key:
            raise RerankerError(
                f"The key for the reranker is missing: put it into the environment variable {variable}."
            )
        return url, key


def _scores(answer: object, count: int) -> list[float]:
    """A score for each text, 0–1, from what the services answer."""
    try:
        rows = answer if isinstance(answer, list) else answer.get("results") or answer["data"]  # type: ignore[attr-defined, index]
        found = {int(row["index"]): float(row.get("relevance_score", row.get("score"))) for row in rows}
    except (KeyError, TypeError, ValueError, AttributeError):
        raise RerankerError("the reranker's answer holds no scores") from None
    if set(found) != set(range(count)) or not all(map(math.isfinite, found.values())):
        raise RerankerError(f"the reranker scored {len(found)} of {count} texts")
    scores = [found[number] for number in range(count)]
    if min(scores) < 0 or max(scores) > 1:
        # Some give what stands before the last step of the model.
        scores = [1 / (1 + math.exp(-min(max(score, -60.0), 60.0))) for score in scores]
    return scores
