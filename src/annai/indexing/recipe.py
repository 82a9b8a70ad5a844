"""What do sections depend on, besides their documents? Kept with a collection, so that nobody changes it unawares."""

import dataclasses
import json
from collections.abc import Mapping, Sequence

from annai.collection import chunking_of
from annai.config import Config
from annai.embedders.static import token_model
from annai.errors import CollectionError, NewerIndex
from annai.stores.base import Store
from annai.types import Collection

PIPELINE_VERSION = 5
"""Raised when sections, words or embedded texts are made differently: every index is then rebuilt."""

_PROGRAM = ("pipeline", "tokens")
"""What comes with the program and not from the settings."""


def fingerprint(store: Store, config: Config, collection: Collection) -> str:
    """Everything besides the documents that sections depend on: the version of the pipeline, and setting by setting.

    Where machines share an index, also which files are documents: another machine must not take them for deleted.
    """
    files = dataclasses.asdict(config.files)
    chosen = files if store.shared else {"max_file_mb": files["max_file_mb"]}
    chunking = chunking_of(config, collection)
    values = {
        "pipeline": PIPELINE_VERSION,
        "tokens": token_model().identity,
        **{f"chunking.{name}": value for name, value in dataclasses.asdict(chunking).items()},
        **{f"files.{name}": value for name, value in chosen.items()},
        **{f"documents.{name}": value for name, value in dataclasses.asdict(config.documents).items()},
    }
    return json.dumps(values, ensure_ascii=False)


def record_settings(store: Store, config: Config, collection: Collection, *, adopt: bool = False) -> Collection:
    """Store the settings that the index is made with; if they changed, index every file.

    In an index that machines share, that needs a word of its own: another's settings would do so by turns.
    """
    if not adopt:
        check_settings(store, config, collection)
    recorded = dataclasses.replace(collection, settings=fingerprint(store, config, collection))
    if recorded != collection:
        # In this order: killed in between, the next run finds the old settings and marks the files again.
        if collection.settings != recorded.settings:
            mark_as_changed(store, collection, None)
        store.save_collection(recorded)
    return recorded


def mark_as_changed(store: Store, collection: Collection, only: Sequence[str] | None) -> None:
    """Mark every file, or only these paths, as changed, so that it is read again; its document stays until then."""
    known = store.states(collection.name, only)
    states = [state.marked_as_changed() for state in known.values()]
    if states:
        store.write(collection.name, states=states)


def check_settings(store: Store, config: Config, collection: Collection) -> None:
    """Raise an error that names the differences if a collection of a shared index was made with other settings.

    A newer program makes it anew; an older one leaves it alone.
    """
    if not store.shared:
        return
    before, now = _read(collection.settings), _read(fingerprint(store, config, collection))
    if not before:
        return
    if _number(before) > _number(now):
        raise NewerIndex(
            f"The collection {collection.name!r} was indexed by a newer annai, so this one only searches it",
            "upgrade annai on this machine.",
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
            f"({'; '.join(differences)}), so nothing is indexed",
            f"correct annai.toml, or index it with those from here by `annai import -c {collection.name} --adopt`.",
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
