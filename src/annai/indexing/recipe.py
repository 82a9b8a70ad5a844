"""What do sections depend on, besides their documents? Kept with a collection, so that nobody changes it unawares."""

import dataclasses
import json
from collections.abc import Mapping

from annai.config import Config
from annai.embedders.static import token_model
from annai.errors import CollectionError, NewerIndex
from annai.settings import Chunking
from annai.types import Collection

_PROGRAM = ("pipeline", "tokens")
"""What comes with the program and not from the settings."""


def fingerprint(config: Config, chunking: Chunking, version: int, *, shared: bool) -> str:
    """Everything besides the documents that sections depend on: the version of the pipeline, and setting by setting.

    Where machines share an index, also which files are documents: another machine must not take them for deleted.
    """
    files = dataclasses.asdict(config.files)
    chosen = files if shared else {"max_file_mb": files["max_file_mb"]}
    values = {
        "pipeline": version,
        "tokens": token_model().identity,
        **{f"chunking.{name}": value for name, value in dataclasses.asdict(chunking).items()},
        **{f"files.{name}": value for name, value in chosen.items()},
        **{f"documents.{name}": value for name, value in dataclasses.asdict(config.documents).items()},
    }
    return json.dumps(values, ensure_ascii=False)


def check_settings(collection: Collection, made_with: str) -> None:
    """Raise an error that names the differences if a collection of a shared index was made with other settings.

    A newer program makes it anew; an older one leaves it alone.
    """
    before, now = _read(collection.settings), _read(made_with)
    if not before:
        return
    if _number(before) > _number(now):
        raise NewerIndex(
            f"The collection {collection.name!r} was indexed by a newer annai, so this one only searches it; upgrade "
            "annai on this machine."
        )
    if _number(before) < _number(now):
        before |= {name: now[name] for name in _PROGRAM}
    differences = [
        f"{name} = {_shown(before.get(name))}, here {_shown(now.get(name))}"
        for name in dict.fromkeys((*before, *now))
        if before.get(name) != now.get(name)
    ]
    if differences:
        raise CollectionError(
            f"The collection {collection.name!r} was indexed with other settings than this machine has "
            f"({'; '.join(differences)}), so nothing is indexed; correct annai.toml, or index it with those from here "
            f"by `annai import -n {collection.name} --adopt`."
        )


def _read(settings: str) -> dict[str, object]:
    """The values of a fingerprint; none, if an older annai wrote it."""
    try:
        values = json.loads(settings)
    except ValueError:
        return {}
    return values if isinstance(values, dict) else {}


def _number(values: Mapping[str, object]) -> int:
    number = values.get("pipeline")
    return number if isinstance(number, int) else 0


def _shown(value: object) -> str:
    return "not set" if value is None else json.dumps(value, ensure_ascii=False)
