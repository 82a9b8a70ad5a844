"""How well does a text answer a question, to a service? Cohere, Jina, TEI, vLLM and those that speak like them.

Where each format was found: Cohere, cohere-openapi.yaml of cohere-ai/cohere-developer-experience (it answers 422 to a
field that it does not know); Jina, its openapi at api-evangelist/jina-ai and the card of jina-reranker-v2; TEI,
docs/openapi.json and router/src of huggingface/text-embeddings-inference; vLLM, vllm/entrypoints/pooling/scoring.
"""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cached_property
from urllib.parse import urlsplit

from annai.config import Config, secret
from annai.definitions import dataclass
from annai.errors import RerankerError
from annai.models.catalog import KEY_VARIABLES
from annai.models.remote import Json, ServiceError, check_url, post_json
from annai.rerankers.base import Reranker, sigmoid


@dataclass(frozen=True, slots=True)
class _Format:
    """How a service wants to be asked."""

    texts: str = "documents"
    extra: Mapping[str, object] = field(default_factory=dict)
    """What else it is told: to cut off long texts where it would refuse them, and not to send the texts back."""
    batch_size: int = 1000
    """Texts in a request: one request where it can be, since some services count them, and Jina v3 compares texts."""
    url: str = ""
    """Its maker's own address, if there is one."""


FORMATS = {
    "auto": _Format(),
    "cohere": _Format(url="https://api.cohere.com/v2"),
    "jina": _Format(extra={"return_documents": False}, url="https://api.jina.ai/v1"),
    "tei": _Format(texts="texts", extra={"truncate": True}, batch_size=32),
    "vllm": _Format(extra={"truncate_prompt_tokens": -1}),
}
"""The setting `rerank.api` → the format; `auto` is what they have in common."""

HINTS = {"`texts`": "tei", "maximum context length": "vllm", "maximum model length": "vllm"}
"""What a service says when it is asked in the common format → the format to try instead."""


def create(config: Config) -> Reranker:
    """The reranker of a service."""
    return HttpReranker(config)


class HttpReranker(Reranker):
    """Sends the question and the texts to `/rerank`."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self._settings = config.rerank
        self._api: str = config.rerank.api
        if self._api == "auto":
            host = f".{urlsplit(self._settings.base_url).hostname or ''}"
            named = (api for api, each in FORMATS.items() if each.url and host.endswith(_domain(each.url)))
            self._api = next(named, "auto")

    def load(self) -> None:
        """Check that there are a valid address, a model and a key."""
        _ = self._url_and_key

    def score(self, query: str, texts: Sequence[str], seconds: float) -> list[float]:
        """Ask for as many texts at once as the service takes; there is no time for retries."""
        deadline = time.monotonic() + seconds
        try:
            try:
                scores = self._ask(self._api, query, texts, seconds, deadline)
            except ServiceError as error:
                hinted = next((api for hint, api in HINTS.items() if hint in str(error)), "")
                if self._api != "auto" or not hinted:
                    raise
                scores = self._ask(hinted, query, texts, seconds, deadline)
                # Only what has worked is kept: one refusal may have had another reason.
                self._api = hinted
        except ServiceError as error:
            raise RerankerError(str(error)) from None
        # Some services return the model's logits.
        return scores if all(0 <= score <= 1 for score in scores) else sigmoid(scores)

    def _ask(self, api: str, query: str, texts: Sequence[str], seconds: float, deadline: float) -> list[float]:
        form = FORMATS[api]
        url, key = self._url_and_key
        scores: list[float] = []
        for start in range(0, len(texts), form.batch_size):
            batch = list(texts[start : start + form.batch_size])
            body: dict[str, object] = {"query": query, form.texts: batch, **form.extra}
            if self._settings.model and api != "tei":
                body["model"] = self._settings.model
            answer = post_json(url, body, texts=len(batch), key=key, timeout=seconds, deadline=deadline)
            scores += _scores(answer, len(batch))
        return scores

    @cached_property
    def _url_and_key(self) -> tuple[str, str]:
        """The service's address and the key for it; no key is sent unless the settings or the address ask for one."""
        settings, form = self._settings, FORMATS[self._api]
        try:
            url = check_url(settings.base_url or form.url, "rerank.base_url").removesuffix("/rerank")
        except ValueError as error:
            raise RerankerError(str(error)) from None
        # What belongs to a maker's own service goes to no other.
        is_own = bool(form.url) and urlsplit(url).hostname == urlsplit(form.url).hostname
        if form.url and not settings.model:
            raise RerankerError("rerank.model is empty", f"name a model of the service {self._api!r} in annai.toml.")
        if is_own and not urlsplit(url).path:
            url = form.url
        variables = (settings.api_key_env,) if settings.api_key_env else KEY_VARIABLES[self._api] if is_own else ()
        key = secret(*variables)
        if variables and not key:
            raise RerankerError(
                f"The key for the reranker is missing: set the environment variable {' or '.join(variables)}."
            )
        return f"{url}/rerank", key


def _domain(url: str) -> str:
    """The last two names of a host, after a dot."""
    return "." + ".".join((urlsplit(url).hostname or "").split(".")[-2:])


def _scores(answer: Json, count: int) -> list[float]:
    """A score for each text, from a service's answer."""
    try:
        rows = answer if isinstance(answer, list) else answer.get("results") or answer["data"]
        by_index = {int(row["index"]): float(row.get("relevance_score", row.get("score"))) for row in rows}
    except (KeyError, TypeError, ValueError, AttributeError):
        raise RerankerError("the reranker's answer has no scores") from None
    if set(by_index) != set(range(count)) or not all(map(math.isfinite, by_index.values())):
        raise RerankerError(f"the reranker scored {len(by_index)} of {count} texts")
    return [by_index[index] for index in range(count)]
