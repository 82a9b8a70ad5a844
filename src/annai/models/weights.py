"""Where are a model's weights? In a folder, among those downloaded before, or on the hub."""

import logging
import threading
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from annai.models.extras import ModelUnavailable, load_extra
from annai.models.names import model_folder
from annai.text.nesting import parse_json

PROBE_SECONDS = 2.5
"""How long the hub may take to answer at all before annai reports that it cannot be reached."""

WEIGHT_FILES = ("*.safetensors", "pytorch_model*.bin")

UNUSED_FILES = ["onnx/*", "openvino/*", "results/*", "*.onnx", "*.onnx_data", "*.h5", "*.msgpack", "*.gguf", "*.ot"]
"""Files of a model on the hub that only other programs use: they are not downloaded."""


def find_weights(provider: str, name: str) -> Path:
    """The folder of a model, downloaded from the hub if it is not on this machine.

    A model on this machine is used without asking the hub. Raises `ModelUnavailable` within seconds when there is no
    way to get it.
    """
    if folder := model_folder(name):
        return folder
    if downloaded := downloaded_weights(name):
        return downloaded
    load_extra(provider, "huggingface_hub")
    from huggingface_hub import constants, errors, snapshot_download  # an extra, and slow to import

    hub = constants.ENDPOINT
    if constants.is_offline_mode() or not _is_reachable(f"{hub}/api/models/{name}"):
        raise ModelUnavailable(
            f"The model {name!r} is not on this machine, and {hub} cannot be reached. Run `annai model test {name}` "
            "with a connection to download it, or name a folder that holds it."
        )
    try:
        return Path(snapshot_download(name, ignore_patterns=UNUSED_FILES, etag_timeout=PROBE_SECONDS))
    except errors.GatedRepoError:
        raise ModelUnavailable(
            f"You must accept the licence of {name}: do that at {hub}/{name}, then run `hf auth login`."
        ) from None
    except (errors.RepositoryNotFoundError, errors.HFValidationError):
        raise ModelUnavailable(
            f"There is no folder {name!r} and no such model at {hub}; `annai model ls` lists the known models."
        ) from None
    except (errors.HfHubHTTPError, errors.LocalEntryNotFoundError, OSError) as error:
        raise ModelUnavailable(f"Downloading {name} from {hub} failed ({type(error).__name__}); try again.") from None


def downloaded_weights(name: str) -> Path | None:
    """The folder of a model that was downloaded before, if it is complete; does not use the network."""
    if find_spec("huggingface_hub") is None:
        return None
    from huggingface_hub import errors, snapshot_download  # an extra, and slow to import

    try:
        folder = Path(snapshot_download(name, local_files_only=True))
    except (errors.LocalEntryNotFoundError, errors.HFValidationError, OSError):
        return None
    has_files = (folder / "config.json").is_file() and any(any(folder.glob(pattern)) for pattern in WEIGHT_FILES)
    return folder if has_files and not _lacks_parts(folder) else None


def copy_dimension(folder: Path) -> int:
    """How many numbers the vectors of the model in a folder have, as its own files say; 0 if they do not."""
    # The last part of a model of sentence-transformers decides: what it pools may be projected then.
    parts = sorted(folder.glob("[0-9]*_*/config.json"), reverse=True)
    for values in map(read_json, (*parts, folder / "config.json")):
        for key in ("out_features", "word_embedding_dimension", "hidden_size"):
            if isinstance(found := values.get(key), int):
                return found
    return 0


def read_json(file: Path) -> dict[str, Any]:
    """One of a model's own configuration files; empty if it is missing or damaged."""
    try:
        values = parse_json(file.read_bytes())
    except (OSError, ValueError):
        return {}
    return values if isinstance(values, dict) else {}


def silence_transformers() -> None:
    """Keep progress bars and advice off standard error while a model loads."""
    from transformers.utils import logging as transformers_logging  # an extra, and slow to import

    transformers_logging.disable_progress_bar()
    transformers_logging.set_verbosity_error()
    logging.getLogger("sentence_transformers").setLevel(logging.WARNING)


def _lacks_parts(folder: Path) -> bool:
    """Whether a download was interrupted: an index of weights names files that are not there."""
    for index in folder.glob("*.index.json"):
        try:
            files = set(parse_json(index.read_bytes())["weight_map"].values())
        except (OSError, ValueError, KeyError, AttributeError):
            return True
        if not all((folder / file).exists() for file in files):
            return True
    return False


def _is_reachable(url: str) -> bool:
    """Whether anything answers; asks in a thread, since resolving a host name can hang for longer than is allowed."""
    answered = threading.Event()

    def ask() -> None:
        try:
            with urlopen(url, timeout=PROBE_SECONDS):  # noqa: S310 - the hub's own address
                answered.set()
        except HTTPError as error:
            error.close()
            answered.set()
        except (URLError, OSError, ValueError):
            pass
        finally:
            done.set()

    done = threading.Event()
    threading.Thread(target=ask, name="annai-hub", daemon=True).start()
    done.wait(PROBE_SECONDS + 0.5)
    return answered.is_set()
