"""How is the model made? All steps in order, from the data to the model and its card.

    python -m model.build [--table DIR …] [--skip STEP …] [--install]

`--table` uses tables that were trained elsewhere; the vocabulary they were trained with must be in build/. The mean of
all tables, each trained with another seed, is shipped. A skipped step leaves the files of an earlier run.
Only `--install` changes the product: the model in src/annai and the card in docs/.
"""

import argparse
import hashlib
import json
import logging
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from annai.embedders.static import BUNDLED, StaticEmbedder
from model import card, quantise
from model.corpus import eval_folder
from model.evaluate import evaluate_sets, read_results
from model.pairs import pair_files
from model.prepare import prepare
from model.settings import BUILD, FOLDER, Settings, data_folder, read_settings
from model.start import start_vectors, write_start
from model.tables import MEAN, trained_table, write_mean, yardstick
from model.teach import teach
from model.translations import write_translations
from model.vocabulary import build_vocabulary, read_vocabulary, write_vocabulary
from model.whiten import whiten_table

logger = logging.getLogger(__name__)

STEPS_BEFORE_TABLES = ("vocabulary", "prepare", "start", "teach", "train")
"""The steps that tables from elsewhere make unnecessary."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the model with the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", type=Path, nargs="+", default=[], metavar="DIR", help="tables trained elsewhere")
    parser.add_argument("--skip", nargs="+", default=[], choices=STEPS, metavar="STEP", help=", ".join(STEPS))
    parser.add_argument("--install", action="store_true", help="put model and card into the product")
    parser.add_argument("--settings", type=Path, default=FOLDER / "settings.toml", metavar="FILE")
    parser.add_argument("--build", type=Path, default=BUILD, metavar="FOLDER", help="the folder for all new files")
    parser.add_argument("--more", type=Path, metavar="FILE", help="results measured elsewhere, for the card")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    workshop = Workshop(data_folder(), options.settings, options.build, tuple(options.table), options.more)
    build(workshop, options.skip)
    if options.install:
        install(workshop)


@dataclass(frozen=True, slots=True)
class Workshop:
    """The files and folders of one build."""

    data: Path
    settings_file: Path
    folder: Path
    given_tables: tuple[Path, ...] = ()
    """Tables that were trained elsewhere."""
    more: Path | None = None
    """Results measured elsewhere, for the card."""

    @property
    def settings(self) -> Settings:
        """The contents of the settings file."""
        return read_settings(self.settings_file)

    @property
    def vocabulary(self) -> Path:
        """The pieces and their scores."""
        return self.folder / "vocabulary.tsv"

    @property
    def pack(self) -> Path:
        """The pairs as ids of pieces."""
        return self.folder / "pack.npz"

    @property
    def start(self) -> Path:
        """The start vectors."""
        return self.folder / "start.npz"

    @property
    def teach(self) -> Path:
        """Sentences, and a large encoder's vectors of them."""
        return self.folder / "teach.npz"

    @property
    def tables(self) -> tuple[Path, ...]:
        """The trained tables, one for each seed."""
        own = (self.folder / "tables" / f"seed{seed}" for seed in self.settings.evaluation.seeds)
        return self.given_tables or tuple(own)

    @property
    def mean(self) -> Path:
        """The mean of the tables."""
        return self.folder / "tables" / MEAN

    @property
    def whitened(self) -> tuple[Path, ...]:
        """The tables and their mean after whitening; the last, the mean, becomes the model."""
        return tuple(self.folder / "whitened" / table.name for table in (*self.tables, self.mean))

    @property
    def model(self) -> Path:
        """The model as the product opens it."""
        return self.folder / "model"

    @property
    def results(self) -> Path:
        """The results of the evaluation."""
        return self.folder / "results.jsonl"

    @property
    def card(self) -> Path:
        """The model card."""
        return self.folder / "model-card.md"


def build(workshop: Workshop, skip: Sequence[str] = ()) -> None:
    """Run the steps that are not skipped, and write report.json."""
    skipped = {*skip, *(STEPS_BEFORE_TABLES if workshop.given_tables else ())}
    seconds = {}
    for name, step in STEPS.items():
        if name not in skipped:
            logger.info("== %s", name)
            start = time.monotonic()
            step(workshop)
            seconds[name] = round(time.monotonic() - start, 1)
    text = json.dumps(_report(workshop, seconds), indent=1, ensure_ascii=False)
    (workshop.folder / "report.json").write_text(text + "\n", "utf-8")


