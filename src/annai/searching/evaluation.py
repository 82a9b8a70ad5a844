"""How good are the answers? Questions whose right documents are known, and at which rank a search returns them."""

import json
import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from time import perf_counter
from typing import NamedTuple

from annai.answers import ANSWERS, MAY_ANSWER, Answer, Hit, Mode, Query, Verdict, verdict_of
from annai.definitions import dataclass, lazy_pattern
from annai.errors import QueryError
from annai.text.nesting import parse_json

RANK_CUTOFF, RECALL_CUTOFF = 10, 5
"""How many documents nDCG and MRR count, and how many Recall counts."""

MAX_WORST_QUESTIONS = 10
"""How many of the worst questions are reported."""

CALIBRATION_BOUNDS = (0.0, MAY_ANSWER, 0.3, ANSWERS, 0.7, 0.9)
"""Where the rows of the calibration begin: at the bounds of the words, and between them."""

Judgements = Mapping[str, Mapping[str, int]]
"""Question id → document → how relevant it is; 0 is not at all."""

_PAGE_LINE = lazy_pattern(r"\s*(.+?)\s*(?:\t+|→)\s*(\S.*?)\s*")
_LINES = lazy_pattern(r":(\d+)(?:-\d+)?\Z")


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
    score: float
    """How likely the first result was said to answer; 0 without one."""

    @property
    def is_first_right(self) -> bool:
        """Whether the first result is relevant."""
        return self.rank == 1

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
class Calibration:
    """How likely first results were said to answer, and how many of them did."""

    verdict: Verdict
    least: float
    """The lowest score that counts here."""
    most: float
    queries: int
    stated: float
    """The mean of their scores."""
    right: float
    """The share whose first result is relevant."""


class Asked(NamedTuple):
    """What a project is measured with."""

    questions: Sequence[Question]
    judgements: Judgements
    places: Mapping[str, Sequence[str]]
    """Question id → the lines that answer it, as addresses (`guide.md:42`), where a judgement names lines."""


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
    def calibration(self) -> list[Calibration]:
        """How likely first results were said to answer against how many did, from the least likely to the likeliest."""
        rows = []
        for least, most in zip(CALIBRATION_BOUNDS, (*CALIBRATION_BOUNDS[1:], 1.0), strict=True):
            scored = [each for each in self.results if least <= each.score and (each.score < most or most == 1)]
            if scored:
                stated, right = (statistics.fmean(values) for values in zip(*map(_stated, scored), strict=True))
                rows.append(Calibration(verdict_of(least), least, most, len(scored), round(stated, 4), round(right, 4)))
        return rows

    @property
    def calibration_error(self) -> float:
        """How far what is stated is from what is right, the mean over the questions (ECE)."""
        rows = self.calibration
        return round(sum(each.queries * abs(each.stated - each.right) for each in rows) / len(self.results), 4)

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


def read_asked(queries: Path, qrels: Path | None = None) -> Asked:
    """Read questions and what answers them: from two files, or from one as annai's page saves it.

    That one has a question, a tab or an arrow, and a path on each line.
    """
    if qrels:
        questions, rows = read_questions(queries), _judgement_rows(qrels)
    else:
        questions, rows = _read_page(queries)
    places: dict[str, list[str]] = defaultdict(list)
    for question, path, relevance in rows:
        if relevance > 0 and _LINES.search(path):
            places[question].append(path)
    return Asked(questions, _by_question(rows), places)


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
                '{"id": "1", "text": "…", "type": "…"} (type is optional)',
                "correct it.",
            ) from None
        if question.id in questions or not question.text.strip():
            is_duplicate = question.id in questions
            problem = f"the id {question.id!r} comes twice" if is_duplicate else "its text is empty"
            raise QueryError(f"{file}, line {number}: {problem}", "correct it.")
        questions[question.id] = question
    if not questions:
        raise QueryError(f"{file} contains no questions", "write one JSON object per line.")
    return [*questions.values()]


def read_judgements(file: Path) -> dict[str, dict[str, int]]:
    """Read which documents answer which question: lines of question id, path and relevance, separated by tabs."""
    return _by_question(_judgement_rows(file))


