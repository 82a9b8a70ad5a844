"""What is known of models by name? How each was trained, so that naming it is enough."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A model that is known by its name."""

    name: str
    provider: str
    dimension: int
    max_tokens: int
    languages: str
    licence: str
    parameters: str = ""
    query_prefix: str = ""
    document_prefix: str = ""
    truncations: tuple[int, ...] = ()
    """Smaller dimensions to which its vectors may be truncated (Matryoshka)."""
    can_truncate_anywhere: bool = False
    """Whether its vectors may be truncated to any smaller dimension."""
    has_remote_code: bool = False
    """Whether it runs Python code that comes with it; that code adds the prefixes."""

    def allows(self, dimension: int) -> bool:
        """Whether its vectors may have this dimension."""
        if self.can_truncate_anywhere:
            return 0 < dimension <= self.dimension
        return dimension in (*self.truncations, self.dimension)


_APACHE, _MIT = "Apache-2.0", "MIT"
_LOCAL = "sentence-transformers"


def _ruri(size: str, dimension: int) -> KnownModel:
    return KnownModel(
        f"cl-nagoya/ruri-v3-{size}",
        _LOCAL,
        dimension,
        max_tokens=8192,
        languages="ja",
        licence=_APACHE,
        parameters=size.upper(),
        query_prefix="検索クエリ: ",
        document_prefix="検索文書: ",
    )


def _e5(size: str, dimension: int, parameters: str) -> KnownModel:
    return KnownModel(
        f"intfloat/multilingual-e5-{size}",
        _LOCAL,
        dimension,
        max_tokens=512,
        languages="100 languages",
        licence=_MIT,
        parameters=parameters,
        query_prefix="query: ",
        document_prefix="passage: ",
    )


MODELS: tuple[KnownModel, ...] = (
    _ruri("30m", 256),
    _ruri("70m", 384),
    _ruri("130m", 512),
    _ruri("310m", 768),
    KnownModel("pfnet/plamo-embedding-1b", _LOCAL, 2048, 4096, "ja", _APACHE, "1B", has_remote_code=True),
    _e5("small", 384, "118M"),
    _e5("base", 768, "278M"),
    _e5("large", 1024, "560M"),
    KnownModel("BAAI/bge-m3", _LOCAL, 1024, 8192, "100 languages", _MIT, "568M"),
    KnownModel(
        "Qwen/Qwen3-Embedding-0.6B",
        _LOCAL,
        1024,
        32_768,
        "100 languages",
        _APACHE,
        "596M",
        query_prefix="Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:",
        can_truncate_anywhere=True,
    ),
    KnownModel(
        "google/embeddinggemma-300m",
        _LOCAL,
        768,
        2048,
        "100 languages",
        "Gemma",
        "308M",
        query_prefix="task: search result | query: ",
        document_prefix="title: none | text: ",
        truncations=(512, 256, 128),
    ),
    KnownModel("gemini-embedding-001", "gemini", 3072, 2048, "100 languages", "a service", can_truncate_anywhere=True),
    KnownModel(
        "text-embedding-3-small", "openai", 1536, 8191, "many languages", "a service", can_truncate_anywhere=True
    ),
    KnownModel(
        "text-embedding-3-large", "openai", 3072, 8191, "many languages", "a service", can_truncate_anywhere=True
    ),
)
"""Every known model, in the order in which `annai model ls` shows them."""

KEY_VARIABLES = {"gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"), "openai": ("OPENAI_API_KEY",)}
"""Provider → the variables that may hold its key, unless `api_key_env` names another."""


def provider_of(name: str) -> str:
    """Which provider loads a model: that of a known name, or by what a folder holds; empty if neither tells."""
    if known := known_model(name):
        return known.provider
    folder = Path(name).expanduser()
    if not folder.is_dir():
        return ""
    return "onnx" if any(folder.rglob("*.onnx")) and not any(folder.glob("*.safetensors")) else "sentence-transformers"


def known_model(name: str, provider: str = "") -> KnownModel | None:
    """The known model of this name, if there is one; the name may leave out the maker, as Ollama's names do."""
    for model in MODELS:
        if provider in ("", model.provider) and name.lower() in (model.name.lower(), model.name.lower().split("/")[-1]):
            return model
    return None
