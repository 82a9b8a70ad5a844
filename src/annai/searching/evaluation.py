"""How good are the answers? Questions whose right documents are known, and at which rank a search returns them."""

import json
import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from time import perf_counter

from annai.answers import Answer, Mode, Query
from annai.definitions import dataclass
from annai.errors import QueryError
from annai.text.nesting import parse_json

RANK_CUTOFF, RECALL_CUTOFF = 10, 5
"""How many documents nDCG and MRR count, and how many Recall counts."""

MAX_WORST_QUESTIONS = 10
"""How many of the worst questions are reported."""

Judgements = Mapping[str, Mapping[str, int]]
"""Question id → document → how relevant it is; 0 is not at all."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question to measure with."""

    id: str
    text: str
    type: str = ""


@dataclass(frozen=True, slots=True)
class QuestionResult:
    """How well one question was answered."""

    question: Question
    documents: tuple[str, ...]
    """The paths that were found, best first."""
    wanted: tuple[str, ...]
    """The documents that are relevant."""
    ndcg: float
    recall: float
    mrr: float
    milliseconds: float

    @property
    def rank(self) -> int | None:
        """The rank of the first relevant document; None if none was found."""
        wanted = set(self.wanted)
        return next((rank for rank, path in enumerate(self.documents, 1) if normalize_path(path) in wanted), None)


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
    """How well a project answers a set of questions."""

    results: tuple[QuestionResult, ...]

    @property
    def measures(self) -> list[Measures]:
        """All questions first, then by type."""
        groups: dict[str, list[QuestionResult]] = defaultdict(list)
        for result in self.results:
            groups[result.question.type].append(result)
        rows = [_means("all", self.results)]
        return rows + [_means(name, groups[name]) for name in sorted(groups) if len(groups) > 1 or name]

    @property
    def milliseconds(self) -> tuple[float, float]:
        """The median time of a question, and the 95th percentile."""
        times = sorted(result.milliseconds for result in self.results)
        return statistics.median(times), times[min(math.ceil(len(times) * 0.95), len(times)) - 1]

    @property
    def worst(self) -> list[QuestionResult]:
        """The questions with the worst answers, the worst first."""
        imperfect = (result for result in self.results if result.ndcg < 1)
        return sorted(imperfect, key=lambda result: (result.ndcg, result.question.id))[:MAX_WORST_QUESTIONS]


def read_questions(file: Path) -> list[Question]:
    """Read questions from a file of JSON lines, each with `id`, `text` and optionally `type`."""
    questions: dict[str, Question] = {}
    for number, line in _lines(file):
        try:
            values = parse_json(line)
            question = Question(values["id"], values["text"], values.get("type", ""))
            if not all(isinstance(each, str) for each in (question.id, question.text, question.type)):
                raise ValueError
        except (ValueError, KeyError, TypeError, AttributeError):
            raise QueryError(
                f"{file}, line {number}: a question is one JSON object with strings, "
                '{"id": "1", "text": "…", "type": "…"} (type is optional); correct it.'
            ) from None
        if question.id in questions or not question.text.strip():
            is_duplicate = question.id in questions
            problem = f"the id {question.id!r} comes twice" if is_duplicate else "its text is empty"
            raise QueryError(f"{file}, line {number}: {problem}; correct it.")
        questions[question.id] = question
    if not questions:
        raise QueryError(f"{file} holds no questions; write one JSON object per line.")
    return [*questions.values()]


def read_judgements(file: Path) -> dict[str, dict[str, int]]:
    """Read which documents answer which question: lines of question id, path and relevance, separated by tabs."""
    judgements: dict[str, dict[str, int]] = defaultdict(dict)
    for number, line in _lines(file):
        try:
            question, path, relevance = line.split("\t")
            judgements[question][normalize_path(path)] = int(relevance)
        except ValueError:
            raise QueryError(
                f"{file}, line {number}: a judgement is a question's id, a path and a whole number, separated by "
                "tabs; correct it."
            ) from None
    return dict(judgements)


def evaluate(
    search: Callable[[Query], Answer], questions: Sequence[Question], judgements: Judgements, mode: Mode
) -> Evaluation:
    """Search for every question and measure the answers; a question without judgements has no right answer."""
    if not any(question.id in judgements for question in questions):
        raise QueryError("No question is named in the judgements; the ids of both files must match.")
    return Evaluation(
        tuple(_measure(search, question, judgements.get(question.id, {}), mode) for question in questions)
    )


def write_run(evaluation: Evaluation, file: Path) -> None:
    """Write what was found: for each question one JSON object with its `id` and `docs`, paths best first."""
    rows = ({"id": result.question.id, "docs": result.documents} for result in evaluation.results)
    try:
        file.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    except OSError as error:
        raise QueryError(f"{file} cannot be written ({error.strerror}); name another file with --run.") from error


def normalize_path(path: str) -> str:
    """A document's path in one form: judgements may omit `.md`, or write `./a.md` and `a//b.md`."""
    return PurePosixPath(path).as_posix().removesuffix(".md")


def _measure(
    search: Callable[[Query], Answer], question: Question, relevant: Mapping[str, int], mode: Mode
) -> QuestionResult:
    """Search for one question, and measure the answer."""
    start = perf_counter()
    answer = search(Query(question.text, limit=RANK_CUTOFF, mode=mode, content="none", preview_lines=0))
    milliseconds = (perf_counter() - start) * 1000
    documents = tuple(dict.fromkeys(hit.path for hit in answer.results))
    wanted = tuple(path for path, relevance in relevant.items() if relevance > 0)
    ranks = [rank for rank, path in enumerate(map(normalize_path, documents[:RANK_CUTOFF]), 1) if path in wanted]
    ideal = sum(_gain(rank) for rank in range(1, min(RANK_CUTOFF, len(wanted)) + 1))
    return QuestionResult(
        question=question,
        documents=documents,
        wanted=wanted,
        ndcg=sum(map(_gain, ranks)) / ideal if ideal else 0.0,
        recall=sum(rank <= RECALL_CUTOFF for rank in ranks) / len(wanted) if wanted else 0.0,
        mrr=1 / ranks[0] if ranks else 0.0,
        milliseconds=milliseconds,
    )


def _gain(rank: int) -> float:
    return 1 / math.log2(rank + 1)


def _means(name: str, results: Sequence[QuestionResult]) -> Measures:
    columns = ([getattr(each, column) for each in results] for column in ("ndcg", "recall", "mrr"))
    return Measures(name, len(results), *(round(statistics.fmean(column), 4) for column in columns))


def _lines(file: Path) -> Iterable[tuple[int, str]]:
    """The lines of a file that are not blank, with their numbers."""
    try:
        text = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise QueryError(f"{file} cannot be read ({error.strerror}); name an existing file.") from error
    except UnicodeDecodeError as error:
        raise QueryError(f"{file} is not UTF-8 text; save it as such.") from error
    return [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
