"""What can go wrong, and what should the user do next?

Every error that annai raises on purpose is an `AnnaiError`. It says what is wrong, its problem, and what to do next,
its remedy:

    AnnaiError
    ├── ConfigError           a setting is unknown, of the wrong type or out of bounds
    ├── CollectionError       a collection's name, folder or state does not allow this
    │   └── FilesGone         so many of its files are gone that somebody must confirm it
    ├── ReadError             a file could not be read as a document
    │   ├── SkippedFile       it is not a document: binary, or over the size limit
    │   └── UnreadableFile    it may be one, but reading it failed this time
    ├── StoreError            the index could not be opened, read or written
    │   ├── NotAnIndex        the file is not an annai index
    │   ├── DamagedIndex      the index is not as it was written
    │   ├── NewerIndex        a newer annai wrote it
    │   ├── StoreFull         the disk is full
    │   ├── StoreReadOnly     the index or its folder cannot be written
    │   └── IndexBusy         another process is indexing
    ├── EmbedderError         texts could not be embedded
    │   └── EmbedderMismatch  the index was built with another embedder
    ├── RerankerError         results could not be reranked
    ├── QueryError            the query or one of its options is not valid
    ├── NotFound              there is no such document or section
    ├── Forbidden             the caller's token does not allow this
    └── ServerError           a server could not be started, reached or stopped

No message holds a secret: what looks like one is left out wherever it comes from.
"""

import re

_SECRETS = (
    # A token of annai's own, or in a header; a password or, for HTTP, a key in an address; a key in its query.
    r"(?i)annai_[\w-]{43}|(?<=bearer )[^\s\"',]+|(?<=://)[^\s/?#@:]*(?::[^\s/?#@]*)?(?=@)"
    r"|(?<=[?&])((?:[\w-]*(?:token|key|secret|password|passwd|pwd)|sig|signature)=)[^\s&#\"']+"
)
"""Compiled when there is an error to tell, not for every command."""


def without_secrets(text: str) -> str:
    """The text with `…` for what looks like a token, a password or a key; the user of a database stays."""
    return re.sub(_SECRETS, _hidden, text)


def _hidden(match: "re.Match[str]") -> str:
    user, colon, _ = match[0].partition(":")
    is_http = match.string[: match.start()].lower().endswith(("http://", "https://"))
    is_userinfo = match.string[match.end() : match.end() + 1] == "@" and match.string[: match.start()].endswith("://")
    if is_userinfo and not is_http:
        return f"{user}:…" if colon else user
    return f"{match[1] or ''}…"


class AnnaiError(Exception):
    """The root of every error that annai raises on purpose."""

    def __init__(self, problem: str = "", remedy: str = "") -> None:
        self.problem, self.remedy = without_secrets(problem), without_secrets(remedy)
        """What is wrong and, if that was said apart, what to do next; the error as a string has both."""
        super().__init__("; ".join(filter(None, (self.problem, self.remedy))))


class ConfigError(AnnaiError):
    """A setting is unknown, of the wrong type or out of bounds."""


class CollectionError(AnnaiError):
    """A collection's name, folder or state does not allow this."""


class FilesGone(CollectionError):
    """So many files are gone that their documents stay in the index until somebody confirms it."""


class ReadError(AnnaiError):
    """A file could not be read as a document; indexing continues with the others."""


class SkippedFile(ReadError):
    """The file is not a document: it is binary, or over the size limit."""


class UnreadableFile(ReadError):
    """The file may be a document, but reading it failed this time."""


class StoreError(AnnaiError):
    """The index could not be opened, read or written."""


class NotAnIndex(StoreError):
    """The file is not an annai index."""


class DamagedIndex(StoreError):
    """The index is not as it was written; `annai store check --repair` builds it again."""


class NewerIndex(StoreError):
    """A newer annai wrote this index."""


class StoreFull(StoreError):
    """There is no space left for the index."""


class StoreReadOnly(StoreError):
    """The index or its folder cannot be written."""


class IndexBusy(StoreError):
    """Another process is indexing and did not finish in time."""


class EmbedderError(AnnaiError):
    """Texts could not be embedded."""


class EmbedderMismatch(EmbedderError):
    """The index was built with a different embedder from the one in the settings."""


class RerankerError(AnnaiError):
    """Results could not be reranked."""


class QueryError(AnnaiError):
    """The query or one of its options is not valid."""


class NotFound(AnnaiError):
    """There is no such document or section."""


class Forbidden(AnnaiError):
    """The caller's token does not allow this."""


class ServerError(AnnaiError):
    """A server could not be started, reached or stopped."""
