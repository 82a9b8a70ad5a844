"""`annai model …`: which embedding models are there, and how does one do here?"""

import dataclasses
import json
import re
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

import click

from annai.config import Config, override, secret
from annai.embedders.base import Embedder, Vectors, load_embedder
from annai.embedders.static import BUNDLED
from annai.errors import ConfigError
from annai.interfaces.cli.conventions import Group
from annai.interfaces.cli.options import format_option, project_command
from annai.interfaces.render.records import print_json
from annai.interfaces.render.table import print_table
from annai.interfaces.render.units import size
from annai.interfaces.terminal import echo, standard_output
from annai.models.catalog import KEY_VARIABLES, MODELS, RERANKERS, KnownModel, KnownReranker
from annai.models.extras import EXTRAS, is_installed
from annai.models.names import known_model, model_folder, provider_of, served_model
from annai.models.vectors import dimensions_text
from annai.models.weights import copy_dimension, downloaded_weights
from annai.plugins import install_command
from annai.settings import Embedding

PAIRS = (
    ("How do I reset my password?", "Open the account page and choose “forgot password” to set a new one."),
    ("パスワードを忘れました", "アカウント画面の「パスワードを忘れた方」から再設定できます。"),
)
"""A question and its answer, in two languages."""

SPEED_TEXTS = 64
"""How many texts are embedded to tell the speed."""

_name = click.argument("name", required=False, default="")


@click.group(cls=Group, examples=("annai model ls", "annai model test static"))
def command() -> None:
    """List and try embedding models."""


@command.command("ls", examples=("annai model ls", "annai model ls --json"))
@format_option()
@project_command(docs_dir=False, server=False)
def ls(config: Config, form: str | None) -> None:
    """List the known models, the rerankers last.

    Others work too: any that sentence-transformers loads, an ONNX folder, or a
    service with an OpenAI-compatible API.
    """
    shown = [_described(model) for model in (_bundled(), *MODELS)] + [_described_reranker(each) for each in RERANKERS]
    if (form or config.display.default_format) == "json":
        print_json(shown)
        return
    columns = ("name", "provider", "size", "languages", "dimensions", "licence", "installed")
    rows = [[str(each[column]) for column in columns] for each in shown]
    if not standard_output(config).is_terminal:
        print_table(columns, rows, config)
        return
    shortened = [[*map(_shorten, columns, row)] for row in rows]
    print_table(columns, shortened, config, optional=("provider", "size", "licence"))
    # What to do is the same for many of them, and long.
    for note in dict.fromkeys(row[-1] for row in rows if ":" in row[-1]):
        echo(note)


@command.command("show", examples=("annai model show", "annai model show static"))
@_name
@format_option()
@project_command(docs_dir=False, server=False)
def show(config: Config, name: str, form: str | None) -> None:
    """Show a model, or the one in the settings, and how to select it."""
    settings = _settings(config, name)
    embedder = load_embedder(settings, config.model, config.retry)
    known = served_model(settings.model) if settings.model else None
    folder = model_folder(settings.model)
    dimension = embedder.dimension or (copy_dimension(folder) if folder else 0)
    values: dict[str, object] = {
        "provider": settings.provider,
        "model": settings.model or "(the provider's own)",
        "identity": embedder.identity,
        "dimensions": dimension or "(known when it is loaded)",
        "batch_size": embedder.batch_size,
        "device": settings.device,
    }
    if known:
        # What is known of a model need not be true of a copy: that may be in another form.
        of_copy = {
            "provider": settings.provider,
            "dimensions": values["dimensions"],
            "installed": _installed(settings.provider, settings.model),
        }
        values |= _described(known) | (of_copy if folder else {})
    if known:
        values |= {"query_prefix": known.query_prefix, "document_prefix": known.document_prefix}
        values |= {"max_tokens": known.max_tokens, "source": known.source}
    if (form or config.display.default_format) == "json":
        print_json(values)
        return
    for key, value in values.items():
        echo(f"{key:16}{value!r}" if key.endswith("_prefix") else f"{key:16}{value}")
    echo(f"\nIn annai.toml:\n\n[embedding]\nprovider = {json.dumps(settings.provider)}")
    if settings.model:
        echo(f"model = {json.dumps(settings.model, ensure_ascii=False)}")
    if known and known.has_remote_code:
        echo("trust_remote_code = true  # it runs its own code: read that first")


