"""How well does a text answer a question, to a service? Any with the `/rerank` of Cohere, Jina or TEI."""

import math
from collections.abc import Sequence
from functools import cached_property

from annai.config import Config, secret
from annai.errors import RerankerError
from annai.models.remote import Json, ServiceError, check_url, post_json
from annai.rerankers.base import Reranker

UNKNOWN_FIELD_STATUSES = (400, 422)
"""How a service answers that has another name for the texts."""


def create(config: Config) -> Reranker:
    """The reranker of a service."""
    return HttpReranker(config)


class HttpReranker(Reranker):
    """Sends the question and the texts to `/rerank`."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self._settings = config.rerank
        self._texts_field = "documents"

    def load(self) -> None:
        """Check that there are a valid address and a key."""
        _ = self._url_and_key

    def score(self, query: str, texts: Sequence[str], seconds: float) -> list[float]:
        """One request for all the texts; there is no time for retries."""
        try:
            try:
                answer = self._request(query, texts, seconds)
            except ServiceError as error:
                if self._texts_field == "texts" or error.status not in UNKNOWN_FIELD_STATUSES:
                    raise
                # TEI says "texts" where the others say "documents".
                self._texts_field = "texts"
                answer = self._request(query, texts, seconds)
        except ServiceError as error:
            raise RerankerError(str(error)) from None
        return _scores(answer, len(texts))

    def _request(self, query: str, texts: Sequence[str], seconds: float) -> Json:
        url, key = self._url_and_key
        body: dict[str, object] = {"query": query, self._texts_field: list(texts)}
        if self._texts_field == "documents":
            body |= {"model": self._settings.model, "top_n": len(texts), "return_documents": False}
        return post_json(f"{url}/rerank", body, key=key, timeout=seconds)

    @cached_property
    def _url_and_key(self) -> tuple[str, str]:
        """The service's address and the key for it; the key is empty if the settings name no variable."""
        try:
            url = check_url(self._settings.base_url, "rerank.base_url")
        except ValueError as error:
            raise RerankerError(str(error)) from None
        variable = self._settings.api_key_env
        key = secret(variable) if variable else ""
        if variable and not key:
            raise RerankerError(f"The key for the reranker is missing: set the environment variable {variable}.")
        return url, key


def _scores(answer: Json, count: int) -> list[float]:
    """A score for each text, 0–1, from a service's answer."""
    try:
        rows = answer if isinstance(answer, list) else answer.get("results") or answer["data"]
        by_index = {int(row["index"]): float(row.get("relevance_score", row.get("score"))) for row in rows}
    except (KeyError, TypeError, ValueError, AttributeError):
        raise RerankerError("the reranker's answer has no scores") from None
    if set(by_index) != set(range(count)) or not all(map(math.isfinite, by_index.values())):
        raise RerankerError(f"the reranker scored {len(by_index)} of {count} texts")
    scores = [by_index[index] for index in range(count)]
    if min(scores) < 0 or max(scores) > 1:
        # Some services return the model's logits.
        scores = [1 / (1 + math.exp(-min(max(score, -60.0), 60.0))) for score in scores]
    return scores
