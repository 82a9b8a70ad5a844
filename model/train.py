"""How do the pieces learn what they mean? Contrastive training of one vector a piece, on a GPU or on a CPU.

    python3 model/train.py --pack model/build/pack.npz --start model/build/start.npz --teach model/build/teach.npz \
        --settings model/settings.toml --out DIR --seed 1 [--set batch=4096 steps=2000]

It stands alone, with torch and numpy, since it is sent to the machine that has the GPU. A piece's vector is
`start · map · weight + own`: the start vectors stay, one map is shared by all, weight and own part are each piece's.
A step touches few of the pieces; only those are computed and updated. Some trainings learn from time to time which
sentences a large encoder takes for alike. The table is the mean of several trainings from the same start, a soup: what
they agree on stays, what chance taught one of them fades.
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

SEEDS_OF_A_SOUP = 100
"""Apart from each other: seed 1 trains with 100, 101, 102 …, seed 2 with 200, 201, 202 …"""
LARGEST_FILE = 15 * 2**20
"""Bytes; files that come back from the GPU machine are limited."""


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
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="other values than [training] has")
    options = parser.parse_args(arguments)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    soup = read_soup(options.settings, device.type, options.set)
    rows = torch.zeros(())
    for number, settings in enumerate(soup):
        seed = options.seed * SEEDS_OF_A_SOUP + number
        rows = rows + train(options.pack, options.start, options.teach, settings, seed, device).cpu() / len(soup)
    report = {"seed": options.seed, "device": device.type, "soup": [asdict(settings) for settings in soup]}
    write_table(rows, options.out, report)


def read_soup(path: Path, device: str, changes: Sequence[str] = ()) -> list[Training]:
    """The settings of each training for a device ("cuda" or "cpu"), with changes like `steps=100` to all of them."""
    values = tomllib.loads(path.read_text("utf-8"))["training"]
    cpu, soup = values.pop("cpu", {}), values.pop("soup", [{}])
    values |= {key: tuple(values[key]) for key in ("dimensions", "dimension_weights")}
    given: dict[str, int | float] = {}
    for change in changes:
        key, _, value = change.partition("=")
        if not isinstance(values.get(key), int | float):
            sys.exit(f"[training] has no number {key!r}; it has {', '.join(values)}.")
        given[key] = type(values[key])(float(value))
    return [Training(**{**values, **differs, **(cpu if device == "cpu" else {}), **given}) for differs in soup]


def train(pack: Path, start: Path, teach: Path, settings: Training, seed: int, device: torch.device) -> Tensor:
    """The table of one training: one row a piece."""
    torch.manual_seed(seed)
    torch.set_float32_matmul_precision("high")
    texts, sets = read_pack(pack, settings.smallest_set, device)
    teacher = Teacher(teach, device) if settings.teach_share else None
    table = Table(start, pack, settings, device)
    untrained = table.all_rows(0)
    chance = np.random.default_rng(seed)
    odds = np.array([len(pairs) ** settings.set_power for pairs in sets])
    odds /= odds.sum()
    begin, total = time.monotonic(), 0.0
    for step in range(1, settings.steps + 1):
        if teacher and chance.random() < settings.teach_share:
            total += table.step(step, *teacher.draw(settings, chance))
        else:
            batch = draw(sets[chance.choice(len(sets), p=odds)], texts, settings, chance)
            total += table.step(step, batch, texts)
        if step % 100 == 0 or step == settings.steps:
            count = step % 100 or 100
            print(f"step {step} loss {total / count:.4f} after {time.monotonic() - begin:.0f} s", flush=True)
            total = 0.0
    return table.all_rows(settings.steps) - settings.leave_start * untrained


@dataclass(frozen=True, slots=True)
class Part:
    """Numbers of texts; where it is cut, of each text at most `most` pieces from `first` on."""

    numbers: Tensor
    first: Tensor | None = None
    most: Tensor | None = None


Side = tuple[Part, ...]
"""One side of a batch: each of its texts is the sum of its parts, a body and perhaps a heading."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """One set: numbers of texts that belong together. A side is the bodies, and of sections the headings too."""

    kind: str
    left: tuple[Tensor, ...]
    right: tuple[Tensor, ...]

    def __len__(self) -> int:
        return len(self.left[0])


class Texts:
    """Texts as lists of piece numbers, end to end on the device."""

    def __init__(self, pieces: Tensor, lengths: Tensor) -> None:
        self.pieces = pieces
        self.lengths = lengths
        self.starts = torch.cumsum(lengths, 0) - lengths

    def take(self, part: Part) -> tuple[Tensor, Tensor]:
        """Pieces of the part's texts, end to end, and where each text starts."""
        starts, lengths = self.starts[part.numbers], self.lengths[part.numbers]
        if part.first is not None and part.most is not None:
            starts, lengths = starts + part.first, torch.minimum(lengths - part.first, part.most)
        offsets = torch.cumsum(lengths, 0) - lengths
        owner = torch.repeat_interleave(torch.arange(len(lengths), device=lengths.device), lengths)
        within = torch.arange(len(owner), device=owner.device) - offsets[owner]
        return self.pieces[starts[owner] + within].long(), offsets


