"""What does a server log, and how? Lines for people or JSON for programs; never a secret, never what was asked."""

import contextlib
import io
import json
import logging
import sys
import time
from logging.handlers import RotatingFileHandler
from pathlib import Path

from annai.config import Config
from annai.errors import ServerError, without_secrets
from annai.state import private_opener
from annai.text.escapes import LogFormatter, escape_json
from annai.timer import timestamp

BACKUPS = 3

CHATTY = ("uvicorn", "uvicorn.error", "mcp", "watchfiles", "asyncio", "charset_normalizer")
"""Libraries of which only warnings are logged."""

access_logger = logging.getLogger("annai.access")


class PrivateLog(RotatingFileHandler):
    """A rotated log that only its owner can read: it names documents."""

    def _open(self) -> io.TextIOWrapper:
        raw = io.FileIO(self.baseFilename, "a", opener=private_opener)
        return io.TextIOWrapper(raw, encoding=self.encoding)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        """Say in a line that the disk is full or the folder gone; Python would show where in its code that was."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)
            return
        with contextlib.suppress(OSError):  # Standard error may be on the same disk.
            print(f"{self.baseFilename} lacks a line, since it cannot be written: {error.strerror}.", file=sys.stderr)


class JsonFormatter(logging.Formatter):
    """Formats each record as one JSON object: time, level, logger, message, and what a request was."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        fields: dict[str, object] = {
            "time": timestamp(record.created - time.time()),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": without_secrets(record.getMessage()),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            fields["exception"] = without_secrets(self.formatException(record.exc_info))
        return escape_json(json.dumps(fields, ensure_ascii=False))


def set_up_logging(config: Config, log: Path | None) -> None:
    """Log to a rotated file, or to standard error."""
    handler: logging.Handler = logging.StreamHandler(sys.stderr)
    if log:
        largest = int(config.logging.rotate_mb * 1_000_000)
        try:
            handler = PrivateLog(log, maxBytes=largest, backupCount=BACKUPS, encoding="utf-8")
        except OSError as error:
            raise ServerError(
                f"The log {log} cannot be written: {error.strerror}", "name another with --log."
            ) from error
    verbose = logging.getLogger().level == logging.DEBUG
    level = logging.DEBUG if verbose else config.logging.level.upper()
    is_json = config.logging.format == "json"
    handler.setFormatter(JsonFormatter() if is_json else LogFormatter("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(handlers=[handler], level=level, force=True)
    # Whoever asks for it gets it at every level.
    access_logger.setLevel(logging.INFO)
    access_logger.disabled = not config.logging.access
    for chatty in CHATTY:
        logging.getLogger(chatty).setLevel(logging.WARNING)


def log_access(client: str, who: str, method: str, path: str, status: int, seconds: float) -> None:
    """Log a request: not its query string nor its body, which hold what was asked, and perhaps keys."""
    milliseconds = round(seconds * 1000, 1)
    fields = {"client": client, "token": who, "method": method, "path": path, "status": status, "ms": milliseconds}
    access_logger.info(
        "%s %s %s %s %d %.1fms", client, who or "-", method, path, status, milliseconds, extra={"fields": fields}
    )
