"""What can go wrong, and what should the user do next?

Every error that annai raises on purpose is an `AnnaiError`, and its message is a sentence a user can act on:

    AnnaiError
    ├── ConfigError           a setting is unknown, of the wrong type or out of bounds
    ├── CollectionError       a collection's name, directory or state stands in the way
    ├── ReadError             one file could not become a document
    │   ├── SkippedFile       it is not meant to: binary, or over the size limit
    │   └── UnreadableFile    it is, but reading failed this time
    ├── StoreError            the index could not be opened, read or written
    │   ├── NotAnIndex        the file is something else, or damaged
    │   ├── NewerIndex        a newer annai wrote it
    │   ├── StoreFull         the disk is full
    │   ├── StoreReadOnly     the index or its folder cannot be written
    │   └── IndexBusy         another process is indexing
    ├── EmbedderError         texts could not be turned into vectors
    │   └── EmbedderMismatch  the index was built with another embedder
    ├── RerankerError         results could not be ordered anew
    ├── QueryError            the query or one of its options makes no sense
    ├── NotFound              there is no such document or section
    └── ServerError           a server could not be started, reached or stopped
"""


class AnnaiError(Exception):
    """The root of every error that annai raises on purpose."""


class ConfigError(AnnaiError):
    """A setting is unknown, of the wrong type or out of bounds."""


class CollectionError(AnnaiError):
    """A collection's name, directory or state stands in the way."""


class ReadError(AnnaiError):
    """One file could not become a document; the others go on."""


class SkippedFile(ReadError):
    """The file is not meant to be a document: binary, or over the size limit."""


class UnreadableFile(ReadError):
    """The file should be a document, but reading it failed this time."""


class StoreError(AnnaiError):
    """The index could not be opened, read or written."""


class NotAnIndex(StoreError):
    """The file is not an annai index, or it is damaged."""


class NewerIndex(StoreError):
    """A newer annai wrote this index."""


class StoreFull(StoreError):
    """There is no space left where the index lives."""


class StoreReadOnly(StoreError):
    """The index or its folder cannot be written."""


class IndexBusy(StoreError):
    """Another process is indexing and does not come to an end."""


class EmbedderError(AnnaiError):
    """Texts could not be turned into vectors."""


class EmbedderMismatch(EmbedderError):
    """The index was built with another embedder than the one configured now."""


class RerankerError(AnnaiError):
    """Results could not be ordered anew."""


class QueryError(AnnaiError):
    """The query or one of its options makes no sense."""


class NotFound(AnnaiError):
    """There is no such document or section."""


class ServerError(AnnaiError):
    """A server could not be started, reached or stopped."""
