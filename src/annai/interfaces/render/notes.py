"""Which sentences go with an answer, an import or a status? The same on the command line and for agents."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from annai.answers import Answer, OtherSection
from annai.files.pages import page_name
from annai.interfaces.render.units import counted

if TYPE_CHECKING:
    from annai.types import ImportSummary, LeftOut, RequestStatus, Status, StoredSection

STATE_WORDS: "dict[RequestStatus, str]" = {"pending": "waiting", "processing": "being indexed"}
"""What states are called that people would not understand."""

MAX_KINDS = 6
"""Kinds of files that are not read which are named; the others are counted together."""


def correction_lines(answer: Answer) -> list[str]:
    """What was searched for other than the query says as it stands: what replaced words, and what was left out."""
    corrected = [f"No document holds “{typed}”; searched for “{meant}”." for typed, meant in answer.corrected.items()]
    expanded = [f"Searched for “{long}” as well as “{short}”." for short, long in answer.expanded.items()]
    excluded = [f"Left out sections that hold “{phrase}”." for phrase in answer.excluded]
    return [*corrected, *expanded, *excluded]


def doubt_lines(answer: Answer) -> list[str]:
    """What to say above results that hardly answer the question."""
    return ["No good match; nearest:"] if answer.results and not answer.confident else []


def result_count(answer: Answer, shown: int | None = None) -> str:
    """How many results are shown and, if there are more, how many of those."""
    count = len(answer.results) if shown is None else shown
    noun = "line" if answer.mode == "exact" else "result"
    return f"{count:,} of {counted(answer.total, noun)}" if answer.total > count else counted(count, noun)


def unmatched_lines(answer: Answer) -> list[str]:
    """Which of the paths and conditions that a search was restricted to lead to no document, and what to do."""
    paths = [
        f"No document is under “{path}”; "
        + (f"did you mean {' or '.join(similar)}?" if similar else "give a path as a search shows it, or a glob.")
        for path, similar in answer.unmatched.items()
    ]
    return [*paths, *answer.unmet.values()]


def section_line(stored: "StoredSection") -> str:
    """A section as one line of a list."""
    section = stored.section
    return (
        f"{stored.id}  lines {section.start_line}–{section.end_line}, {section.token_count} tokens  {section.heading}"
    )


def more_place(section: OtherSection, path: str) -> str:
    """Where another section of a document begins: `line 44`, `page 12`."""
    return page_name(path, section.page) if section.page else f"line {section.line}"


def searched_sentence(status: "Status") -> str:
    """What a search looks at, from the status of the whole project; what it leaves out of the project's folder too."""
    from annai.types import IMPLICIT_COLLECTION  # an answer is printed without it

    root = status.root
    if status.searched == (IMPLICIT_COLLECTION,):
        return f"A search covers all of {root}."
    rest = f"the rest of {root}"
    names = [f"{rest} ({each})" if each == IMPLICIT_COLLECTION else each for each in status.searched]
    sentence = f"A search covers {', '.join(names) or 'nothing: every collection is disabled'}."
    sources = [each.collection.source for each in status.collections]
    if IMPLICIT_COLLECTION not in status.searched and not any(map(root.is_relative_to, sources)):
        sentence += f" It does not cover {rest}; `annai collection enable {IMPLICIT_COLLECTION}` adds it."
    return sentence


def queue_lines(status: "Status") -> list[tuple[str, ...]]:
    """The state of the queue, as parts of lines: what waits, what is being indexed, and what failed lately."""
    counts = status.requests
    states: tuple[RequestStatus, ...] = ("pending", "processing", "failed")
    shown = [f"{counts[each]:,} {state_word(each)}" for each in states if counts.get(each)]
    lines: list[tuple[str, ...]] = [("Queue     ", ", ".join(shown) or "empty: everything is indexed")]
    lines += [("Indexing  ", path) for path in status.indexing]
    for request in status.errors:
        tried = f" (tried {counted(request.attempts, 'time')})" if request.attempts else ""
        label = state_word(request.status).capitalize()
        lines.append((f"{label:10}", f"{request.collection}:{request.path}:", f"{request.error}{tried}"))
    return lines


def state_word(status: "RequestStatus") -> str:
    """What the state of a request is called for people."""
    return STATE_WORDS.get(status, status)


def summary_line(summary: "ImportSummary") -> str:
    """What an import did, in one line."""
    return ", ".join(f"{name} {count:,}" for name, count in summary.counts.items())


def left_out_lines(kinds: "Sequence[LeftOut]") -> list[str]:
    """The files that are not read: what would read some of them, and the most frequent of the others."""
    lines = [_with_remedy(each) for each in kinds if each.install]
    others = [each for each in kinds if not each.install]
    shown = [_count(each) for each in others[:MAX_KINDS]]
    rest = sum(each.files for each in others[MAX_KINDS:])
    shown += [f"{rest:,} of other kinds"] if rest else []
    return [*lines, *([f"not read: {', '.join(shown)}"] if shown else [])]


def _with_remedy(kind: "LeftOut") -> str:
    from annai.types import LINK  # an answer is printed without it

    if kind.suffix == LINK:
        return f"{counted(kind.files, LINK)} not followed ({kind.install})"
    return f"{_count(kind)}: {kind.install}"


def _count(kind: "LeftOut") -> str:
    return f"{kind.files:,} {kind.suffix or 'without an ending'}"
