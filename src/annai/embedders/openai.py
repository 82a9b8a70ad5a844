"""What does a text mean to a service with OpenAI's interface? OpenAI, Ollama, LM Studio, vLLM, TEI, llama.cpp."""

from collections.abc import Sequence
from functools import cached_property

from annai.config import secret
from annai.embedders.base import Embedder, Kind
from annai.embedders.service import ServiceEmbedder
from annai.errors import EmbedderError
from annai.models.catalog import KEY_VARIABLES
from annai.models.names import served_model
from annai.models.remote import ServiceError, post_json
from annai.models.vectors import configured_dimension, identity
from annai.settings import Embedding, Retry

PROVIDER = "openai"
DEFAULT_URL = "https://api.openai.com/v1"
DEFAULT_MODEL = "text-embedding-3-small"

BATCH_SIZE = 32
"""What TEI takes at once; others take more."""


def create(settings: Embedding, *, retry: Retry, **_: object) -> Embedder:
    """The embedder of a service."""
    return OpenAIEmbedder(settings, retry)


class OpenAIEmbedder(ServiceEmbedder):
    """Sends texts to `/embeddings`; only OpenAI's own service requires a key."""

    def __init__(self, settings: Embedding, retry: Retry) -> None:
        self._name = settings.model or DEFAULT_MODEL
        known = served_model(self._name)
        super().__init__(settings, retry, known, BATCH_SIZE)
        self.dimension = configured_dimension(settings, known)
        self.identity = identity(PROVIDER, self._name, self.dimension, self._prefixes)

    def request(self, texts: Sequence[str], kind: Kind) -> Sequence[Sequence[float]]:
        """One request; vectors come back in the order of their texts, whatever order the service has."""
        prefix = self._prefixes.of(kind)
        body: dict[str, object] = {"model": self._name, "input": [prefix + text for text in texts]}
        body["encoding_format"] = "float"
        if self._settings.dimensions:
            body["dimensions"] = self._settings.dimensions
        url, key = self._url_and_key
        answer = post_json(f"{url}/embeddings", body, texts=len(texts), key=key, timeout=self._settings.timeout_seconds)
        try:
            rows = sorted(answer["data"], key=lambda each: each["index"])
            return [list(map(float, each["embedding"])) for each in rows]
        except (KeyError, TypeError, ValueError):
            raise ServiceError("its answer has no vectors", transient=True) from None

    @cached_property
    def _url_and_key(self) -> tuple[str, str]:
        """The service's address and the key for it; checked with the first text."""
        settings = self._settings
        url = self._base_url(DEFAULT_URL)
        variable = settings.api_key_env or KEY_VARIABLES[PROVIDER][0]
        key = secret(variable)
        if not key and (settings.api_key_env or not settings.base_url):
            raise EmbedderError(
                f"The key for {PROVIDER!r} is missing: set the environment variable {variable}, "
                "or set embedding.base_url to a service that needs no key, such as http://localhost:11434/v1."
            )
        # The default variable holds OpenAI's own key: no other service may see it.
        return url, key if settings.api_key_env or url == DEFAULT_URL else ""
