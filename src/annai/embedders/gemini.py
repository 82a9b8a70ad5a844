"""What does a text mean to Google's Gemini? Through google-genai, which is told what each text is for."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from annai.config import secret
from annai.embedders.base import Embedder, Kind
from annai.embedders.service import ServiceEmbedder
from annai.errors import EmbedderError
from annai.models.catalog import KEY_VARIABLES
from annai.models.extras import ModelUnavailable, load_extra
from annai.models.names import known_model
from annai.models.remote import ServiceError, redact, status_error
from annai.models.vectors import NO_PREFIXES, Prefixes, configured_dimension, identity
from annai.settings import Embedding, Retry

PROVIDER = "gemini"
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
        client, types, errors = self._service
        prefix, task_type = self._prefixes.of(kind), self._task_types.of(kind)
        contents = [types.Content(parts=[types.Part(text=prefix + text)]) for text in texts]
        options = types.EmbedContentConfig(task_type=task_type or None, output_dimensionality=self.dimension)
        try:
            answer = client.models.embed_content(model=self._name, contents=contents, config=options)
        except errors.APIError as error:
            headers = getattr(error.response, "headers", None) or {}
            detail = redact(self._key, str(error.message or error.status or ""))
            raise status_error(error.code, headers.get("Retry-After"), f"it answered {error.code}: {detail}") from None
        except Exception as error:
            # The network's errors have many classes, and one of them may hold the request with its key.
            raise ServiceError(
                f"it cannot be reached, or it sent an incomplete or invalid answer ({type(error).__name__})",
                transient=True,
            ) from None
        return [list(each.values or ()) for each in answer.embeddings or ()]

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

    @cached_property
    def _service(self) -> tuple[Any, Any, Any]:
        """The client, and the modules of its types and errors; made with the first text."""
        try:
            genai = load_extra(PROVIDER)
        except ModelUnavailable as error:
            raise EmbedderError(str(error)) from None
        timeout = int(self._settings.timeout_seconds * 1000)
        options = genai.types.HttpOptions(base_url=self._base_url() or None, timeout=timeout)
        client = genai.Client(api_key=self._key, vertexai=False, http_options=options)
        return client, genai.types, load_extra(PROVIDER, "google.genai.errors")
