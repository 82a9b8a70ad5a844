"""What can be set? The one table of settings.

The loader, the comments that `annai init` writes and docs/settings.md are all generated from these dataclasses.
"""

import json
from dataclasses import Field, FrozenInstanceError, dataclass, field, fields
from typing import Any, ClassVar, Literal, NoReturn, TypeVar, cast, dataclass_transform

from annai.answers import Content, Mode
from annai.plugins import BUILT_IN
from annai.values import Limits, choices

T = TypeVar("T")

Pooling = Literal["auto", "mean", "cls", "last"]
LogFormat = Literal["text", "json"]
LogLevel = Literal["debug", "info", "warning", "error"]
ListFormat = Literal["table", "json"]
ColorMode = Literal["auto", "always", "never"]
RerankApi = Literal["auto", "cohere", "jina", "tei", "vllm"]
CollectionTools = Literal["auto", "each", "one"]


def setting(
    default: T,
    text: str,
    *,
    minimum: float | None = None,
    maximum: float | None = None,
    plugins: str = "",
) -> T:
    """A field of a settings section: its default, what it means and what it may be, beside what its type says."""
    metadata = {"text": text, "limits": Limits(minimum, maximum, BUILT_IN.get(plugins, ()), plugins)}
    made: object = field(default=default, metadata=metadata)
    # As dataclasses.field does, it stands for a value of the field's own type.
    return cast(T, made)


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Section:
    """A section of the settings: a frozen dataclass, made of keywords.

    What `dataclass` would write for each section is written here once for all: every command would wait for that.
    """

    __dataclass_fields__: ClassVar[dict[str, "Field[Any]"]]

    def __init_subclass__(cls) -> None:
        dataclass(init=False, repr=False, eq=False)(cls)

    def __init__(self, **values: object) -> None:
        self.__dict__.update({each.name: values.pop(each.name, each.default) for each in fields(self)})
        if values:
            raise TypeError(f"{type(self).__name__} has no {', '.join(values)}")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash(tuple(vars(self).values()))

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise FrozenInstanceError(f"{name} cannot be set; make another {type(self).__name__}")


class Project(Section):
    """[project]: which folder is searched."""

    root: str = setting("", "The project's folder; empty: the folder of this file.")
    name: str = setting("", "Display name; empty: the folder's name.")


class Database(Section):
    """[database]: where the index is stored."""

    path: str = setting(
        "index.sqlite",
        "The index file, in your state folder for the project; a path that leads elsewhere is yours to choose, not the "
        "project's.",
    )


class StoreSettings(Section):
    """[store]: the engine behind the index."""

    engine: str = setting(
        "sqlite",
        "sqlite: one file, nothing to install; lancedb: vectors in LanceDB (annai[lancedb]); chroma: vectors in Chroma "
        "(annai[chroma]); postgres: one index for many machines (annai[postgres]); qdrant: vectors in a Qdrant "
        "server or cluster (annai[qdrant]); memory: nothing is saved.",
        plugins="annai.stores",
    )
    url: str = setting(
        "",
        "Where the engine is: postgresql://USER@HOST/DATABASE (the password may be in ~/.pgpass), http://HOST:PORT for "
        "Chroma, http://KEY@HOST:PORT for Qdrant, a folder or an object-store URI for LanceDB; empty: a folder next to "
        "the index file (LanceDB, Chroma).",
    )
    collection_name: str = setting(
        "",
        "lancedb, chroma, qdrant: what the names of tables or collections begin with; empty: where other projects may "
        "use the engine, a random id of this index.",
    )
    hnsw_construction_ef: int = setting(
        200, "Candidates HNSW considers when it inserts a vector.", minimum=4, maximum=1000
    )
    hnsw_search_ef: int = setting(100, "Minimum number of candidates HNSW keeps per search.", minimum=1, maximum=1000)
    hnsw_m: int = setting(16, "Links per vector in the HNSW graph.", minimum=2, maximum=100)
    schema: str = setting(
        "",
        "postgres: the schema that holds this project's tables, made if there is none; one schema holds one project. "
        "Empty: the user's own, mostly public.",
    )
    machine: str = setting(
        "",
        "postgres: this machine's name in the index, which says who indexes a collection; machines that share a disk "
        "may share a name. Empty: the host's name and a random number, made once for each user.",
    )
    lease_seconds: float = setting(
        30.0, "postgres: reassign a worker's files after this long without a heartbeat.", minimum=1, maximum=3600
    )
    connect_timeout_seconds: float = setting(
        10.0,
        "postgres: give up connecting, or waiting for a free connection, after this long; `connect_timeout` in the URL "
        "comes first.",
        minimum=1,
        maximum=3600,
    )
    max_connections: int = setting(
        16,
        "postgres: most connections of one process; PostgreSQL allows 100 in all by default.",
        minimum=3,
        maximum=1000,
    )
    query_timeout_seconds: float = setting(
        60.0, "postgres: give up a query after this long; building graphs may take longer.", minimum=0.1, maximum=86400
    )