def _judgement_rows(file: Path) -> list[tuple[str, str, int]]:
    """The question's id, the path and the relevance of every judgement."""
    rows = []
    for number, line in _lines(file):
        try:
            question, path, relevance = line.split("\t")
            rows.append((question, path, int(relevance)))
        except ValueError:
            raise QueryError(
                f"{file}, line {number}: a judgement is a question's id, a path and a whole number, separated by tabs",
                "correct it.",
            ) from None
    return rows


def _read_page(file: Path) -> tuple[list[Question], list[tuple[str, str, int]]]:
    """The questions of a file of annai's page, which are their own ids, and their judgements."""
    rows = []
    for number, line in _lines(file):
        if not (match := _PAGE_LINE.fullmatch(line)):
            is_json = line.lstrip().startswith("{")
            way_out = "give its judgements with --qrels" if is_json else "correct it"
            raise QueryError(
                f"{file}, line {number}: without --qrels, a line is a question, a tab (or →) and the path of the "
                f"document that answers it",
                f"{way_out}.",
            )
        rows.append((match[1], match[2], 1))
    if not rows:
        raise QueryError(f"{file} contains no questions", "write a question, a tab (or →) and a path per line.")
    return [Question(text, text) for text in dict.fromkeys(text for text, _, _ in rows)], rows


def _by_question(rows: Iterable[tuple[str, str, int]]) -> dict[str, dict[str, int]]:
    judgements: dict[str, dict[str, int]] = defaultdict(dict)
    for question, path, relevance in rows:
        judgements[question][normalize_path(path)] = relevance
    return dict(judgements)


def evaluate(
    search: Callable[[Query], Answer], questions: Sequence[Question], judgements: Judgements, mode: Mode
) -> Evaluation:
    """Search for every question and measure the answers; a question without judgements has no right answer."""
    if not any(question.id in judgements for question in questions):
        raise QueryError("No question is named in the judgements", "the ids of both files must match.")
    return Evaluation(
        tuple(_measure(search, question, judgements.get(question.id, {}), mode) for question in questions)
    )


def write_run(evaluation: Evaluation, file: Path) -> None:
    """Write what was found: for each question one JSON object with its `id` and `docs`, paths best first."""
    rows = ({"id": result.question.id, "docs": result.documents} for result in evaluation.results)
    try:
        file.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    except OSError as error:
        raise QueryError(f"{file} cannot be written ({error.strerror})", "name another file with --run.") from error


def normalize_path(path: str) -> str:
    """A document's path in one form: judgements may omit `.md`, write `./a.md` and `a//b.md`, and name lines."""
    return PurePosixPath(_LINES.sub("", path)).as_posix().removesuffix(".md")


def unknown_paths(asked: Asked, documents: Iterable[str]) -> list[str]:
    """The relevant paths that are those of no document, in the order of the questions."""
    known = set(map(normalize_path, documents))
    relevant = (asked.judgements.get(question.id, {}).items() for question in asked.questions)
    wanted = (path for judged in relevant for path, relevance in judged if relevance > 0)
    return [path for path in dict.fromkeys(wanted) if path not in known]


def _measure(
    search: Callable[[Query], Answer], question: Question, relevant: Mapping[str, int], mode: Mode
) -> QuestionResult:
    """Search for one question, and measure the answer."""
    start = perf_counter()
    answer = search(Query(question.text, limit=RANK_CUTOFF, mode=mode, content="none", preview_lines=0))
    milliseconds = (perf_counter() - start) * 1000
    wanted = tuple(path for path, relevance in relevant.items() if relevance > 0)
    documents = tuple(dict.fromkeys(_named(hit, wanted) for hit in answer.results))
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
        score=answer[0].score if answer else 0.0,
    )


def _named(hit: Hit, wanted: Sequence[str]) -> str:
    """A hit's path in its collection, or from the project's root if that is how a judgement names it."""
    return hit.file if normalize_path(hit.file) in wanted else hit.path


def _stated(result: QuestionResult) -> tuple[float, bool]:
    return result.score, result.is_first_right


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
        raise QueryError(f"{file} cannot be read ({error.strerror})", "name an existing file.") from error
    except UnicodeDecodeError as error:
        raise QueryError(f"{file} is not UTF-8 text", "save it as such.") from error
    return [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
