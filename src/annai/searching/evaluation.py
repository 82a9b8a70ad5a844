"""How good are the answers? Questions whose documents are known, asked one by one, and what came at which rank."""

import json
import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from time import perf_counter

from annai.errors import QueryError
from annai.types import Answer, Mode, Query

RESULTS = 100
"""Sections asked for, so that ten documents are among them: a document's rank is that of its best section."""

DEPTH, RECALL_DEPTH = 10, 5
"""How many documents nDCG and MRR look at, and how many Recall does."""

WORST = 10
"""How many of the worst questions are told."""

Judgements = Mapping[str, Mapping[str, int]]
"""Question → document → how relevant it is; 0 is not at all."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question to be measured with."""

    id: str
    text: str
    type: str = ""


@dataclass(frozen=True, slots=True)
class QuestionResult:
    """What came of one question."""

    question: Question
    documents: tuple[str, ...]
    """The paths that were found, best first."""
    wanted: tuple[str, ...]
    ndcg: float
    recall: float
    mrr: float
    milliseconds: float

    @property
    def rank(self) -> int | None:
        """At which rank the first wanted document stands, if it was found at all."""
        wanted = set(self.wanted)
        return next((rank for rank, path in enumerate(self.documents, 1) if document_id(path) in wanted), None)


@dataclass(frozen=True, slots=True)
class Measures:
    """The means over the questions of one type; `all` for every question."""

    type: str
    queries: int
    ndcg: float
    recall: float
    mrr: float


@dataclass(frozen=True, slots=True)
class Evaluation:
    """How a project answers a set of questions."""

    outcomes: tuple[QuestionResult, ...]

    @property
    def measures(self) -> list[Measures]:
        """All questions first, then by type."""
        groups: dict[str, list[QuestionResult]] = defaultdict(list)
        for outcome in self.outcomes:
            groups[outcome.question.type].append(outcome)
        rows = [_means("all", self.outcomes)]
        return rows + [_means(name, groups[name]) for name in sorted(groups) if len(groups) > 1 or name]

    @property
    def milliseconds(self) -> tuple[float, float]:
        """The median time of a question, and what 95 of 100 stay under."""
        times = sorted(outcome.milliseconds for outcome in self.outcomes)
        return statistics.median(times), times[min(math.ceil(len(times) * 0.95), len(times)) - 1]

    @property
    def worst(self) -> list[QuestionResult]:
        """The questions that were answered worst, the worst first."""
        poor = (outcome for outcome in self.outcomes if outcome.ndcg < 1)
        return sorted(poor, key=lambda outcome: (outcome.ndcg, outcome.question.id))[:WORST]


def read_questions(file: Path) -> list[Question]:
    """Questions from a file of JSON lines, each with `id` and `text`, and a `type` if it has one."""
    questions: dict[str, Question] = {}
    for number, line in _lines(file):
        try:
            values = json.loads(line)
            question = Question(values["id"], values["text"], values.get("type", ""))
            if not all(isinstance(each, str) for each in (question.id, question.text, question.type)):
                raise ValueError
        except (ValueError, KeyError, TypeError, AttributeError):
            raise QueryError(
                f'{file}, line {number}: a question is one JSON object, {{"id": "1", "text": "…", "type": "…"}} '
                "with strings (type may be missing); correct it."
            ) from None
        if question.id in questions or not question.text.strip():
            problem = "its text is empty" if question.id not in questions else f"the id {question.id!r} comes twice"
            raise QueryError(f"{file}, line {number}: {problem}; correct it.")
        questions[question.id] = question
    if not questions:
        raise QueryError(f"{file} holds no questions; write one JSON object a line.")
    return [*questions.values()]


def read_judgements(file: Path) -> dict[str, dict[str, int]]:
    """Which documents answer which question: lines of question id, path and relevance, separated by tabs."""
    judged: dict[str, dict[str, int]] = defaultdict(dict)
    for number, line in _lines(file):
        try:
            question, path, relevance = line.split("\t")
            judged[question][document_id(path)] = int(relevance)
        except ValueError:
            raise QueryError(
                f"{file}, line {number}: a judgement is a question's id, a path and a whole number, separated by "
                "tabs; correct it."
            ) from None
    return dict(judged)


def evaluate(
    search: Callable[[Query], Answer], questions: Sequence[Question], judgements: Judgements, mode: Mode
) -> Evaluation:
    """Ask every question and measure the answers; a question that no judgement names has no right answer."""
    if not any(question.id in judgements for question in questions):
        raise QueryError("No question is named in the judgements; the ids of both files must be the same.")
    return Evaluation(tuple(_asked(search, question, judgements.get(question.id, {}), mode) for question in questions))


def write_run(evaluation: Evaluation, file: Path) -> None:
    """Write what was found: for each question one JSON object with its `id` and `docs`, paths best first."""
    rows = ({"id": outcome.question.id, "docs": outcome.documents} for outcome in evaluation.outcomes)
    try:
        file.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    except OSError as error:
        raise QueryError(f"{file} cannot be written ({error.strerror}); name another file with --run.") from error


def document_id(path: str) -> str:
    """A document's path in one form: judgements may leave out `.md`, or write `./a.md` and `a//b.md`."""
    return PurePosixPath(path).as_posix().removesuffix(".md")


def _asked(
    search: Callable[[Query], Answer], question: Question, relevant: Mapping[str, int], mode: Mode
) -> QuestionResult:
    start = perf_counter()
    answer = search(Query(question.text, limit=RESULTS, mode=mode, content="none"))
    milliseconds = (perf_counter() - start) * 1000
    documents = tuple(dict.fromkeys(hit.path for hit in answer.results))
    wanted = tuple(path for path, relevance in relevant.items() if relevance > 0)
    ranks = [rank for rank, path in enumerate(map(document_id, documents[:DEPTH]), 1) if path in wanted]
    ideal = sum(_gain(rank) for rank in range(1, min(DEPTH, len(wanted)) + 1))
    return QuestionResult(
        question=question,
        documents=documents,
        wanted=wanted,
        ndcg=sum(map(_gain, ranks)) / ideal if ideal else 0.0,
        recall=sum(rank <= RECALL_DEPTH for rank in ranks) / len(wanted) if wanted else 0.0,
        mrr=1 / ranks[0] if ranks else 0.0,
        milliseconds=milliseconds,
    )


def _gain(rank: int) -> float:
    return 1 / math.log2(rank + 1)


def _means(name: str, outcomes: Sequence[QuestionResult]) -> Measures:
    columns = ([getattr(each, column) for each in outcomes] for column in ("ndcg", "recall", "mrr"))
    return Measures(name, len(outcomes), *(round(statistics.fmean(column), 4) for column in columns))


def _lines(file: Path) -> Iterable[tuple[int, str]]:
    """The lines of a file that say something, with their numbers."""
    try:
        text = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise QueryError(f"{file} cannot be read ({error.strerror}); name a file that is there.") from error
    except UnicodeDecodeError as error:
        raise QueryError(f"{file} is not UTF-8 text; save it as such.") from error
    return [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
