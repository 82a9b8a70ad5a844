"""What can be set? The one table of settings.

The loader, the comments that `annai init` writes and the documentation are all made from these dataclasses.
"""

from dataclasses import Field, dataclass, field, fields
from typing import Any, Literal, TypeVar, cast

from annai.types import Content, Mode
from annai.values import Limits, choices

T = TypeVar("T")

VectorSpace = Literal["cosine", "ip", "l2"]
Pooling = Literal["auto", "mean", "cls", "last"]
LogLevel = Literal["debug", "info", "warning", "error"]
ListFormat = Literal["table", "json"]
ColorMode = Literal["auto", "always", "never"]


def setting(
    default: T,
    text: str,
    *,
    minimum: float | None = None,
    maximum: float | None = None,
    choices: tuple[str, ...] = (),
) -> T:
    """A field of a settings section: its default, what it means and what it may be, beside what its type says."""
    metadata = {"text": text, "limits": Limits(minimum, maximum, choices)}
    made: object = field(default=default, metadata=metadata)
    # As dataclasses.field does, it stands for a value of the field's own type.
    return cast(T, made)


@dataclass(frozen=True)
class Project:
    """[project]: which folder is searched."""

    root: str = setting("", "The project's folder; empty: the folder of this file.")
    name: str = setting("", "A name for people; empty: the folder's name.")


@dataclass(frozen=True)
class Database:
    """[database]: where the index lives."""

    path: str = setting(".annai/index.sqlite", "The index file; relative to the project's root.")


@dataclass(frozen=True)
class StoreSettings:
    """[store]: the engine behind the index."""

    engine: str = setting(
        "sqlite",
        "sqlite: one file, nothing to install; lancedb, chroma: vectors in an engine of their own beside it "
        "(annai[lancedb], annai[chroma]); postgres: one index for many machines (annai[postgres]); qdrant: vectors and "
        "words in a cluster (annai[qdrant]); memory: nothing is kept.",
        choices=("sqlite", "lancedb", "chroma", "postgres", "qdrant", "memory"),
    )
    url: str = setting(
        "",
        "Where the engine is: postgresql://USER@HOST/DATABASE (its password may be in ~/.pgpass), http://HOST:PORT of "
        "a Chroma server, http://KEY@HOST:PORT of a Qdrant server, a folder or object-store URI of LanceDB; empty: a "
        "folder beside the index file.",
    )
    hnsw_space: VectorSpace = setting("cosine", "How HNSW compares vectors; all three order annai's alike.")
    hnsw_construction_ef: int = setting(
        200, "Candidates HNSW looks at for each vector it takes in.", minimum=4, maximum=1000
    )
    hnsw_search_ef: int = setting(100, "Candidates HNSW keeps while it searches, at least.", minimum=1, maximum=1000)
    hnsw_m: int = setting(16, "Neighbours of each vector in HNSW's graph.", minimum=2, maximum=100)
    lease_seconds: float = setting(
        30.0, "postgres: after so long without a sign of life a worker's files go to another.", minimum=1, maximum=3600
    )


@dataclass(frozen=True)
class Files:
    """[files]: which files are documents."""

    include: tuple[str, ...] = setting(
        ("**/*.md", "**/*.markdown", "**/*.mdx", "**/*.txt", "**/*.rst"),
        "Patterns (as in .gitignore) of the files to index.",
    )
    exclude: tuple[str, ...] = setting(
        (".*/", "node_modules/", "__pycache__/", "dist/", "build/"),
        "Patterns (as in .gitignore) of files and folders to leave out; `.*/` is every hidden folder.",
    )
    respect_gitignore: bool = setting(True, "Leave out what .gitignore and .annaiignore files leave out.")
    max_file_mb: float = setting(10.0, "Files larger than this are skipped.", minimum=0)
    follow_symlinks: bool = setting(False, "Follow symbolic links that stay inside the collection.")


@dataclass(frozen=True)
class Chunking:
    """[chunking]: how documents are cut."""

    strategy: str = setting(
        "sections",
        "sections: the tree of headings; tokens: windows of equal size; headings: flat, at headings.",
        choices=("sections", "tokens", "headings"),
    )
    size: int = setting(1024, "Tokens in a window or in a piece of a long section.", minimum=512, maximum=4096)
    overlap: int = setting(64, "Tokens that neighbouring windows or pieces share.", minimum=0, maximum=2048)
    max_tokens: int = setting(
        512, "Sections over this many tokens are also cut into pieces, none longer than this.", minimum=64
    )
    min_tokens: int = setting(100, "Sections under this many tokens stay inside their parent.", minimum=0)
    max_depth: int = setting(3, "The deepest heading level that makes a section.", minimum=0, maximum=3)
    max_chars: int = setting(3000, "Longest piece of the headings strategy, in characters.", minimum=100)
    min_chars: int = setting(50, "Shorter pieces of the headings strategy join their neighbour.", minimum=0)
    heading_levels: tuple[int, ...] = setting(
        (1, 2, 3), "Heading levels at which the headings strategy cuts.", minimum=1, maximum=6
    )