class Files(Section):
    """[files]: which files are documents."""

    include: tuple[str, ...] = setting(
        (
            *("**/*.md", "**/*.markdown", "**/*.mdx", "**/*.txt", "**/*.rst", "**/*.org", "**/*.adoc", "**/*.asciidoc"),
            *("**/*.pdf", "**/*.docx", "**/*.pptx", "**/*.xlsx", "**/*.odt", "**/*.odp", "**/*.ods", "**/*.rtf"),
            *("**/*.html", "**/*.htm", "**/*.epub", "**/*.ipynb", "**/*.eml"),
        ),
        "Files to index, as .gitignore patterns.",
    )
    exclude: tuple[str, ...] = setting(
        (".*/", "node_modules/", "__pycache__/", "dist/", "build/", "_build/", "_site/", "htmlcov/"),
        "Files and folders to exclude, as .gitignore patterns; `.*/` is every hidden folder.",
    )
    respect_gitignore: bool = setting(True, "Exclude what .gitignore and .annaiignore files exclude.")
    max_file_mb: float = setting(10.0, "Skip texts larger than this.", minimum=0)
    follow_symlinks: bool = setting(False, "Follow symbolic links that stay inside the collection.")
    linked_folders: tuple[str, ...] = setting(
        (),
        "In your own settings only: folders whose links into one another are followed. A collection that lies in one "
        "of them may have documents in all of them.",
    )


class Documents(Section):
    """[documents]: the limits of reading PDF, Office and other files that are no plain text."""

    max_file_mb: float = setting(100.0, "Skip such files larger than this.", minimum=0)
    timeout_seconds: float = setting(60.0, "Skip a file that takes longer to read.", minimum=0.1, maximum=3600)
    max_memory_mb: float = setting(1000.0, "Skip a file that takes more memory to read.", minimum=100)


class Chunking(Section):
    """[chunking]: how documents are split."""

    strategy: str = setting(
        "sections",
        "sections: the tree of headings; tokens: windows of equal size; headings: a flat list, split at headings.",
        plugins="annai.splitters",
    )
    size: int = setting(1024, "Tokens per window, or per piece of a long section or chunk.", minimum=512, maximum=4096)
    overlap: int = setting(
        64, "Tokens shared by neighbouring windows or pieces; by pieces at most half of one.", minimum=0, maximum=2048
    )
    max_tokens: int = setting(
        512, "Also split sections over this many tokens into pieces, none longer than this.", minimum=64
    )
    min_tokens: int = setting(100, "Keep sections under this many tokens inside their parent.", minimum=0)
    max_depth: int = setting(3, "Deepest heading level that starts a section.", minimum=0, maximum=3)
    max_chars: int = setting(3000, "headings strategy: longest piece, in characters.", minimum=100)
    min_chars: int = setting(50, "headings strategy: merge shorter pieces into a neighbour.", minimum=0)
    heading_levels: tuple[int, ...] = setting(
        (1, 2, 3), "headings strategy: heading levels to split at.", minimum=1, maximum=6
    )


