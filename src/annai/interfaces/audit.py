"""Who changed the index, when and how? One JSON object a line, in a rotated file that only its owner can read."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from annai.errors import AnnaiError, Forbidden, without_secrets
from annai.interfaces.logs import PrivateLog
from annai.serving.wire import plain, to_json
from annai.timer import timestamp

logger = logging.getLogger(__name__)

BACKUPS = 3


class Audit:
    """The log of changes; without a file it notes nothing. Several threads may use it at once."""

    def __init__(self, file: Path | None = None, max_bytes: int = 0) -> None:
        self._log = PrivateLog(file, maxBytes=max_bytes, backupCount=BACKUPS, encoding="utf-8") if file else None

    @contextmanager
    def noting(self, who: str, action: str, arguments: Mapping[str, object]) -> Iterator[None]:
        """Note a change and what came of it: `done`, `refused` or `failed`."""
        outcome, reason = "failed", "it was interrupted"
        try:
            yield
            outcome, reason = "done", ""
        except Forbidden as error:
            outcome, reason = "refused", str(error)
            raise
        except AnnaiError as error:
            reason = str(error)
            raise
        finally:
            self.note(who, action, arguments, outcome, reason)

    def note(
        self, who: str, action: str, arguments: Mapping[str, object], outcome: str = "done", reason: str = ""
    ) -> None:
        """Write one line."""
        if self._log is None:
            return
        line = {"time": timestamp(), "who": who, "action": action, "arguments": plain(arguments), "outcome": outcome}
        text = without_secrets(to_json(line | ({"reason": reason} if reason else {})).decode())
        self._log.handle(logging.makeLogRecord({"msg": text, "levelno": logging.INFO}))

    def close(self) -> None:
        """Close the file."""
        if self._log:
            self._log.close()