@dataclass(frozen=True)
class Embedding:
    """[embedding]: how texts become vectors; `annai model ls` shows what is known of models."""

    provider: str = setting(
        "static",
        "static: the bundled model, Japanese and English; sentence-transformers: any model of the hub or a folder "
        "(annai[local]); onnx: a folder with an ONNX model (annai[onnx]); gemini: Google's service (annai[gemini]); "
        "openai: any service with OpenAI's interface (OpenAI, Ollama, LM Studio, vLLM, TEI, llama.cpp); "
        "use: Google's multilingual sentence encoder (annai[use]); hashing: words only, no model.",
        choices=("static", "sentence-transformers", "onnx", "gemini", "openai", "use", "hashing"),
    )
    model: str = setting("", "The model's name, or its folder, relative to this file; empty: the provider's own.")
    dimensions: int = setting(0, "Numbers in a vector; 0: as many as the model gives.", minimum=0, maximum=8192)
    batch_size: int = setting(
        0, "Texts embedded at once; 0: what suits the provider (32; gemini 100; Apple MPS 1).", minimum=0, maximum=4096
    )
    max_tokens: int = setting(
        0, "The longest text the model takes; longer ones are embedded in windows. 0: the model's own.", minimum=0
    )
    query_prefix: str = setting("auto", "Put before every query; auto: what the model was trained with.")
    document_prefix: str = setting("auto", "Put before every document; auto: what the model was trained with.")
    task_type_query: str = setting("RETRIEVAL_QUERY", "What gemini is told that queries are for.")
    task_type_document: str = setting("RETRIEVAL_DOCUMENT", "What gemini is told that documents are for.")
    device: str = setting("auto", "auto, cpu, cuda, cuda:1 … or mps; auto: CUDA, else Apple MPS, else CPU.")
    pooling: Pooling = setting(
        "auto", "How onnx makes one vector of a text's many; auto: as the model's folder says, else the mean."
    )
    trust_remote_code: bool = setting(
        False, "Let a model run the Python code that comes with it, as PLaMo does; read that code first."
    )
    base_url: str = setting("", "Where the service is, such as http://localhost:11434/v1; empty: the maker's own.")
    api_key_env: str = setting(
        "",
        "The environment variable that holds the key; empty: OPENAI_API_KEY, or GEMINI_API_KEY or GOOGLE_API_KEY.",
    )
    timeout_seconds: float = setting(60.0, "How long a service may take to answer.", minimum=0.1, maximum=3600)
    parallel_requests: int = setting(4, "Requests to a service at the same time.", minimum=1, maximum=64)
    cache_mb: int = setting(
        500, "Vectors are kept in .annai/embeddings.sqlite, so that no text is embedded twice; 0: not.", minimum=0
    )


@dataclass(frozen=True)
class Model:
    """[model]: how long a local model stays in memory."""

    auto_unload_minutes: float = setting(10.0, "Let go of a model that was not used for so long; 0: never.", minimum=0)
    memory_threshold: float = setting(
        0.8,
        "When more of the machine's memory is in use, let go of a model as soon as it is idle.",
        minimum=0,
        maximum=1,
    )


@dataclass(frozen=True)
class Retry:
    """[retry]: how often a service that fails is asked again."""

    max_retries: int = setting(3, "Further attempts after the first.", minimum=0, maximum=20)
    base_delay: float = setting(1.0, "Seconds before the first of them; longer where a service asks for it.", minimum=0)
    backoff_factor: float = setting(2.0, "How many times longer every further wait is.", minimum=1, maximum=10)


@dataclass(frozen=True)
class Search:
    """[search]: what a search returns when its options do not say."""

    limit: int = setting(5, "Results a search returns.", minimum=1, maximum=1000)
    mode: Mode = setting("hybrid", "By meaning and words, or by one of them.")
    content: Content = setting(
        "section", "What a result carries: the passage that matched, its section, the document or nothing."
    )
    max_tokens: int = setting(
        4000, "The most that one answer to an agent (over MCP) holds, in tokens.", minimum=200, maximum=200_000
    )
    rerank: str = setting(
        "off",
        "Let a second model order the best results anew, by [rerank]; cross-encoder: a local one (annai[local]); "
        "http: a service with Cohere's, Jina's or TEI's /rerank.",
        choices=("off", "cross-encoder", "http"),
    )


