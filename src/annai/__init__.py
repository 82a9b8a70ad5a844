"""Search a folder of documents by meaning and by words, in Japanese and English.

    import annai

    with annai.open("docs") as project:
        for hit in project.search("環境構築"):
            print(hit.path, hit.start_line, hit.text)

Names are loaded when they are first used, so that importing the package costs nothing.
"""

TYPE_CHECKING = False  # type checkers know the name; importing it from typing takes ten milliseconds

if TYPE_CHECKING:
    from annai.answers import Answer, Freshness, Hit, Query, Reasons, Where
    from annai.errors import (
        AnnaiError,
        CollectionError,
        ConfigError,
        DamagedIndex,
        EmbedderError,
        EmbedderMismatch,
        FilesGone,
        Forbidden,
        IndexBusy,
        NewerIndex,
        NotAnIndex,
        NotFound,
        QueryError,
        ReadError,
        RerankerError,
        ServerError,
        SkippedFile,
        StoreError,
        StoreFull,
        StoreReadOnly,
        UnreadableFile,
    )
    from annai.opening import open  # noqa: A004 - `annai.open`, as gzip.open
    from annai.project import Project
    from annai.types import Collection, Document, ImportSummary, Section, Selection, Status

__version__ = "0.2.0"

__all__ = [
    "AnnaiError",
    "Answer",
    "Collection",
    "CollectionError",
    "ConfigError",
    "DamagedIndex",
    "Document",
    "EmbedderError",
    "EmbedderMismatch",
    "FilesGone",
    "Forbidden",
    "Freshness",
    "Hit",
    "ImportSummary",
    "IndexBusy",
    "NewerIndex",
    "NotAnIndex",
    "NotFound",
    "Project",
    "Query",
    "QueryError",
    "ReadError",
    "Reasons",
    "RerankerError",
    "Section",
    "Selection",
    "ServerError",
    "SkippedFile",
    "Status",
    "StoreError",
    "StoreFull",
    "StoreReadOnly",
    "UnreadableFile",
    "Where",
    "open",
]

if not TYPE_CHECKING:  # type checkers have the imports above, and then know a name that is not there

    def __getattr__(name: str) -> object:
        """Load a public name when it is first used."""
        from importlib import import_module

        for home in ("types", "answers", "errors", "project", "opening") if name in __all__ else ():
            module = import_module(f"annai.{home}")
            if hasattr(module, name):
                return globals().setdefault(name, getattr(module, name))
        raise AttributeError(f"module 'annai' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
