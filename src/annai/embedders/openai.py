"""What does a text mean to a service with OpenAI's interface? OpenAI, Ollama, LM Studio, vLLM, TEI, llama.cpp."""

from collections.abc import Sequence
from functools import cached_property

from annai.config import secret
from annai.embedders.base import Embedder, Kind
from annai.embedders.service import ServiceEmbedder
from annai.errors import EmbedderError
from annai.models.known import AUTO, identity, known_model, prefixes, wanted_dimension
from annai.models.remote import Refused, check_url, post_json
from annai.settings import Embedding, Retry

PROVIDER = "openai"
USUAL_URL = "https://api.openai.com/v1"
USUAL_MODEL = "text-embedding-3-small"
USUAL_KEY = "OPENAI_API_KEY"

BATCH_SIZE = 32
"""What TEI takes at once; others take more."""


def create(settings: Embedding, *, retry: Retry, **_: object) -> Embedder:
    """The embedder of a service."""
    return OpenAIEmbedder(settings, retry)


class OpenAIEmbedder(ServiceEmbedder):
    """Sends texts to `/embeddings`; no key is needed where the service is not OpenAI's own."""

    def __init__(self, settings: Embedding, retry: Retry) -> None:
        self._name = settings.model or USUAL_MODEL
        known = known_model(self._name)
        super().__init__(settings, retry, BATCH_SIZE, known.max_tokens if known else 0)
        query, document = prefixes(settings, known)
        self._before = ("" if query == AUTO else query, "" if document == AUTO else document)
        self._settings = settings
        self.dimension = wanted_dimension(settings, known)
        self.identity = identity(PROVIDER, self._name, self.dimension, self._before)

    def ask(self, texts: Sequence[str], kind: Kind) -> Sequence[Sequence[float]]:
        """One request; vectors come back in the order of their texts, whatever order the service has."""
        before = self._before[0 if kind == "query" else 1]
        body: dict[str, object] = {"model": self._name, "input": [before + text for text in texts]}
        body["encoding_format"] = "float"
        if self._settings.dimensions:
            body["dimensions"] = self._settings.dimensions
        url, key = self._place
        answer = post_json(f"{url}/embeddings", body, key=key, timeout=self._settings.timeout_seconds)
        try:
            rows = sorted(answer["data"], key=lambda each: each["index"])  # type: ignore[index]
            return [list(map(float, each["embedding"])) for each in rows]
        except (KeyError, TypeError, ValueError):
            raise Refused("its answer holds no vectors", transient=True) from None

    @cached_property
    def _place(self) -> tuple[str, str]:
        """The service's address, and the key to it; looked at when the first text comes."""
        settings = self._settings
        try:
            url = check_url(settings.base_url or USUAL_URL)
        except ValueError as error:
            raise EmbedderError(f"embedding.base_url {error}; correct it in annai.toml.") from None
        variable = settings.api_key_env or USUAL_KEY
        key = secret(variable)
        if not key and (settings.api_key_env or not settings.base_url):
            raise EmbedderError(
                f"The key for {PROVIDER!r} is missing: put it into the environment variable {variable}, "
                "or set embedding.base_url to a service that needs none, such as http://localhost:11434/v1."
            )
        # The usual key is OpenAI's own, and no business of another service.
        return url, key if settings.api_key_env or url == USUAL_URL else ""