class Embedding(Section):
    """[embedding]: how texts become vectors; `annai model ls` lists known models."""

    provider: str = setting(
        "static",
        "static: the bundled model, Japanese and English; sentence-transformers: any Hugging Face model, or a folder "
        "(annai[local]); onnx: a folder with an ONNX model (annai[onnx]); gemini: Google's API; "
        "openai: any OpenAI-compatible API (OpenAI, Ollama, LM Studio, vLLM, TEI, llama.cpp); "
        "use: Google's multilingual sentence encoder (annai[use]); hashing: words only, no model.",
        plugins="annai.embedders",
    )
    model: str = setting("", "Model name, or its folder relative to this file; empty: the provider's default.")
    dimensions: int = setting(0, "Dimensions of a vector; 0: the model's default.", minimum=0, maximum=8192)
    batch_size: int = setting(
        0, "Texts per batch; 0: the provider's default (32; gemini 100; Apple MPS 1).", minimum=0, maximum=4096
    )
    max_tokens: int = setting(
        0, "Longest text the model accepts; longer ones are embedded in windows. 0: the model's limit.", minimum=0
    )
    query_prefix: str = setting("auto", "Text added before every query; auto: what the model was trained with.")
    document_prefix: str = setting("auto", "Text added before every document; auto: what the model was trained with.")
    task_type_query: str = setting("RETRIEVAL_QUERY", "gemini: task type sent with queries.")
    task_type_document: str = setting("RETRIEVAL_DOCUMENT", "gemini: task type sent with documents.")
    device: str = setting("auto", "auto, cpu, cuda, cuda:1 … or mps; auto: CUDA, else Apple MPS, else CPU.")
    pooling: Pooling = setting(
        "auto",
        "onnx: how token vectors become one; auto: as the model's folder says, else the mean.",
    )
    trust_remote_code: bool = setting(
        False, "Run the Python code that comes with a model, such as PLaMo's; read it first."
    )
    base_url: str = setting("", "URL of the service, such as http://localhost:11434/v1; empty: the provider's own.")
    api_key_env: str = setting(
        "",
        "Environment variable with the API key; empty: OPENAI_API_KEY, or GEMINI_API_KEY or GOOGLE_API_KEY.",
    )
    timeout_seconds: float = setting(60.0, "How long to wait for a service to answer.", minimum=0.1, maximum=3600)
    parallel_requests: int = setting(4, "Concurrent requests to a service.", minimum=1, maximum=64)
    cache_mb: int = setting(
        500, "Size limit of embeddings.sqlite, the cache of vectors beside the index; 0: no cache.", minimum=0
    )


class Model(Section):
    """[model]: how long a local model stays in memory."""

    auto_unload_minutes: float = setting(10.0, "Unload the model after this many idle minutes; 0: never.", minimum=0)
    memory_threshold: float = setting(
        0.8,
        "Unload an idle model early when more than this share of the machine's memory is in use.",
        minimum=0,
        maximum=1,
    )


class Retry(Section):
    """[retry]: how failed requests to a service are retried."""

    max_retries: int = setting(3, "Retries after the first attempt.", minimum=0, maximum=20)
    base_delay: float = setting(1.0, "Seconds before the first retry; longer if the service asks for it.", minimum=0)
    backoff_factor: float = setting(2.0, "Multiply the delay by this after every retry.", minimum=1, maximum=10)


class Search(Section):
    """[search]: the defaults of a search's options."""

    limit: int = setting(5, "Number of results.", minimum=1, maximum=1000)
    per_document: int = setting(
        1, "How many sections of one document may be results of their own; 0: no limit.", minimum=0, maximum=1000
    )
    mode: Mode = setting(
        "hybrid",
        "hybrid: by meaning and words; vector: by meaning; keyword: by words; exact: every line that holds the query.",
    )
    content: Content = setting(
        "section",
        "Text in a result: the matching passage, its section, the whole document or none.",
    )
    max_tokens: int = setting(
        4000, "Maximum tokens in one answer to an agent (over MCP).", minimum=1000, maximum=200_000
    )
    rerank: str = setting(
        "off",
        "Reorder the best results with the model in [rerank]; cross-encoder: a local one (annai[local]); "
        "http: a service with the /rerank of Cohere, Jina, TEI or vLLM.",
        plugins="annai.rerankers",
    )


class Rerank(Section):
    """[rerank]: the model that reorders results when `search.rerank` is on."""

    model: str = setting("", "Model name, or its folder relative to this file.")
    candidates: int = setting(20, "How many of the best results to rerank.", minimum=1, maximum=200)
    budget_seconds: float = setting(
        2.0, "Give up after this long (loading excluded) and keep the original order; the answer says so.", minimum=0.01
    )
    api: RerankApi = setting(
        "auto",
        "http: the service's format; auto: by its address, or by what it answers; Cohere and Jina need no base_url.",
    )
    base_url: str = setting("", "URL of the service, such as http://localhost:8080 or https://api.jina.ai/v1.")
    api_key_env: str = setting(
        "",
        "Environment variable with the API key; empty: CO_API_KEY or COHERE_API_KEY for Cohere, JINA_API_KEY for Jina, "
        "no key for others.",
    )
    device: str = setting("auto", "auto, cpu, cuda or mps.")
    trust_remote_code: bool = setting(False, "Run the Python code that comes with the model.")


