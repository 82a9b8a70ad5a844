"""How do the pieces learn what they mean? Contrastive training of one vector for each piece, on a GPU or a CPU.

    python3 model/train.py --pack model/build/pack.npz --start model/build/start.npz --teach model/build/teach.npz \
        --settings model/settings.toml --out DIR --seed 1 [--set batch=4096 steps=2000]

It needs only torch and numpy, since it is copied to the machine with the GPU. A piece's vector is
`start · map · weight + own`: the start vectors do not change, all pieces share one map, and each has its weight and its
own part. A step uses few of the pieces; only those are computed and updated. In some steps, some trainings learn which
sentences a large encoder finds similar. The table is the mean of several trainings from the same start, a soup: what
they agree on stays, what one of them learnt by chance fades.
"""

import argparse
import json
import math
import sys
import time
import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import reduce
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

SEED_STEP = 100
"""The trainings of a soup have seeds of their own: seed 1 uses 100, 101, 102 …, seed 2 uses 200, 201, 202 …"""
MAX_FILE_BYTES = 15 * 2**20
"""The size of files that come back from the GPU machine is limited."""


@dataclass(frozen=True, slots=True)
class Training:
    """The section [training] of settings.toml, where each value is explained."""

    steps: int
    batch: int
    scale: float
    rate: float
    weight_rate: float
    map_rate: float
    warm_up: int
    last_rate: float
    first_decay: float
    second_decay: float
    set_power: float
    smallest_set: int
    drop: float
    span_share: float
    shortest_span: int
    longest_span: int
    cross_share: float
    frequency: float
    dimensions: tuple[int, ...]
    dimension_weights: tuple[float, ...]
    teach_share: float
    teach_scale: float
    leave_start: float


def main(arguments: Sequence[str] | None = None) -> None:
    """Train one table, a soup of several trainings, and write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("pack", "start", "teach", "settings", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="overrides values of [training]")
    options = parser.parse_args(arguments)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    soup = read_soup(options.settings, device.type, options.set)
    rows = torch.zeros(())
    for number, settings in enumerate(soup):
        seed = options.seed * SEED_STEP + number
        rows = rows + train(options.pack, options.start, options.teach, settings, seed, device).cpu() / len(soup)
    report = {"seed": options.seed, "device": device.type, "soup": [asdict(settings) for settings in soup]}
    write_table(rows, options.out, report)


def read_soup(path: Path, device: str, changes: Sequence[str] = ()) -> list[Training]:
    """The settings of each training on a device ("cuda" or "cpu"), all with changes such as `steps=100`."""
    values = tomllib.loads(path.read_text("utf-8"))["training"]
    cpu, soup = values.pop("cpu", {}), values.pop("soup", [{}])
    values |= {key: tuple(values[key]) for key in ("dimensions", "dimension_weights")}
    changed: dict[str, int | float] = {}
    for change in changes:
        key, _, value = change.partition("=")
        if not isinstance(values.get(key), int | float):
            sys.exit(f"[training] has no number {key!r}; it has {', '.join(values)}.")
        changed[key] = type(values[key])(float(value))
    return [Training(**{**values, **differs, **(cpu if device == "cpu" else {}), **changed}) for differs in soup]


def train(pack: Path, start: Path, teach: Path, settings: Training, seed: int, device: torch.device) -> Tensor:
    """The table of one training: one row for each piece."""
    torch.manual_seed(seed)
    torch.set_float32_matmul_precision("high")
    texts, sets = read_pack(pack, settings.smallest_set, device)
    teacher = Teacher(teach, device) if settings.teach_share else None
    table = Table(start, pack, settings, device)
    untrained = table.all_rows(0)
    rng = np.random.default_rng(seed)
    odds = np.array([len(pairs) ** settings.set_power for pairs in sets])
    odds /= odds.sum()
    begin, total = time.monotonic(), 0.0
    for step in range(1, settings.steps + 1):
        if teacher and rng.random() < settings.teach_share:
            total += table.step(step, *teacher.draw(settings, rng))
        else:
            batch = draw(sets[rng.choice(len(sets), p=odds)], texts, settings, rng)
            total += table.step(step, batch, texts)
        if step % 100 == 0 or step == settings.steps:
            count = step % 100 or 100
            print(f"step {step} loss {total / count:.4f} after {time.monotonic() - begin:.0f} s", flush=True)
            total = 0.0
    return table.all_rows(settings.steps) - settings.leave_start * untrained


@dataclass(frozen=True, slots=True)
class Part:
    """Numbers of texts; if `first` and `most` are set, at most `most` pieces of each text from `first` on."""

    numbers: Tensor
    first: Tensor | None = None
    most: Tensor | None = None


Side = tuple[Part, ...]
"""One side of a batch: each text is the sum of its parts, a body and perhaps a heading."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """One set: numbers of texts that belong together. A side has the bodies, and for sections the headings too."""

    kind: str
    left: tuple[Tensor, ...]
    right: tuple[Tensor, ...]

    def __len__(self) -> int:
        return len(self.left[0])


class Texts:
    """Texts as lists of piece ids, end to end on the device."""

    def __init__(self, pieces: Tensor, lengths: Tensor) -> None:
        self.pieces = pieces
        self.lengths = lengths
        self.starts = torch.cumsum(lengths, 0) - lengths

    def take(self, part: Part) -> tuple[Tensor, Tensor]:
        """The pieces of the part's texts, end to end, and the start of each text."""
        starts, lengths = self.starts[part.numbers], self.lengths[part.numbers]
        if part.first is not None and part.most is not None:
            starts, lengths = starts + part.first, torch.minimum(lengths - part.first, part.most)
        offsets = torch.cumsum(lengths, 0) - lengths
        owner = torch.repeat_interleave(torch.arange(len(lengths), device=lengths.device), lengths)
        within = torch.arange(len(owner), device=owner.device) - offsets[owner]
        return self.pieces[starts[owner] + within].long(), offsets


