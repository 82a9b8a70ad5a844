"""What does a text mean to Google's Gemini? The service is told what each text is for.

The requests are those of Google's own library, google-genai, which the tests compare them with.
"""

from collections.abc import Sequence
from functools import cached_property
from urllib.parse import quote

from annai.config import secret
from annai.embedders.base import Embedder, Kind
from annai.embedders.service import ServiceEmbedder
from annai.errors import EmbedderError
from annai.models.catalog import KEY_VARIABLES
from annai.models.names import known_model
from annai.models.remote import ServiceError, post_json
from annai.models.vectors import NO_PREFIXES, Prefixes, configured_dimension, identity
from annai.settings import Embedding, Retry

PROVIDER = "gemini"
DEFAULT_URL, API_VERSION = "https://generativelanguage.googleapis.com", "v1"
DEFAULT_MODEL = "gemini-embedding-001"

DEFAULT_DIMENSION = 768
"""A quarter of the model's own dimension, and hardly worse."""

BATCH_SIZE = 100
"""The most texts that the service takes at once."""


def create(settings: Embedding, *, retry: Retry, **_: object) -> Embedder:
    """The embedder of Google's service."""
    return GeminiEmbedder(settings, retry)


class GeminiEmbedder(ServiceEmbedder):
    """Sends texts to Google with the task type that the settings name for their kind."""

    def __init__(self, settings: Embedding, retry: Retry) -> None:
        self._name = settings.model or DEFAULT_MODEL
        known = known_model(self._name, PROVIDER)
        super().__init__(settings, retry, known, BATCH_SIZE)
        self.batch_size = min(self.batch_size, BATCH_SIZE)
        self.dimension = configured_dimension(settings, known, DEFAULT_DIMENSION)
        # gemini-embedding-2 takes no task types: its prefixes say what a text is for.
        has_task_types = not (known and known.query_prefix)
        self._task_types = (
            Prefixes(settings.task_type_query, settings.task_type_document) if has_task_types else NO_PREFIXES
        )
        # Vectors depend on the task types as they do on prefixes.
        marks = Prefixes(
            f"{self._task_types.query} {self._prefixes.query}".strip(),
            f"{self._task_types.document} {self._prefixes.document}".strip(),
        )
        self.identity = identity(PROVIDER, self._name, self.dimension, marks)

    def request(self, texts: Sequence[str], kind: Kind) -> Sequence[Sequence[float]]:
        """One request for all the texts."""
        prefix, task_type = self._prefixes.of(kind), self._task_types.of(kind)
        model = self._name if "/" in self._name else f"models/{self._name}"
        options = {"model": model, "outputDimensionality": self.dimension}
        if task_type:
            options["taskType"] = task_type
        answer = post_json(
            f"{self._base_url(DEFAULT_URL)}/{API_VERSION}/{quote(model)}:batchEmbedContents",
            {"requests": [{"content": {"parts": [{"text": prefix + text}]}, **options} for text in texts]},
            texts=len(texts),
            key=self._key,
            key_header="x-goog-api-key",
            timeout=self._settings.timeout_seconds,
        )
        try:
            return [list(map(float, each["values"])) for each in answer["embeddings"]]
        except (KeyError, TypeError, ValueError):
            raise ServiceError("its answer has no vectors", transient=True) from None

    @cached_property
    def _key(self) -> str:
        variables = (self._settings.api_key_env,) if self._settings.api_key_env else KEY_VARIABLES[PROVIDER]
        key = secret(*variables)
        if not key:
            raise EmbedderError(
                f"The key for {PROVIDER!r} is missing: get one at https://aistudio.google.com/apikey and set the "
                f"environment variable {' or '.join(variables)}."
            )
        return key
