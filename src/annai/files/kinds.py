"""Which kinds of files can be read, and what do they need? It is asked at every scan, so it loads nothing."""

from importlib.util import find_spec
from pathlib import PurePosixPath

CONVERTERS = {
    ".pdf": "pdf:convert",
    ".docx": "word:convert",
    ".pptx": "slides:convert",
    ".xlsx": "sheets:convert",
    ".odt": "opendocument:convert",
    ".odp": "opendocument:convert",
    ".ods": "opendocument:convert",
    ".epub": "epub:convert",
    ".rtf": "rtf:convert",
    ".html": "html:convert",
    ".htm": "html:convert",
    ".ipynb": "notebook:convert",
    ".eml": "mail:convert",
    ".org": "lines:convert_org",
    ".adoc": "lines:convert_asciidoc",
    ".asciidoc": "lines:convert_asciidoc",
}
"""The ending of a file's name → the module of `files/formats` that reads it, and its function."""

EXTRAS = {".pdf": ("documents", "pypdfium2")}
"""Endings whose converter needs an extra of annai, and the module that it brings."""

SAME_LINES = (".org", ".adoc", ".asciidoc")
"""Endings whose converter keeps every line where it is."""


def suffix_of(path: str) -> str:
    """The ending of a file's name, in lower case, with its dot."""
    return PurePosixPath(path).suffix.lower()


def is_converted(path: str) -> bool:
    """Whether the lines of a document are not those of its file: an editor cannot open it at one."""
    suffix = suffix_of(path)
    return suffix in CONVERTERS and suffix not in SAME_LINES


def missing_extra(suffix: str) -> str:
    """The extra of annai that files of this kind need and that is not installed; empty if none is missing."""
    extra, module = EXTRAS.get(suffix, ("", ""))
    return extra if extra and find_spec(module) is None else ""