def read_pack(path: Path, smallest: int, device: torch.device) -> tuple[Texts, list[Pairs]]:
    """Everything that `prepare.py` packed, except for sets that are too small for batches."""
    with np.load(path) as pack:

        def column(name: str) -> Tensor:
            return torch.from_numpy(pack[name].astype(np.int64)).to(device)

        texts = Texts(torch.from_numpy(pack["pieces"].astype(np.int32)).to(device), column("lengths"))
        sets = []
        for name, kind in zip(pack["names"].tolist(), pack["kinds"].tolist(), strict=True):
            endings = ("", "_heading") if kind == "section" else ("",)
            sides = [tuple(column(f"{name}.{side}{ending}") for ending in endings) for side in ("left", "right")]
            sets.append(Pairs(kind, *sides))
    sets = [pairs for pairs in sets if len(pairs) >= smallest]
    if not sets:
        sys.exit(f"No set of {path} has {smallest} pairs; lower smallest_set in [training].")
    return texts, sets


def draw(pairs: Pairs, texts: Texts, settings: Training, rng: np.random.Generator) -> tuple[Side, Side]:
    """One batch of a set, in one of the ways that its kind allows."""
    size = min(settings.batch, len(pairs))
    device = texts.pieces.device
    index = torch.from_numpy(rng.choice(len(pairs), size, replace=False)).to(device)
    left, right = (tuple(Part(column[index]) for column in side) for side in (pairs.left, pairs.right))
    if pairs.kind == "section":
        if rng.random() < 0.5:
            left, right = right, left
        if rng.random() < settings.cross_share:
            return left[1:], right[:1]
    if pairs.kind in ("section", "passage") and rng.random() < settings.span_share:
        # A few words of a passage are to find it: of sections in the other language, of passages in their own.
        source = (left if pairs.kind == "section" else right)[0].numbers
        most = torch.from_numpy(rng.integers(settings.shortest_span, settings.longest_span + 1, size)).to(device)
        room = (texts.lengths[source] - most).clamp(min=0)
        first = (torch.from_numpy(rng.random(size)).to(device) * (room + 1)).long()
        return (Part(source, first, most),), right
    return left, right


