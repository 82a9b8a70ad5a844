"""Which of the best results answer a question best? The contract of rerankers, and the table of providers."""

import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from importlib import import_module
from typing import cast

from annai import plugins
from annai.config import Config
from annai.errors import RerankerError


class Reranker(ABC):
    """Reads a question together with each text and scores how well the text answers it.

    A reranker implements `score`. It promises: scores are 0–1, higher is better, one for each text in their order.
    Several threads may use one reranker; while it works on one question, it refuses others.
    """

    chunk_size: int = 1 << 30
    """Texts scored at once: the time limit is checked between chunks."""

    def __init__(self) -> None:
        self._busy = threading.Lock()

    def load(self) -> None:  # noqa: B027 - optional: there may be nothing to load
        """Get ready. Raises `RerankerError` for settings that cannot work."""

    @abstractmethod
    def score(self, query: str, texts: Sequence[str], seconds: float) -> list[float]:
        """Score at most `chunk_size` texts, within `seconds` if it can stop in time. Raises `RerankerError`."""

    def close(self) -> None:  # noqa: B027 - optional: there may be nothing to unload
        """Unload the model."""

    def rerank(self, query: str, texts: Sequence[str], seconds: float) -> list[float]:
        """Score texts. Raises `RerankerError` if that fails or takes longer than `seconds`."""
        if not self._busy.acquire(blocking=False):
            raise RerankerError("the reranker is still busy with an earlier query")
        scores: list[float] = []
        failures: list[Exception] = []
        done, given_up = threading.Event(), threading.Event()

        def work() -> None:
            try:
                for start in range(0, len(texts), self.chunk_size):
                    if given_up.is_set():
                        return
                    scores.extend(self.score(query, texts[start : start + self.chunk_size], seconds))
            except Exception as error:
                failures.append(error)
            finally:
                self._busy.release()
                done.set()

        # In a thread, since a running model cannot be interrupted: this call returns in time anyway.
        threading.Thread(target=work, name="annai-reranker", daemon=True).start()
        if not done.wait(seconds):
            given_up.set()
            raise RerankerError(f"the reranker took longer than {seconds:g} seconds (rerank.budget_seconds)")
        if failures:
            reason = failures[0]
            raise RerankerError(str(reason) or type(reason).__name__) from reason
        return scores


class MissingReranker(Reranker):
    """Stands for one that cannot be had, so that a search answers and says so."""

    def __init__(self, reason: str) -> None:
        super().__init__()
        self._reason = reason

    def load(self) -> None:
        """Say why."""
        raise RerankerError(self._reason)

    def score(self, query: str, texts: Sequence[str], seconds: float) -> list[float]:  # noqa: ARG002 - it reads nothing
        """Say why."""
        raise RerankerError(self._reason)


def sigmoid(logits: Sequence[float]) -> list[float]:
    """What a model's outputs mean between 0 and 1; their order stays."""
    return [1 / (1 + math.exp(-min(max(each, -700.0), 700.0))) for each in logits]


PROVIDERS = {
    "cross-encoder": "annai.rerankers.cross_encoder",
    "http": "annai.rerankers.http",
}
"""Provider → the module whose `create` makes the reranker; imported when it is needed."""


def load_reranker(config: Config) -> Reranker | None:
    """The reranker that the settings name, or None."""
    if config.search.rerank == "off":
        return None
    name = config.search.rerank
    if name in PROVIDERS:
        return cast(Reranker, import_module(PROVIDERS[name]).create(config))
    try:
        return cast(Reranker, plugins.load("annai.rerankers", name, RerankerError)(config))
    except RerankerError as error:
        return MissingReranker(str(error))