class Server(Section):
    """[server]: the project's server (`annai server start`)."""

    host: str = setting(
        "127.0.0.1", "Address to listen on; any other than this machine's own lets other machines connect."
    )
    port: int = setting(
        24280, "Port to listen on. If the default port is taken, a free one is used.", minimum=0, maximum=65535
    )
    token: str = setting(
        "",
        "Token that clients must send as `Authorization: Bearer …`; empty: generated, and kept in your state folder.",
    )
    idle_shutdown_minutes: float = setting(0.0, "Stop after this many minutes without a request; 0: never.", minimum=0)
    shutdown_seconds: float = setting(
        10.0, "How long requests and indexing may take to finish when the server stops.", minimum=0.1, maximum=600
    )
    host_names: tuple[str, ...] = setting(
        (), "Names that clients may call the server by beside `host`, such as that of a proxy in front of it."
    )
    trusted_proxies: tuple[str, ...] = setting(
        (), "Addresses or networks of proxies whose X-Forwarded-For and X-Forwarded-Proto are believed."
    )
    requests_per_second: float = setting(
        50.0, "Requests per second that one client may send over time; 0: no limit.", minimum=0
    )
    request_burst: int = setting(200, "Requests that one client may send at once before that limit holds.", minimum=1)
    limit_this_machine: bool = setting(False, "Limit the requests of clients on this machine too.")
    open_metrics: bool = setting(False, "Serve /metrics without a token.")
    addable_folders: tuple[str, ...] = setting(
        (), "Folders, beside the project's own, in which collections may be added over the network."
    )


class Mcp(Section):
    """[mcp]: what agents see of the project (`annai mcp`)."""

    collection_tools: CollectionTools = setting(
        "auto",
        "each: a search tool for every collection; one: `search` alone, which lists them in its argument; auto: each, "
        "for up to eight collections.",
    )


class Watcher(Section):
    """[watcher]: how a running server notices changes on disk."""

    enabled: bool = setting(True, "Notice changes as files are saved; if false, check periodically.")
    debounce_ms: int = setting(300, "Wait until no file was saved for this long.", minimum=20, maximum=60_000)


class Worker(Section):
    """[worker]: how the queue of files to index is processed."""

    keep_days: float = setting(7.0, "Days for which `annai index log` remembers what was indexed.", minimum=0)
    retries: int = setting(3, "Retries for a file that failed.", minimum=0, maximum=100)
    processes: int = setting(
        0,
        "Processes that index many files together; 0: one for each core. "
        "Only for the embedders static and hashing, which compute in Python.",
        minimum=0,
        maximum=64,
    )


class Logging(Section):
    """[logging]: what a server logs."""

    level: LogLevel = setting("info", "How much to log.")
    file: str = setting("server.log", "Log file, in your state folder for the project.")
    rotate_mb: float = setting(5.0, "Start a new file at this size; three old ones are kept.", minimum=0.01)
    format: LogFormat = setting("text", "text: a line for people; json: an object a line.")
    access: bool = setting(False, "Log every request: client, token's name, path, status and time; never what it asks.")
    audit_file: str = setting(
        "audit.log", "Log of who changed the index, in your state folder for the project; empty: none."
    )


class Display(Section):
    """[display]: how output looks."""

    default_format: ListFormat = setting("table", "Format of lists such as `collection ls` and `status`.")
    color: ColorMode = setting(
        "auto", "When to use colours; auto: on a terminal; NO_COLOR, FORCE_COLOR and TERM=dumb count."
    )


class Trust(Section):
    """[trust], in your own settings only: whose settings are used."""

    folders: tuple[str, ...] = setting(
        (), "Folders in which annai.toml and pyproject.toml count for the folders below them, whoever owns them."
    )


SECTIONS: dict[str, type] = {
    "project": Project,
    "database": Database,
    "store": StoreSettings,
    "files": Files,
    "documents": Documents,
    "chunking": Chunking,
    "embedding": Embedding,
    "model": Model,
    "retry": Retry,
    "search": Search,
    "rerank": Rerank,
    "server": Server,
    "mcp": Mcp,
    "watcher": Watcher,
    "worker": Worker,
    "display": Display,
    "logging": Logging,
    "trust": Trust,
}
"""The sections of annai.toml, in the order in which they are documented."""

USER_SETTINGS = frozenset({"trust.folders", "files.linked_folders"})
"""Those that belong in the user's own settings, and not in a project's."""


COLLECTIONS_TEXT = (
    "[collections.NAME.embedding] gives a collection its own embedder. It takes the keys of [embedding]; a key",
    "that is left out has the default shown there, whatever [embedding] says.",
)


def template() -> str:
    """The text of a new annai.toml: every setting, commented out, with its meaning and its default."""
    lines = ["# annai's settings. All are optional; the values shown are the defaults.", ""]
    for name, section in SECTIONS.items():
        items = [item for item in fields(section) if f"{name}.{item.name}" not in USER_SETTINGS]
        if items:
            lines.append(f"[{name}]")
            for item in items:
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
    return toml_value(item.default)


def toml_value(value: object) -> str:
    """A value as TOML writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, tuple):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    return str(value)
