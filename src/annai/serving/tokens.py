"""Who may use a server? Named tokens, each for reading or changing, for all collections or some.

They are kept in the user's own folder, by project: a folder that came from elsewhere must not bring tokens with it.
Only their SHA-256 is kept. That is enough, since a token is 256 random bits: nobody can try them all, so there is
nothing for a slow hash or a salt to slow down, and a check costs a microsecond.
"""

import hashlib
import logging
import os
import re
import secrets
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from unicodedata import normalize

from annai.config import Config, user_folder
from annai.definitions import dataclass
from annai.errors import ConfigError, QueryError, ServerError
from annai.indexing.lock import IndexLock
from annai.project import Access
from annai.serving.pidfile import write_private
from annai.serving.wire import from_json, plain, to_json
from annai.timer import timestamp
from annai.values import decode

logger = logging.getLogger(__name__)

FILE_NAME = "tokens.json"
PREFIX = "annai_"
"""What tokens begin with, so that people and scanners recognise one that leaked."""

OWNER = "owner"
"""The name of the server's own token, in the project's state folder or `server.token`."""

LOCK_SECONDS = 10.0
"""How long to wait for another process that changes the tokens."""

_NAME = re.compile(r"[\w.@+-]{1,64}")


@dataclass(frozen=True, slots=True)
class Token:
    """A token as it is kept: everything but itself."""

    name: str
    digest: str
    access: Access
    collections: tuple[str, ...] = ()
    """The only collections it is for; empty for all."""
    created_at: str = ""


class TokenFile:
    """The tokens of one project's server."""

    def __init__(self, config: Config) -> None:
        self._file = user_folder() / FILE_NAME
        self._root = str(config.root)
        self._state: tuple[int, int, int] | None = None
        """Of the file when it was last read."""
        self._by_digest: dict[str, Token] = {}

    def tokens(self) -> list[Token]:
        """All of them, in the order of their names."""
        return sorted(self._read().get(self._root, ()), key=lambda each: each.name)

    def current(self) -> Mapping[str, Token]:
        """The tokens by their digests; the file is read again only when it changed, and a broken one holds none."""
        try:
            status = os.stat(self._file)  # noqa: PTH116 - every request comes here
            state = status.st_mtime_ns, status.st_ino, status.st_size
        except OSError:
            state = None
        if state != self._state:
            self._by_digest, self._state = {}, state
            try:
                self._by_digest = {each.digest: each for each in self.tokens()}
            except ConfigError as error:
                logger.error("%s", error)
        return self._by_digest

    def add(self, name: str, access: Access, collections: Sequence[str] = ()) -> str:
        """Make a token and return it; nobody can be told it a second time."""
        if not _NAME.fullmatch(name) or name == OWNER:
            raise ConfigError(
                f"{name!r} cannot be a token's name", f"use up to 64 letters, digits and . @ + - _, and not {OWNER!r}."
            )
        token = PREFIX + secrets.token_urlsafe(32)
        with self._changing() as known:
            if name in (each.name for each in known):
                raise ConfigError(
                    f"There is a token {name!r} already", f"choose another name, or `annai token revoke {name}` first."
                )
            known.append(
                Token(
                    name,
                    digest_of(token),
                    access,
                    tuple(dict.fromkeys(normalize("NFC", each) for each in collections)),
                    timestamp(),
                )
            )
        return token

    def revoke(self, name: str) -> None:
        """Forget a token: from now on the server refuses it. Raises `ConfigError` if there is none of that name."""
        with self._changing() as known:
            kept = [each for each in known if each.name != name]
            if len(kept) == len(known):
                raise ConfigError(f"There is no token {name!r}", "`annai token ls` lists those that there are.")
            known[:] = kept

    @contextmanager
    def _changing(self) -> Iterator[list[Token]]:
        """The project's tokens, to be changed; they are written at the end, by one process at a time."""
        lock = IndexLock(self._file.with_suffix(".lock"))
        try:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"{self._file.parent} cannot be made: {error.strerror}", "make its folder writable."
            ) from error
        with lock.exclusive(LOCK_SECONDS) as is_held:
            if not is_held:
                raise ServerError("Another process is changing the tokens", "try again in a while.")
            everything = dict(self._read())
            known = [*everything.get(self._root, ())]
            yield known
            everything[self._root] = tuple(known)
            write_private(self._file, to_json(plain({root: each for root, each in everything.items() if each})) + b"\n")

    def _read(self) -> Mapping[str, tuple[Token, ...]]:
        try:
            with self._file.open("rb") as stream:
                status = os.fstat(stream.fileno())
                if sys.platform != "win32" and (status.st_mode & 0o022 or status.st_uid not in (0, os.getuid())):
                    raise ConfigError(f"Others can change {self._file}, so it is not used", "`chmod 600` it.")
                return decode(_PROJECTS, from_json(stream.read()), "it")
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, QueryError) as error:
            raise ConfigError(
                f"{self._file} cannot be read ({error})", "correct it, or delete it and make the tokens anew."
            ) from error


def digest_of(token: str) -> str:
    """What is kept of a token."""
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()


_PROJECTS: type[Mapping[str, tuple[Token, ...]]] = Mapping[str, tuple[Token, ...]]  # type: ignore[type-abstract]
"""What the file holds, by the project's folder."""
