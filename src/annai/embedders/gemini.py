"""What does a text mean to Google's Gemini? Through google-genai, with the task that a text is for."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from annai.config import secret
from annai.embedders.base import Embedder, Kind
from annai.embedders.service import ServiceEmbedder
from annai.errors import EmbedderError
from annai.models.known import AUTO, identity, known_model, prefixes, wanted_dimension
from annai.models.remote import Refused, check_url, redact, refusal
from annai.models.weights import Unavailable, load_extra
from annai.settings import Embedding, Retry

PROVIDER = "gemini"
USUAL_MODEL = "gemini-embedding-001"
KEYS = ("GEMINI_API_KEY", "GOOGLE_API_KEY")

USUAL_DIMENSION = 768
"""A quarter of what the model gives, and hardly worse."""

BATCH_SIZE = 100
"""The most that the service takes at once."""


def create(settings: Embedding, *, retry: Retry, **_: object) -> Embedder:
    """The embedder of Google's service."""
    return GeminiEmbedder(settings, retry)


class GeminiEmbedder(ServiceEmbedder):
    """Sends texts to Google; vectors that were cut are scaled to length 1 again."""

    def __init__(self, settings: Embedding, retry: Retry) -> None:
        self._name = settings.model or USUAL_MODEL
        known = known_model(self._name, PROVIDER)
        super().__init__(settings, retry, BATCH_SIZE, known.max_tokens if known else 0)
        self.batch_size = min(self.batch_size, BATCH_SIZE)
        self._settings = settings
        query, document = prefixes(settings, known)
        self._before = ("" if query == AUTO else query, "" if document == AUTO else document)
        self.dimension = wanted_dimension(settings, known, USUAL_DIMENSION)
        tasks = (settings.task_type_query, settings.task_type_document)
        marks = tuple(f"{task} {before}".strip() for task, before in zip(tasks, self._before, strict=True))
        self.identity = identity(PROVIDER, self._name, self.dimension, (marks[0], marks[1]))

    def ask(self, texts: Sequence[str], kind: Kind) -> Sequence[Sequence[float]]:
        """One request for all the texts."""
        client, types, errors = self._service
        number = 0 if kind == "query" else 1
        task = (self._settings.task_type_query, self._settings.task_type_document)[number]
        contents = [types.Content(parts=[types.Part(text=self._before[number] + text)]) for text in texts]
        options = types.EmbedContentConfig(task_type=task or None, output_dimensionality=self.dimension)
        try:
            answer = client.models.embed_content(model=self._name, contents=contents, config=options)
        except errors.APIError as error:
            headers = getattr(error.response, "headers", None) or {}
            said = redact(self._key, str(error.message or error.status or ""))
            raise refusal(error.code, headers.get("Retry-After"), f"it answered {error.code}: {said}") from None
        except Exception as error:
            # The network's errors have many names, and one of them may hold the request with its key.
            raise Refused(
                f"it cannot be reached, or sent half an answer ({type(error).__name__})", transient=True
            ) from None
        return [list(each.values or ()) for each in answer.embeddings or ()]

    @cached_property
    def _key(self) -> str:
        names = (self._settings.api_key_env,) if self._settings.api_key_env else KEYS
        key = secret(*names)
        if not key:
            raise EmbedderError(
                f"The key for {PROVIDER!r} is missing: get one at https://aistudio.google.com/apikey and put it into "
                f"the environment variable {' or '.join(names)}."
            )
        return key

    @cached_property
    def _service(self) -> tuple[Any, Any, Any]:
        """The client, and the modules of its types and errors; made when the first text comes."""
        try:
            genai = load_extra(PROVIDER)
            base_url = check_url(self._settings.base_url) if self._settings.base_url else None
        except Unavailable as error:
            raise EmbedderError(str(error)) from None
        except ValueError as error:
            raise EmbedderError(f"embedding.base_url {error}; correct it in annai.toml.") from None
        options = genai.types.HttpOptions(base_url=base_url, timeout=int(self._settings.timeout_seconds * 1000))
        client = genai.Client(api_key=self._key, vertexai=False, http_options=options)
        return client, genai.types, load_extra(PROVIDER, "google.genai.errors")
