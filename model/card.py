"""What should you know about the model before you use it? Its card, from a template, the settings and the results.

    python -m model.card [--model FOLDER] [--seeds NAME …] [--more FILE] [--out docs/model-card.md] [--copy]

`--more` is a file of results measured elsewhere, in the form of build/results.jsonl: the models "bm25" and "fused".
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from string import Template

from annai.embedders.static_model import open_model
from annai.searching.ranking import DOCUMENT_WEIGHT
from model.evaluate import Result, read_results
from model.quantise import NAME as QUANTISED
from model.quantise import losses
from model.settings import BUILD, FOLDER, Settings, Source, read_settings
from model.tables import MEAN

OUT = FOLDER.parent / "docs" / "model-card.md"
COPY = "CARD.md"
"""The name of the card beside the model."""
TRIED = FOLDER / "TRIED.md"
MEASURES = {"ndcg": "nDCG@10", "recall": "Recall@5", "mrr": "MRR@10"}
OTHERS = {QUANTISED: "shipped", "yardstick": "yardstick", "use": "USE", "bm25": "BM25", "fused": "annai"}
"""The other columns of the tables: name among the results → heading."""
MISSING = "–"

Figures = Mapping[tuple[str, str], Result]


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the card."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    settings = read_settings()
    seeds = [f"seed{seed}" for seed in settings.evaluation.seeds]
    parser.add_argument("--model", type=Path, default=BUILD / "model", metavar="FOLDER", help="the model's folder")
    parser.add_argument("--results", type=Path, default=BUILD / "results.jsonl", metavar="FILE")
    parser.add_argument(
        "--seeds", nargs="+", default=seeds, metavar="NAME", help="names of the seeds among the results"
    )
    parser.add_argument("--more", type=Path, metavar="FILE", help="results measured elsewhere")
    parser.add_argument("--out", type=Path, default=OUT, metavar="FILE")
    parser.add_argument("--copy", action="store_true", help=f"copy it into the model's folder as {COPY}")
    options = parser.parse_args(arguments)
    results = read_results(options.results) + (read_results(options.more) if options.more else [])
    card = write_card(settings, options.model, results, options.seeds)
    options.out.write_text(card, "utf-8")
    if options.copy:
        (options.model / COPY).write_text(card, "utf-8")


def write_card(
    settings: Settings, folder: Path, results: Sequence[Result], seeds: Sequence[str], tried: Path = TRIED
) -> str:
    """The card of the model in a folder; `seeds` are the names of its tables among the results."""
    model = open_model(folder)
    size = sum(file.stat().st_size for file in folder.iterdir() if file.name != COPY) / 1e6
    found = {(result.model, result.corpus): result for result in results if result.type == "all"}
    measured = [seed for seed in seeds if any(name == seed for name, _ in found)]
    values = {
        "name": model.name,
        "pieces": f"{len(model.scales):,}",
        "dimensions": str(model.dimension),
        "size": f"{size:.1f}",
        "sources": _sources(settings),
        "whole": str(DOCUMENT_WEIGHT),
        "seeds": f"the mean of {len(measured)} seeds ± the largest distance from it" if measured[1:] else "one seed",
        "figures": "\n\n".join(_table(measure, found, measured) for measure in MEASURES),
        "quantised": _quantised(found),
        "tried": f"## What was tried\n\n{tried.read_text('utf-8').strip()}\n\n" if tried.exists() else "",
    }
    return Template((FOLDER / "card.md").read_text("utf-8")).substitute(values)


def _sources(settings: Settings) -> str:
    """Each source once, with the addresses and files of all its entries."""
    entries: dict[tuple[str, str, str], list[Source]] = {}
    for source in settings.sources:
        entries.setdefault((source.name, source.licence, source.attribution), []).append(source)
    rows = ["| source | licence | attribution | files of pairs |", "|---|---|---|---|"]
    for (name, licence, attribution), sources in entries.items():
        addresses = ", ".join(dict.fromkeys(f"<{source.address}>" for source in sources))
        files = ", ".join(f"`{file}`" for source in sources for file in source.files)
        rows.append(f"| {name}: {addresses} | {licence} | {attribution} | {files} |")
    return "\n".join(rows)


def _table(measure: str, found: Figures, seeds: Sequence[str]) -> str:
    """One measure: a row for each set, a column for each model."""
    others = [name for name in OTHERS if any(model == name for model, _ in found)]
    columns = [MEASURES[measure], "queries", "seeds", *(OTHERS[name] for name in others)]
    rows = [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
    for corpus in sorted({corpus for _, corpus in found}):
        queries = next(result.queries for (_, each), result in found.items() if each == corpus)
        cells = [
            _cell([getattr(found[name, corpus], measure) for name in names if (name, corpus) in found])
            for names in (seeds, *([other] for other in others))
        ]
        rows.append(f"| {corpus} | {queries:,} | {' | '.join(cells)} |")
    return "\n".join(rows)


def _cell(values: Sequence[float]) -> str:
    """A mean such as .684, with the largest distance from it if there are several values."""
    if not values:
        return MISSING
    middle = mean(values)
    spread = f" ± {_short(max(abs(value - middle) for value in values))}" if len(values) > 1 else ""
    return _short(middle) + spread


def _short(value: float) -> str:
    return f"{value:.3f}".removeprefix("0")


def _quantised(found: Figures) -> str:
    """How much int8 loses, as a sentence."""
    lost = losses(*([result for (name, _), result in found.items() if name == each] for each in (MEAN, QUANTISED)))
    if not lost:
        return ""
    worst = max(lost, key=lost.__getitem__)
    return f"The shipped int8 rows lose at most {lost[worst]:+.4f} nDCG@10 against the floats they come from ({worst})."


if __name__ == "__main__":
    main()
