"""What is known of models? How each was trained, so that naming it is enough.

Nothing here is guessed: `source` names where a row was found. "mteb" is the repository embeddings-benchmark/mteb,
folder mteb/models/model_implementations, as of August 2026; "card" is the model's own page on Hugging Face.
"""

from dataclasses import replace
from typing import Literal

from annai.definitions import dataclass


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
    min_dimension: int = 0
    """Its vectors may be truncated to any dimension from this one on; 0: only to the `truncations`."""
    tasks: tuple[str, ...] = ()
    """What its code, or its maker's service, wants to be told of queries and of documents."""
    has_remote_code: bool = False
    """Whether it runs Python code that comes with it."""
    adds_prefixes: bool = False
    """Whether that code adds the prefixes, so that they are needed only where another program runs the model."""
    aliases: tuple[str, ...] = ()
    """Its names in the libraries of Ollama and LM Studio, where they differ."""
    source: str = ""
    """Where all this was found."""

    def task(self, kind: Literal["query", "document"]) -> str:
        """What to tell of a text of this kind; empty if nothing."""
        return self.tasks[kind == "document"] if self.tasks else ""

    def allows(self, dimension: int) -> bool:
        """Whether its vectors may have this dimension."""
        if dimension in (*self.truncations, self.dimension):
            return True
        # Of a name that leaves the model's size open, the dimension is not known.
        return bool(self.min_dimension) and self.min_dimension <= dimension <= (self.dimension or dimension)


@dataclass(frozen=True, slots=True)
class KnownReranker:
    """A cross-encoder that is known by its name."""

    name: str
    max_tokens: int
    """Of the question and the text together; 0 if that was not found."""
    languages: str
    licence: str
    parameters: str = ""
    has_remote_code: bool = False
    source: str = ""


_APACHE, _MIT, _SERVICE = "Apache-2.0", "MIT", "a service"
_LOCAL = "sentence-transformers"
_WEB_SEARCH = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"
_REPRESENT = "Represent this sentence for searching relevant passages: "


def _ruri_v3(size: str, dimension: int) -> KnownModel:
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
        source="mteb ruri_models.py; dimensions: card",
    )


def _ruri_v2(size: str, dimension: int, parameters: str) -> KnownModel:
    return KnownModel(
        f"cl-nagoya/ruri-{size}-v2",
        _LOCAL,
        dimension,
        max_tokens=512,
        languages="ja",
        licence=_APACHE,
        parameters=parameters,
        query_prefix="クエリ: ",
        document_prefix="文章: ",
        has_remote_code=size == "small",
        source="mteb ruri_models.py",
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
        source="mteb e5_models.py",
    )


def _bge_en(size: str, dimension: int, parameters: str) -> KnownModel:
    return KnownModel(
        f"BAAI/bge-{size}-en-v1.5",
        _LOCAL,
        dimension,
        max_tokens=512,
        languages="en",
        licence=_MIT,
        parameters=parameters,
        query_prefix=_REPRESENT,
        source="mteb bge_models.py; its 512 for small is wrong: fastembed and others have 384",
    )


def _qwen3(size: str, dimension: int, parameters: str) -> KnownModel:
    return KnownModel(
        f"Qwen/Qwen3-Embedding-{size}",
        _LOCAL,
        dimension,
        max_tokens=32_768,
        languages="100 languages",
        licence=_APACHE,
        parameters=parameters,
        query_prefix=_WEB_SEARCH,
        min_dimension=32,
        source="mteb qwen3_models.py; dimensions: keras-team/keras-hub#2455",
    )


def _nomic(version: str, aliases: tuple[str, ...]) -> KnownModel:
    return KnownModel(
        f"nomic-ai/nomic-embed-text-{version}",
        _LOCAL,
        768,
        max_tokens=2048,
        languages="en",
        licence=_APACHE,
        parameters="137M",
        query_prefix="search_query: ",
        document_prefix="search_document: ",
        truncations=(512, 256, 128, 64) if version == "v1.5" else (),
        has_remote_code=True,
        aliases=aliases,
        source="mteb nomic_models.py; dimensions: card; 8192 tokens there, but 2K in Ollama's library",
    )


def _arctic(size: str, dimension: int, parameters: str, aliases: tuple[str, ...] = ()) -> KnownModel:
    return KnownModel(
        f"Snowflake/snowflake-arctic-embed-{size}-v2.0",
        _LOCAL,
        dimension,
        max_tokens=8192,
        languages="74 languages",
        licence=_APACHE,
        parameters=parameters,
        query_prefix="query: ",
        has_remote_code=size == "m",
        aliases=aliases,
        source="mteb arctic_models.py; prefix: hivebook.wiki; to which dimensions it can be truncated was not found",
    )


def _gemini(version: str, max_tokens: int, query: str = "", document: str = "") -> KnownModel:
    return KnownModel(
        f"gemini-embedding-{version}",
        "gemini",
        3072,
        max_tokens,
        "100 languages",
        _SERVICE,
        query_prefix=query,
        document_prefix=document,
        min_dimension=128,
        source="ai.google.dev/gemini-api/docs/embeddings; prefixes: mteb google_gemini.py",
    )


def _openai(size: str, dimension: int) -> KnownModel:
    return KnownModel(
        f"text-embedding-3-{size}",
        "openai",
        dimension,
        8191,
        "many languages",
        _SERVICE,
        min_dimension=1,
        source="mteb openai_models.py; the least dimension was not found",
    )


