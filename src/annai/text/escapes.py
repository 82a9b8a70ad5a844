"""How is text shown where its control characters would be obeyed? Escaped: on a terminal, and in a log."""

import logging
import re
import textwrap
from types import TracebackType

from annai.errors import without_secrets

# The control characters (C0, DEL and C1) but for tabs and line ends, line and paragraph separators, everything that
# reorders text (bidirectional controls), and halves of surrogate pairs, which no encoding holds.
_CONTROL = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ud800-\udfff]|\r(?!\n)"
)
_LINE_END = re.compile("[\r\n]")


def escape(text: str) -> str:
    r"""The text with `\x1b` for an escape character and so on, so that a terminal shows it and obeys none of it."""
    return _CONTROL.sub(_escape, text)


def escape_line(text: str) -> str:
    """As `escape`, and line ends too, so that a name can never look like two lines."""
    return _LINE_END.sub(_escape, escape(text))


def escape_json(text: str) -> str:
    """The same value as JSON that a terminal can be shown: what `json.dumps` leaves as it is, escaped as JSON does."""
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


class LogFormatter(logging.Formatter):
    """Formats each record as one line that nobody's file name can break; only a traceback follows, indented."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """The line itself."""
        record.message = escape_line(without_secrets(record.message))
        return super().formatMessage(record)

    def formatException(  # noqa: N802 - logging's name
        self,
        ei: tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None],
    ) -> str:
        """The traceback."""
        return textwrap.indent(escape(without_secrets(super().formatException(ei))), "    ")


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()