def read_pack(path: Path, smallest: int, device: torch.device) -> tuple[Texts, list[Pairs]]:
    """Everything `prepare.py` packed, but for sets too small to draw batches from."""
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


def draw(pairs: Pairs, texts: Texts, settings: Training, chance: np.random.Generator) -> tuple[Side, Side]:
    """One batch of a set, in one of the ways its kind allows."""
    size = min(settings.batch, len(pairs))
    device = texts.pieces.device
    index = torch.from_numpy(chance.choice(len(pairs), size, replace=False)).to(device)
    left, right = (tuple(Part(column[index]) for column in side) for side in (pairs.left, pairs.right))
    if pairs.kind == "section":
        if chance.random() < 0.5:
            left, right = right, left
        if chance.random() < settings.cross_share:
            return left[1:], right[:1]
    if pairs.kind in ("section", "passage") and chance.random() < settings.span_share:
        # A few words of a passage are to find it: of sections in the other language, of passages in their own.
        source = (left if pairs.kind == "section" else right)[0].numbers
        most = torch.from_numpy(chance.integers(settings.shortest_span, settings.longest_span + 1, size)).to(device)
        room = (texts.lengths[source] - most).clamp(min=0)
        first = (torch.from_numpy(chance.random(size)).to(device) * (room + 1)).long()
        return (Part(source, first, most),), right
    return left, right