@dataclass(frozen=True)
class Rerank:
    """[rerank]: the model that orders results anew, where `search.rerank` asks for it."""

    model: str = setting("", "Its name, or its folder, relative to this file.")
    candidates: int = setting(20, "How many of the best results it looks at.", minimum=1, maximum=200)
    budget_seconds: float = setting(
        2.0, "After so long the order without it is returned, and that is said; loading does not count.", minimum=0.01
    )
    base_url: str = setting("", "Where the service is, such as http://localhost:8080 or https://api.jina.ai/v1.")
    api_key_env: str = setting("", "The environment variable that holds the key; empty: none is sent.")
    device: str = setting("auto", "auto, cpu, cuda or mps.")
    trust_remote_code: bool = setting(False, "Let the model run the Python code that comes with it.")


@dataclass(frozen=True)
class Server:
    """[server]: the server of a project (`annai server start`)."""

    host: str = setting("127.0.0.1", "The address to listen at; any but this machine's own needs a token.")
    port: int = setting(
        24280, "The port to listen at; if this very one is taken, a free one.", minimum=0, maximum=65535
    )
    token: str = setting("", "What callers must send as `Authorization: Bearer …`; empty: made when it is needed.")
    idle_shutdown_minutes: float = setting(0.0, "End after so long without a request; 0: never.", minimum=0)


@dataclass(frozen=True)
class Watcher:
    """[watcher]: how a running server notices what changes on disk."""

    enabled: bool = setting(True, "Look at files as they are saved; without it, from time to time.")
    debounce_ms: int = setting(300, "Wait until nothing was saved for so long.", minimum=20, maximum=60_000)


@dataclass(frozen=True)
class Worker:
    """[worker]: how the queue of files to index is worked off."""

    keep_days: float = setting(7.0, "Forget requests that ended so long ago.", minimum=0)
    retries: int = setting(3, "How often a file that failed is tried again.", minimum=0, maximum=100)


@dataclass(frozen=True)
class Logging:
    """[logging]: what a server writes down."""

    level: LogLevel = setting("info", "How much.")
    file: str = setting(".annai/server.log", "Where; relative to the project's root.")
    rotate_mb: float = setting(5.0, "Begin a new file at this size; three old ones are kept.", minimum=0.01)


@dataclass(frozen=True)
class Display:
    """[display]: how things are shown."""

    default_format: ListFormat = setting("table", "How lists (`collection ls`, `status`) are shown.")
    color: ColorMode = setting("auto", "Colours on a terminal.")


SECTIONS: dict[str, type] = {
    "project": Project,
    "database": Database,
    "store": StoreSettings,
    "files": Files,
    "chunking": Chunking,
    "embedding": Embedding,
    "model": Model,
    "retry": Retry,
    "search": Search,
    "rerank": Rerank,
    "server": Server,
    "watcher": Watcher,
    "worker": Worker,
    "display": Display,
    "logging": Logging,
}
"""The sections of annai.toml, in the order in which they are documented."""


COLLECTIONS_TEXT = (
    "[collections.NAME.embedding] gives a collection an embedder of its own. It takes the keys of [embedding];",
    "what it leaves out has the default shown there, whatever [embedding] says.",
)


def template() -> str:
    """The text of a new annai.toml: every setting, commented out, with its meaning and its default."""
    lines = ["# annai's settings. Every one is optional; the values shown are the defaults.", ""]
    for name, section in SECTIONS.items():
        lines.append(f"[{name}]")
        for item in fields(section):
            lines += [f"# {explain(item)}", f"# {item.name} = {default_text(item)}"]
        lines.append("")
    lines += [*(f"# {line}" for line in COLLECTIONS_TEXT), ""]
    return "\n".join(lines)


def explain(item: "Field[Any]") -> str:
    """A setting's meaning, with what it may be."""
    text: str = item.metadata["text"]
    limits: Limits = item.metadata["limits"]
    if limits.maximum is not None:
        text += f" ({limits.minimum:g}–{limits.maximum:g})"
    allowed = limits.choices or choices(item.type)
    if allowed and not all(f"{choice}:" in text for choice in allowed):
        text += f" ({', '.join(allowed)})"
    return text


def default_text(item: "Field[Any]") -> str:
    """A setting's default as it is written in the file."""
    return _toml(item.default)


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return str(value)