class Teacher:
    """Sentences, and how similar a large encoder finds them."""

    def __init__(self, path: Path, device: torch.device) -> None:
        with np.load(path) as sentences:
            pieces = torch.from_numpy(sentences["pieces"].astype(np.int32)).to(device)
            self.texts = Texts(pieces, torch.from_numpy(sentences["lengths"].astype(np.int64)).to(device))
            rows = sentences["rows"].astype(np.float32) * sentences["scales"][:, None]
        self.vectors = functional.normalize(torch.from_numpy(rows).to(device), dim=1)

    def draw(self, settings: Training, rng: np.random.Generator) -> tuple[tuple[Side, Side], Texts, Tensor]:
        """A batch of sentences, each on both sides, and how similar they are to each other."""
        size = min(settings.batch // 2, len(self.vectors))
        index = torch.from_numpy(rng.choice(len(self.vectors), size, replace=False)).to(self.vectors.device)
        side = (Part(index),)
        return (side, side), self.texts, settings.teach_scale * self.vectors[index] @ self.vectors[index].T


class Table:
    """The vectors during training."""

    def __init__(self, start: Path, pack: Path, settings: Training, device: torch.device) -> None:
        self.settings = settings
        with np.load(start) as vectors, np.load(pack) as counted:
            rows = vectors["rows"].astype(np.float32) * vectors["scales"].astype(np.float32)[:, None]
            share = counted["counts"] / counted["counts"].sum()
        weights = np.log(settings.frequency / (settings.frequency + share)).astype(np.float32)
        self.start = torch.from_numpy(rows).to(device)
        self.map = torch.nn.Parameter(torch.eye(rows.shape[1], device=device))
        decays = (settings.first_decay, settings.second_decay)
        self.own = RowAdam(torch.zeros_like(self.start), settings.rate, decays)
        self.weights = RowAdam(torch.from_numpy(weights).to(device)[:, None], settings.weight_rate, decays)
        self.optimiser = torch.optim.Adam([self.map], settings.map_rate, decays)

    def step(self, step: int, batch: tuple[Side, Side], texts: Texts, similarities: Tensor | None = None) -> float:
        """Learn from one batch of pairs or, with `similarities`, of sentences; returns the loss."""
        rate = _rate(step, self.settings)
        left, right = batch
        taken = [texts.take(part) for part in (*left, *right)]
        used, indexes = torch.unique(torch.cat([pieces for pieces, _ in taken]), return_inverse=True)
        own = self.own.catch_up(used, step, rate).requires_grad_()
        weights = self.weights.catch_up(used, step, rate).requires_grad_()
        rows = (self.start[used] @ self.map) * weights.exp() + own
        bags = [
            self._sums(rows, index, offsets)
            for index, (_, offsets) in zip(indexes.split([len(pieces) for pieces, _ in taken]), taken, strict=True)
        ]
        sides = reduce(torch.add, bags[: len(left)]), reduce(torch.add, bags[len(left) :])
        if similarities is None:
            loss = contrastive_loss(*sides, _equal(left) | _equal(right), self.settings)
        else:
            loss = similarity_loss(*sides, similarities, self.settings)
        own_gradient, weight_gradient, self.map.grad = torch.autograd.grad(loss, (own, weights, self.map))
        for group in self.optimiser.param_groups:
            group["lr"] = self.settings.map_rate * rate
        self.optimiser.step()
        self.own.update(used, own_gradient, step, rate)
        self.weights.update(used, weight_gradient, step, rate)
        return float(loss.detach())

    def all_rows(self, step: int) -> Tensor:
        """The table with every piece brought up to the last step."""
        every, rate = torch.arange(len(self.start), device=self.start.device), _rate(step, self.settings)
        own, weights = (part.catch_up(every, step + 1, rate) for part in (self.own, self.weights))
        with torch.no_grad():
            return (self.start @ self.map) * weights.exp() + own

    def _sums(self, rows: Tensor, indexes: Tensor, offsets: Tensor) -> Tensor:
        """Each text's sum of rows, without those that dropout removes."""
        kept = (torch.rand(len(indexes), device=indexes.device) >= self.settings.drop).float()
        return functional.embedding_bag(indexes, rows, offsets, mode="sum", per_sample_weights=kept)


class RowAdam:
    """Adam for a matrix of which a step uses few rows.

    Plain Adam keeps moving a row by its momentum after its last gradient. Those moves are a geometric series, so they
    are made at once when the row is next used: training only the used rows comes close to training all.
    """

    EPSILON = 1e-8

    def __init__(self, values: Tensor, rate: float, decays: tuple[float, float]) -> None:
        self.values = values
        self.rate = rate
        self.decays = decays
        self.first = torch.zeros_like(values)
        self.second = torch.zeros_like(values)
        self.updated = torch.zeros(len(values), dtype=torch.int64, device=values.device)

    def catch_up(self, rows: Tensor, step: int, rate: float) -> Tensor:
        """A copy of the rows with all moves before `step`."""
        first, second = self.decays
        idle = (step - 1 - self.updated[rows])[:, None].float()
        ratio = first / math.sqrt(second)
        moves = ratio * (1 - ratio**idle) / (1 - ratio)
        momentum, spread = self.first[rows], self.second[rows]
        values = self.values[rows] - self._move(momentum, spread, step, rate) * moves
        self.values[rows] = values
        self.first[rows] = momentum * first**idle
        self.second[rows] = spread * second**idle
        self.updated[rows] = step - 1
        return values.detach().clone()

    def update(self, rows: Tensor, gradient: Tensor, step: int, rate: float) -> None:
        """Make one step of Adam on rows that `catch_up` returned."""
        first, second = self.decays
        momentum = self.first[rows] * first + gradient * (1 - first)
        spread = self.second[rows] * second + gradient.square() * (1 - second)
        self.values[rows] -= self._move(momentum, spread, step, rate)
        self.first[rows], self.second[rows], self.updated[rows] = momentum, spread, step

    def _move(self, momentum: Tensor, spread: Tensor, step: int, rate: float) -> Tensor:
        first, second = self.decays
        correction = math.sqrt(1 - second**step) / (1 - first**step)
        return self.rate * rate * correction * momentum / (spread.sqrt() + self.EPSILON)


def contrastive_loss(left: Tensor, right: Tensor, equal: Tensor, settings: Training) -> Tensor:
    """Symmetric InfoNCE at every dimension to which a vector may be truncated; equal texts are no negatives."""
    equal.fill_diagonal_(False)
    targets = torch.arange(len(left), device=left.device)
    loss = torch.zeros((), device=left.device)
    for dimension, weight in zip(settings.dimensions, settings.dimension_weights, strict=True):
        one, other = (functional.normalize(side[:, :dimension], dim=1, eps=1e-6) for side in (left, right))
        scores = (settings.scale * one @ other.T).masked_fill(equal, -1e4)
        both = functional.cross_entropy(scores, targets) + functional.cross_entropy(scores.T, targets)
        loss = loss + weight * both / 2
    return loss


def similarity_loss(left: Tensor, right: Tensor, similarities: Tensor, settings: Training) -> Tensor:
    """How far each sentence's similarities to the others are from the wanted ones, as cross entropy."""
    itself = torch.eye(len(similarities), dtype=torch.bool, device=similarities.device)
    wanted = similarities.masked_fill(itself, -1e4).softmax(1)
    one, other = (functional.normalize(side, dim=1, eps=1e-6) for side in (left, right))
    scores = (settings.scale * one @ other.T).masked_fill(itself, -1e4)
    return (functional.cross_entropy(scores, wanted) + functional.cross_entropy(scores.T, wanted)) / 2


def write_table(rows: Tensor, folder: Path, report: dict[str, object]) -> None:
    """Write the table as float16, in files of limited size: rows-0.npy, rows-1.npy …, and table.json."""
    table = rows.half().cpu().numpy()
    if not np.isfinite(table).all():
        sys.exit("The training diverged: the table has numbers that are not finite. Lower the rates.")
    folder.mkdir(parents=True, exist_ok=True)
    parts = np.array_split(table, math.ceil(table.nbytes / MAX_FILE_BYTES))
    for number, part in enumerate(parts):
        np.save(folder / f"rows-{number}.npy", part)
    text = json.dumps({**report, "files": len(parts), "rows": len(table)}, indent=1)
    (folder / "table.json").write_text(text + "\n", "utf-8")


def _equal(side: Side) -> Tensor:
    """Which texts of a side are equal; spans of one text count as equal."""
    return reduce(torch.logical_and, [part.numbers[:, None] == part.numbers[None] for part in side])


def _rate(step: int, settings: Training) -> float:
    """The share of the full rates at a step: a linear warm-up, then a cosine decay."""
    fall = 0.5 * (1 + math.cos(math.pi * (step - 1) / settings.steps))
    return min(1.0, step / settings.warm_up) * (settings.last_rate + (1 - settings.last_rate) * fall)


if __name__ == "__main__":
    main()