def install(workshop: Workshop, target: Path = BUNDLED, card_file: Path = card.OUT) -> None:
    """Replace the model and the card of the product."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(workshop.model, target)
    shutil.copyfile(workshop.card, card_file)
    logger.info("installed into %s and %s", target, card_file)


def _vocabulary(workshop: Workshop) -> None:
    write_vocabulary(build_vocabulary(workshop.data, workshop.settings), workshop.vocabulary)


def _prepare(workshop: Workshop) -> None:
    prepare(workshop.data, workshop.settings, read_vocabulary(workshop.vocabulary), workshop.pack)


def _start(workshop: Workshop) -> None:
    write_start(start_vectors(list(read_vocabulary(workshop.vocabulary)), workshop.settings.start), workshop.start)


def _teach(workshop: Workshop) -> None:
    teach(workshop.data, workshop.settings, read_vocabulary(workshop.vocabulary), workshop.teach)


def _train(workshop: Workshop) -> None:
    from model import train  # needs torch, which a build with given tables does not

    made = ["--pack", workshop.pack, "--start", workshop.start, "--teach", workshop.teach]
    files = [*made, "--settings", workshop.settings_file]
    for seed, table in zip(workshop.settings.evaluation.seeds, workshop.tables, strict=True):
        train.main([*map(str, files), "--out", str(table), "--seed", str(seed)])


def _mean(workshop: Workshop) -> None:
    write_mean(workshop.tables, workshop.mean)


def _whiten(workshop: Workshop) -> None:
    scores = read_vocabulary(workshop.vocabulary)
    for table, target in zip((*workshop.tables, workshop.mean), workshop.whitened, strict=True):
        whiten_table(table, workshop.data, workshop.settings, scores, target)


def _quantise(workshop: Workshop) -> None:
    scores = read_vocabulary(workshop.vocabulary)
    quantise.quantise(workshop.whitened[-1], scores, workshop.model, workshop.settings.name)
    write_translations(workshop.model)


def _evaluate(workshop: Workshop) -> None:
    """Measure every seed, their mean, the shipped model and the yardstick; not USE, which takes hours."""
    if not eval_folder().exists():
        logger.warning(
            "nothing is measured: there is no folder %s; set ANNAI_EVAL to the evaluation sets", eval_folder()
        )
        return
    scores = read_vocabulary(workshop.vocabulary)
    for table in workshop.whitened:
        evaluate_sets(table.name, trained_table(table, scores), workshop.folder)
    evaluate_sets(quantise.NAME, StaticEmbedder(quantise.BATCH_SIZE, workshop.model), workshop.folder)
    baseline = workshop.data / "baseline"
    if baseline.exists():
        evaluate_sets("yardstick", yardstick(baseline), workshop.folder)


def _card(workshop: Workshop) -> None:
    results = read_results(workshop.results) + (read_results(workshop.more) if workshop.more else [])
    seeds = [table.name for table in workshop.tables]
    text = card.write_card(workshop.settings, workshop.model, results, seeds)
    for file in (workshop.card, workshop.model / card.COPY):
        file.write_text(text, "utf-8")


STEPS: dict[str, Callable[[Workshop], None]] = {
    "vocabulary": _vocabulary,
    "prepare": _prepare,
    "start": _start,
    "teach": _teach,
    "train": _train,
    "mean": _mean,
    "whiten": _whiten,
    "quantise": _quantise,
    "evaluate": _evaluate,
    "card": _card,
}


def _report(workshop: Workshop, seconds: Mapping[str, float]) -> dict[str, object]:
    """All sources and artefacts with their SHA-256."""
    results = read_results(workshop.results)
    shipped, small = ([result for result in results if result.model == name] for name in (MEAN, quantise.NAME))
    sources = [file.path for file in pair_files(workshop.data, workshop.settings)]
    tables = [
        file for table in (*workshop.tables, workshop.mean, *workshop.whitened) for file in sorted(table.glob("*.*"))
    ]
    before = [workshop.vocabulary, workshop.pack, workshop.start, workshop.teach]
    made = [*before, *tables, *sorted(workshop.model.glob("*.*"))]
    return {
        "seconds": seconds,
        "shipped": str(workshop.whitened[-1]),
        "int8_loses": quantise.losses(shipped, small),
        "settings": _digests([workshop.settings_file]),
        "sources": _digests([*sources, *sorted(workshop.data.glob("words_*.tsv.gz"))]),
        "artefacts": _digests([*made, workshop.results, workshop.card]),
    }


def _digests(files: Sequence[Path]) -> dict[str, str]:
    return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in files if file.exists()}


if __name__ == "__main__":
    main()