@command.command("test", examples=("annai model test", "annai model test static --json"))
@_name
@click.option("--provider", help="Provider of a model that `annai model ls` does not list.")
@click.option("--device", help="Where it runs: auto, cpu, cuda or mps.")
@format_option()
@project_command(docs_dir=False, server=False)
def test(config: Config, name: str, provider: str | None, device: str | None, form: str | None) -> None:
    """Embed a few texts, and report similarity, speed and memory.

    A model that is not on this machine is downloaded from Hugging Face.
    """
    settings = _settings(config, name, provider)
    config = override(dataclasses.replace(config, embedding=settings), "embedding", device=device)
    embedder = load_embedder(config.embedding, config.model, config.retry)
    start = perf_counter()
    vectors = [(embedder.embed_query(question), embedder.embed_documents([answer])[0]) for question, answer in PAIRS]
    loaded = perf_counter() - start
    cosines = [[float(question @ answer) for _, answer in vectors] for question, _ in vectors]
    values: dict[str, str | int | float] = {
        "identity": embedder.identity,
        "dimensions": embedder.dimension,
        "cosine_english_pair": round(cosines[0][0], 3),
        "cosine_japanese_pair": round(cosines[1][1], 3),
        "cosine_across_languages": round((cosines[0][1] + cosines[1][0]) / 2, 3),
        "cosine_unrelated": round(_unrelated(embedder, vectors), 3),
        "seconds_to_first_vector": round(loaded, 2),
        "texts_per_second": round(_speed(embedder), 1),
        "memory_bytes": _memory(),
    }
    embedder.close()
    if (form or config.display.default_format) == "json":
        print_json(values)
        return
    for key, value in values.items():
        echo(f"{key.replace('_', ' '):26}{size(int(value)) if key == 'memory_bytes' else value}")


def _settings(config: Config, name: str, provider: str | None = None) -> Embedding:
    """The settings of the model that is meant: the configured one, a known one, or any by its provider."""
    if not name:
        return override(config, "embedding", provider=provider).embedding
    known = known_model(name)
    if name in ("static", "use", "hashing"):
        return Embedding(provider=name)
    if not known and (folder := Path(name).expanduser()).is_dir():
        name = str(folder.absolute())
    chosen = provider or provider_of(name)
    if not chosen:
        raise ConfigError(
            f"{name!r} is not a known model", "name its provider with --provider, or see `annai model ls`."
        )
    trusted = config.embedding.trust_remote_code and config.embedding.model == name
    checked = override(config, "embedding", provider=chosen, model=known.name if known else name).embedding
    # Of the other settings only those hold that name no model.
    keys = ("device", "base_url", "api_key_env", "timeout_seconds", "parallel_requests")
    return Embedding(
        provider=checked.provider,
        model=checked.model,
        trust_remote_code=trusted,
        **{key: getattr(checked, key) for key in keys},
    )


def _bundled() -> KnownModel:
    embedder = load_embedder(Embedding())
    weight = size(sum(file.stat().st_size for file in BUNDLED.iterdir()))
    return KnownModel("static", "static", embedder.dimension, 0, "ja, en", "Apache-2.0", weight)


def _described(model: KnownModel) -> dict[str, object]:
    return {
        "name": model.name,
        "provider": model.provider,
        "size": model.parameters,
        "languages": model.languages,
        "dimensions": dimensions_text(model),
        "licence": model.licence,
        "installed": _installed(model.provider, model.name),
    }


def _described_reranker(model: KnownReranker) -> dict[str, object]:
    return {
        "name": model.name,
        "provider": "cross-encoder",
        "size": model.parameters,
        "languages": model.languages,
        "dimensions": "",
        "licence": model.licence,
        "installed": _installed("cross-encoder", model.name),
    }


def _shorten(column: str, value: str) -> str:
    """A value as the table shows it on a terminal."""
    if column == "dimensions":
        return re.sub(r" or (.* or )?", "…", value).replace(" to ", "–")
    return value.partition(":")[0].removesuffix(" languages")


def _installed(provider: str, name: str) -> str:
    if not is_installed(provider):
        return f"no: {install_command(EXTRAS[provider][0])}"
    if variables := KEY_VARIABLES.get(provider):
        return "yes" if secret(*variables) else f"no key: {variables[0]}"
    is_on_hub = provider in ("sentence-transformers", "cross-encoder") and not model_folder(name)
    if is_on_hub and downloaded_weights(name) is None:
        return "not fetched"
    return "yes"


def _unrelated(embedder: Embedder, vectors: Sequence[tuple[Vectors, Vectors]]) -> float:
    """How near a text is that has nothing to do with the questions: what a useful model keeps apart."""
    other = embedder.embed_documents(["The glacier lost two metres of ice in the summer of 1987."])[0]
    return sum(float(other @ question) for question, _ in vectors) / len(vectors)


def _speed(embedder: Embedder) -> float:
    texts = [f"{PAIRS[number % 2][1]} ({number})" for number in range(SPEED_TEXTS)]
    start = perf_counter()
    embedder.embed_documents(texts)
    return SPEED_TEXTS / max(perf_counter() - start, 1e-9)


def _memory() -> int:
    import psutil  # only here

    return int(psutil.Process().memory_info().rss)
