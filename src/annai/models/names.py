"""Which model does a name mean? As its maker writes it, as Ollama and LM Studio do, or a folder."""

import re
from pathlib import Path

from annai.models.catalog import FAMILIES, MODELS, KnownModel

_SERVED_PREFIX = "text-embedding-"
"""What LM Studio puts before the name of every embedding model."""

_FILE_FORM = re.compile(r"[-_.](gguf|mlx|qat|i?q\d[\w.]*|[fb]?f?p?(16|32)|int8|\d+bit)$")
"""How the name of a converted or quantised model ends."""

_SIZE = re.compile(r"-\d+m(?=-|$)")
"""The size in one of Ollama's tags, where the model has only one."""


def known_model(name: str, provider: str = "") -> KnownModel | None:
    """The known model of this name, if there is one; the name may leave out the maker."""
    for model in MODELS:
        if provider in ("", model.provider) and name.lower() in _names(model):
            return model
    return None


def served_model(name: str) -> KnownModel | None:
    """The known model that a service means: `qwen3-embedding:0.6b`, `text-embedding-bge-m3@q8_0`, `x/y-GGUF:Q4_K_M`."""
    found = known_model(name)
    if found or name.lower().startswith(f"{_SERVED_PREFIX}3-"):
        return found
    plain = name.lower().rsplit("/", 1)[-1].partition("@")[0].removeprefix(_SERVED_PREFIX)
    plain = plain.removesuffix(":latest").replace(":", "-")
    while (shorter := _FILE_FORM.sub("", plain)) != plain:
        plain = shorter
    return known_model(plain) or known_model(_SIZE.sub("", plain)) or FAMILIES.get(plain)


def provider_of(name: str) -> str:
    """Which provider loads a model: that of a known name, or by what a folder holds; empty if neither tells."""
    if known := known_model(name):
        return known.provider
    folder = model_folder(name)
    if not folder:
        return ""
    return "onnx" if any(folder.rglob("*.onnx")) and not any(folder.glob("*.safetensors")) else "sentence-transformers"


def model_folder(name: str) -> Path | None:
    """The folder that a model's name is the path of. A name like `org/model` is the hub's, wherever one stands."""
    folder = Path(name).expanduser()
    return folder if folder.is_absolute() and folder.is_dir() else None


def _names(model: KnownModel) -> tuple[str, ...]:
    full = model.name.lower()
    return (full, full.rsplit("/", 1)[-1], *model.aliases)