_PLAMO = KnownModel(
    "pfnet/plamo-embedding-1b",
    _LOCAL,
    2048,
    4096,
    "ja",
    _APACHE,
    "1B",
    query_prefix="次の文章に対して、関連する文章を検索してください: ",
    has_remote_code=True,
    adds_prefixes=True,
    source="card; prefix: the JMTEB settings of PLaMo, and its Core ML port",
)
_E5_INSTRUCT = replace(
    _e5("large-instruct", 1024, "560M"),
    query_prefix=f"{_WEB_SEARCH} ",
    document_prefix="",
    source="mteb e5_instruct.py",
)
_EMBEDDINGGEMMA = KnownModel(
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
    aliases=("embeddinggemma",),
    source="mteb google_embeddinggemma.py; name: ollama.com/library",
)
_MXBAI = KnownModel(
    "mixedbread-ai/mxbai-embed-large-v1",
    _LOCAL,
    1024,
    512,
    "en",
    _APACHE,
    "335M",
    query_prefix=_REPRESENT,
    truncations=(512,),
    aliases=("mxbai-embed-large",),
    source="mteb mixedbread_ai_models.py; 512: the card's example; other dimensions were not found",
)
_GLUCOSE = KnownModel(
    "pkshatech/GLuCoSE-base-ja-v2",
    _LOCAL,
    768,
    512,
    "ja",
    _APACHE,
    query_prefix="query: ",
    document_prefix="passage: ",
    source="card; its parameters were not found",
)
_SARASHINA = KnownModel(
    "sbintuitions/sarashina-embedding-v2-1b",
    _LOCAL,
    1792,
    8192,
    "ja",
    "non-commercial",
    "1.2B",
    query_prefix="task: クエリを与えるので、与えられたWeb検索クエリに答える関連文章を検索してください。\nquery: ",
    document_prefix="text: ",
    source="card; mteb sarashina_embedding_models.py",
)
_JINA = KnownModel(
    "jinaai/jina-embeddings-v3",
    _LOCAL,
    1024,
    8192,
    "89 languages",
    "CC-BY-NC-4.0",
    "572M",
    query_prefix="Represent the query for retrieving evidence documents: ",
    document_prefix="Represent the document for retrieval: ",
    min_dimension=32,
    tasks=("retrieval.query", "retrieval.passage"),
    has_remote_code=True,
    source="mteb jina_models.py; dimensions: jina.ai/news/jina-embeddings-v3-a-frontier-multilingual-embedding-model",
)

MODELS: tuple[KnownModel, ...] = (
    _ruri_v3("30m", 256),
    _ruri_v3("70m", 384),
    _ruri_v3("130m", 512),
    _ruri_v3("310m", 768),
    _ruri_v2("small", 768, "68M"),
    _ruri_v2("base", 768, "111M"),
    _ruri_v2("large", 1024, "337M"),
    _GLUCOSE,
    _PLAMO,
    _SARASHINA,
    _e5("small", 384, "118M"),
    _e5("base", 768, "278M"),
    _e5("large", 1024, "560M"),
    _E5_INSTRUCT,
    KnownModel(
        "BAAI/bge-m3",
        _LOCAL,
        1024,
        8192,
        "100 languages",
        _MIT,
        "568M",
        source="mteb bge_models.py; it has no prefixes",
    ),
    _bge_en("small", 384, "33M"),
    _bge_en("base", 768, "109M"),
    _bge_en("large", 1024, "335M"),
    _qwen3("0.6B", 1024, "596M"),
    _qwen3("4B", 2560, "4B"),
    _qwen3("8B", 4096, "7.6B"),
    _EMBEDDINGGEMMA,
    _nomic("v1", ()),
    _nomic("v1.5", ("nomic-embed-text",)),
    _MXBAI,
    _arctic("m", 768, "305M"),
    _arctic("l", 1024, "568M", ("snowflake-arctic-embed2",)),
    _JINA,
    _gemini("001", 2048),
    _gemini("2", 8192, "task: search result | query: ", "title: none | text: "),
    _openai("small", 1536),
    _openai("large", 3072),
)
"""Every known model, in the order in which `annai model ls` shows them."""

FAMILIES = {"qwen3-embedding": replace(_qwen3("8B", 0, ""), name="qwen3-embedding")}
"""Names of services that leave the size open: what all sizes have in common."""

RERANKERS: tuple[KnownReranker, ...] = (
    KnownReranker("BAAI/bge-reranker-v2-m3", 8192, "100 languages", _APACHE, "568M", source="card, its discussion 5"),
    KnownReranker("cl-nagoya/ruri-v3-reranker-310m", 8192, "ja", "", "310M", source="users; its card was not found"),
    KnownReranker("cl-nagoya/ruri-reranker-small", 0, "ja", _APACHE, "68M", source="card, arXiv 2409.07737"),
    KnownReranker("cl-nagoya/ruri-reranker-base", 0, "ja", _APACHE, "111M", source="card, arXiv 2409.07737"),
    KnownReranker("cl-nagoya/ruri-reranker-large", 0, "ja", _APACHE, "337M", source="card, arXiv 2409.07737"),
    KnownReranker(
        "jinaai/jina-reranker-v2-base-multilingual",
        1024,
        "100 languages",
        "CC-BY-NC-4.0",
        has_remote_code=True,
        source="card; its parameters were not found",
    ),
)
"""Every known reranker that sentence-transformers loads, in the order in which `annai model ls` shows them."""

KEY_VARIABLES = {
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "openai": ("OPENAI_API_KEY",),
    "cohere": ("CO_API_KEY", "COHERE_API_KEY"),
    "jina": ("JINA_API_KEY",),
}
"""Service → the variables that may hold its key, unless `api_key_env` names another."""
