"""Which of the best results answer a question best? The contract every reranker keeps, and the table of providers."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from importlib import import_module
from typing import cast

from annai.config import Config
from annai.errors import RerankerError


class Reranker(ABC):
    """Reads a question and texts together, and tells how well each answers; only `score` is a reranker's own.

    It promises: scores are 0–1, higher is better, one for each text in their order. Several threads may use one
    reranker at once; it works on one question at a time.
    """

    chunk: int = 1 << 30
    """Texts that are scored at once: between chunks it is seen whether there is time left."""

    def __init__(self) -> None:
        self._busy = threading.Lock()

    def load(self) -> None:  # noqa: B027 - most have nothing to load
        """Get ready; raises `RerankerError` for settings that cannot work."""

    @abstractmethod
    def score(self, query: str, texts: Sequence[str], seconds: float) -> list[float]:
        """Score at most `chunk` texts, in at most so many seconds where that can be helped; raises `RerankerError`."""

    def close(self) -> None:  # noqa: B027 - most have nothing to let go of
        """Let go of the model."""

    def rerank(self, query: str, texts: Sequence[str], seconds: float) -> list[float]:
        """Score texts. Raises `RerankerError` when it fails, and when that takes longer than `seconds`."""
        late = f"the reranker took longer than {seconds:g} seconds (rerank.budget_seconds)"
        if not self._busy.acquire(blocking=False):
            raise RerankerError("the reranker is still busy with an earlier question")
        scores: list[float] = []
        failures: list[Exception] = []
        done, given_up = threading.Event(), threading.Event()

        def work() -> None:
            try:
                for start in range(0, len(texts), self.chunk):
                    if given_up.is_set():
                        return
                    scores.extend(self.score(query, texts[start : start + self.chunk], seconds))
            except Exception as error:
                failures.append(error)
            finally:
                self._busy.release()
                done.set()

        # A thread of its own: a model at work cannot be interrupted, but it need not be waited for.
        threading.Thread(target=work, name="annai-reranker", daemon=True).start()
        if not done.wait(seconds):
            given_up.set()
            raise RerankerError(late)
        if failures:
            reason = failures[0]
            raise RerankerError(str(reason) or type(reason).__name__) from reason
        return scores


PROVIDERS = {
    "cross-encoder": "annai.rerankers.cross_encoder",
    "http": "annai.rerankers.http",
}
"""Provider → the module whose `create` makes the reranker; imported when asked for."""


def load_reranker(config: Config) -> Reranker | None:
    """The reranker that the settings name, if they name one."""
    if config.search.rerank == "off":
        return None
    return cast(Reranker, import_module(PROVIDERS[config.search.rerank]).create(config))
