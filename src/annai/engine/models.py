"""Which models has a project loaded? Each of them once, for all threads; and which did it have before?

A collection names the model that made its vectors, and the settings may name another one by now. What opened each model
is kept in the user's own state folder: not in the index, which may be another's, since a model may run code and a
service gets the questions.
"""

import json
import logging
import os
import threading
from typing import Any

from annai.config import Config, make_folders, override
from annai.embedders.base import CACHE_NAME, Embedder, load_embedder
from annai.embedders.static import token_model
from annai.errors import ConfigError, EmbedderError
from annai.settings import Embedding
from annai.state import private_opener
from annai.trust import Demand, demands, digest

logger = logging.getLogger(__name__)

MODELS_NAME = "models.json"
"""The file in the state folder that says how each model was opened."""

MAX_REMEMBERED = 20
"""Models whose settings are kept: the latest."""


def forget_models(config: Config) -> None:
    """Forget how a project's models were opened: one that the user no longer trusts must not be opened again."""
    (config.state_folder / MODELS_NAME).unlink(missing_ok=True)


class Embedders:
    """The embedders of a project, each made when it is first needed."""

    def __init__(self, config: Config, *, remember: bool) -> None:
        self._config = config
        self._cache = config.database_path.with_name(CACHE_NAME) if remember else None
        self._file = config.state_folder / MODELS_NAME
        self._remembers = remember
        self._loaded: dict[Embedding, Embedder] = {}
        self._former: dict[str, Embedder] = {}
        self._lock = threading.Lock()

    def get(self, settings: Embedding) -> Embedder:
        """The embedder with these settings: one for all threads, since a model must not be in memory twice."""
        with self._lock:
            if settings not in self._loaded:
                self._loaded[settings] = self._open(settings)
                if self._remembers and settings != Embedding():
                    self._remember(self._loaded[settings].identity, settings)
            return self._loaded[settings]

    def former(self, identity: str) -> Embedder:
        """The embedder that had this identity under settings before. Raises `EmbedderError` if it cannot be opened."""
        with self._lock:
            if identity not in self._former:
                settings = Embedding() if identity == token_model().identity else self._remembered(identity)
                former = self._loaded.get(settings) or self._open(settings)
                if former.identity != identity:
                    raise EmbedderError(f"its settings now mean {former.identity}")
                self._loaded[settings] = self._former[identity] = former
            return self._former[identity]

    def close(self) -> None:
        """Release the models."""
        for embedder in self._loaded.values():
            embedder.close()

    def _open(self, settings: Embedding) -> Embedder:
        embedder = load_embedder(settings, self._config.model, self._config.retry, cache=self._cache)
        embedder.is_watched = embedder.is_service
        return embedder

    def _remember(self, identity: str, settings: Embedding) -> None:
        """Keep the settings that are in force, with the state of the model's files, which were trusted like that."""
        defaults = vars(Embedding())
        given = {name: value for name, value in vars(settings).items() if value != defaults[name]}
        known = self._read()
        entry = {"settings": given, "files": self._files(given)}
        if known.get(identity) == entry:
            return
        known.pop(identity, None)
        kept = dict([*known.items(), (identity, entry)][-MAX_REMEMBERED:])
        draft = self._file.with_name(f"{MODELS_NAME}.{os.getpid()}")
        try:
            make_folders(self._config)
            with open(draft, "w", encoding="utf-8", opener=private_opener) as stream:
                json.dump(kept, stream, indent=2)
            draft.replace(self._file)
        except OSError as error:
            logger.info("%s cannot be written (%s): a change of model will not find this one", self._file, error)

    def _remembered(self, identity: str) -> Embedding:
        """The settings that opened a model, if they may still do so."""
        entry = self._read().get(identity)
        if not isinstance(entry, dict) or not isinstance(entry.get("settings"), dict):
            raise EmbedderError("how it was opened is not known here")
        given = entry["settings"]
        if self._asked(given) and not self._config.is_trusted:
            raise EmbedderError("`annai trust` has not allowed what this project asks for")
        if entry.get("files") != self._files(given):
            raise EmbedderError("the files of its model have changed")
        try:
            return override(
                Config(self._config.root, self._config.state_folder), "embedding", str(self._file), **given
            ).embedding
        except ConfigError as error:
            raise EmbedderError(str(error)) from None

    def _asked(self, given: dict[str, Any]) -> tuple[Demand, ...]:
        """What needs the user's trust in these settings of an embedder."""
        return tuple(demands({"embedding": given}, self._config.root))

    def _files(self, given: dict[str, Any]) -> str:
        """The state of the files of the model that these settings name."""
        return digest(b"", self._asked(given))

    def _read(self) -> dict[str, Any]:
        try:
            known = json.loads(self._file.read_bytes())
        except (OSError, ValueError):
            return {}
        return known if isinstance(known, dict) else {}