class Teacher:
    """Sentences, and which of them a large encoder takes for alike."""

    def __init__(self, path: Path, device: torch.device) -> None:
        with np.load(path) as sentences:
            pieces = torch.from_numpy(sentences["pieces"].astype(np.int32)).to(device)
            self.texts = Texts(pieces, torch.from_numpy(sentences["lengths"].astype(np.int64)).to(device))
            rows = sentences["rows"].astype(np.float32) * sentences["scales"][:, None]
        self.vectors = functional.normalize(torch.from_numpy(rows).to(device), dim=1)

    def draw(self, settings: Training, chance: np.random.Generator) -> tuple[tuple[Side, Side], Texts, Tensor]:
        """A batch of sentences, each on both sides, and how near they are to each other."""
        size = min(settings.batch // 2, len(self.vectors))
        index = torch.from_numpy(chance.choice(len(self.vectors), size, replace=False)).to(self.vectors.device)
        side = (Part(index),)
        return (side, side), self.texts, settings.teach_scale * self.vectors[index] @ self.vectors[index].T


class Table:
    """The vectors while they are trained."""

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

    def step(self, step: int, batch: tuple[Side, Side], texts: Texts, near: Tensor | None = None) -> float:
        """Learn from one batch, pairs or, with `near`, sentences to put as near to each other; returns its loss."""
        rate = _rate(step, self.settings)
        left, right = batch
        taken = [texts.take(part) for part in (*left, *right)]
        used, places = torch.unique(torch.cat([pieces for pieces, _ in taken]), return_inverse=True)
        own = self.own.fresh(used, step, rate).requires_grad_()
        weights = self.weights.fresh(used, step, rate).requires_grad_()
        rows = (self.start[used] @ self.map) * weights.exp() + own
        bags = [
            self._sums(rows, place, offsets)
            for place, (_, offsets) in zip(places.split([len(pieces) for pieces, _ in taken]), taken, strict=True)
        ]
        sides = reduce(torch.add, bags[: len(left)]), reduce(torch.add, bags[len(left) :])
        if near is None:
            loss = contrast(*sides, _equal(left) | _equal(right), self.settings)
        else:
            loss = likeness(*sides, near, self.settings)
        own_gradient, weight_gradient, self.map.grad = torch.autograd.grad(loss, (own, weights, self.map))
        for group in self.optimiser.param_groups:
            group["lr"] = self.settings.map_rate * rate
        self.optimiser.step()
        self.own.update(used, own_gradient, step, rate)
        self.weights.update(used, weight_gradient, step, rate)
        return float(loss.detach())

    def all_rows(self, step: int) -> Tensor:
        """The table, every piece brought up to the last step."""
        every, rate = torch.arange(len(self.start), device=self.start.device), _rate(step, self.settings)
        own, weights = (part.fresh(every, step + 1, rate) for part in (self.own, self.weights))
        with torch.no_grad():
            return (self.start @ self.map) * weights.exp() + own

    def _sums(self, rows: Tensor, places: Tensor, offsets: Tensor) -> Tensor:
        """Each text's sum of rows, of which some are left out by chance."""
        kept = (torch.rand(len(places), device=places.device) >= self.settings.drop).float()
        return functional.embedding_bag(places, rows, offsets, mode="sum", per_sample_weights=kept)


class RowAdam:
    """Adam for a matrix of which a step touches few rows.

    Plain Adam moves a row for some steps after its last gradient, by its momentum. Those moves are a geometric series,
    so they are made in one go when the row is next used: training touched rows alone comes close to training all.
    """

    EPSILON = 1e-8

    def __init__(self, values: Tensor, rate: float, decays: tuple[float, float]) -> None:
        self.values = values
        self.rate = rate
        self.decays = decays
        self.first = torch.zeros_like(values)
        self.second = torch.zeros_like(values)
        self.updated = torch.zeros(len(values), dtype=torch.int64, device=values.device)

    def fresh(self, rows: Tensor, step: int, rate: float) -> Tensor:
        """A copy of the rows as they stand before `step`."""
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
        """Make one step of Adam on rows that `fresh` gave."""
        first, second = self.decays
        momentum = self.first[rows] * first + gradient * (1 - first)
        spread = self.second[rows] * second + gradient.square() * (1 - second)
        self.values[rows] -= self._move(momentum, spread, step, rate)
        self.first[rows], self.second[rows], self.updated[rows] = momentum, spread, step

    def _move(self, momentum: Tensor, spread: Tensor, step: int, rate: float) -> Tensor:
        first, second = self.decays
        correction = math.sqrt(1 - second**step) / (1 - first**step)
        return self.rate * rate * correction * momentum / (spread.sqrt() + self.EPSILON)


def contrast(left: Tensor, right: Tensor, equal: Tensor, settings: Training) -> Tensor:
    """Symmetric InfoNCE, at every dimension that a vector may be cut to; equal texts are no negatives."""
    equal.fill_diagonal_(False)
    wanted = torch.arange(len(left), device=left.device)
    loss = torch.zeros((), device=left.device)
    for dimension, weight in zip(settings.dimensions, settings.dimension_weights, strict=True):
        near, far = (functional.normalize(side[:, :dimension], dim=1, eps=1e-6) for side in (left, right))
        scores = (settings.scale * near @ far.T).masked_fill(equal, -1e4)
        both = functional.cross_entropy(scores, wanted) + functional.cross_entropy(scores.T, wanted)
        loss = loss + weight * both / 2
    return loss


def likeness(left: Tensor, right: Tensor, near: Tensor, settings: Training) -> Tensor:
    """How far the likenesses of each sentence to the others are from the wanted ones, as cross entropy."""
    itself = torch.eye(len(near), dtype=torch.bool, device=near.device)
    wanted = near.masked_fill(itself, -1e4).softmax(1)
    one, other = (functional.normalize(side, dim=1, eps=1e-6) for side in (left, right))
    scores = (settings.scale * one @ other.T).masked_fill(itself, -1e4)
    return (functional.cross_entropy(scores, wanted) + functional.cross_entropy(scores.T, wanted)) / 2


def write_table(rows: Tensor, folder: Path, report: dict[str, object]) -> None:
    """Write the table as float16, in files small enough to travel: rows-0.npy, rows-1.npy …, and table.json."""
    table = rows.half().cpu().numpy()
    if not np.isfinite(table).all():
        sys.exit("The training diverged: the table holds numbers that are not finite. Lower the rates.")
    folder.mkdir(parents=True, exist_ok=True)
    parts = np.array_split(table, math.ceil(table.nbytes / LARGEST_FILE))
    for number, part in enumerate(parts):
        np.save(folder / f"rows-{number}.npy", part)
    text = json.dumps({**report, "files": len(parts), "rows": len(table)}, indent=1)
    (folder / "table.json").write_text(text + "\n", "utf-8")


def _equal(side: Side) -> Tensor:
    """Which texts of a side are the same; spans of the same text count as the same."""
    return reduce(torch.logical_and, [part.numbers[:, None] == part.numbers[None] for part in side])


def _rate(step: int, settings: Training) -> float:
    """The share of the full rates at a step: a straight way up, a cosine down."""
    fall = 0.5 * (1 + math.cos(math.pi * (step - 1) / settings.steps))
    return min(1.0, step / settings.warm_up) * (settings.last_rate + (1 - settings.last_rate) * fall)


if __name__ == "__main__":
    main()
