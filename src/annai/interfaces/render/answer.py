"""How is an answer shown? As text for people, as JSON, as Markdown, or as a list of files."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from annai.answers import FIRST_TIMES, PREVIEW_LINES, Answer, Hit, OtherSection
from annai.config import Config
from annai.errors import QueryError
from annai.files.pages import place
from annai.interfaces.render.notes import correction_lines, doubt_lines, more_place, result_count
from annai.interfaces.render.records import answer_json, print_json
from annai.interfaces.terminal import Screen, echo, standard_output
from annai.state import here
from annai.text.escapes import escape_line, escape_line_ends, wrap

if TYPE_CHECKING:
    from annai.asking.exact import Wanted
    from annai.text.matches import Asked

SEARCH_FORMATS = ("text", "json", "markdown", "files")
"""What `--format` takes; besides, `null` is `files` for scripts, each name as it is and a zero byte after it."""

SCORE_PARTS = {
    "meaning": "meaning",
    "document": "whole document",
    "words": "words",
    "phrase": "exact phrase",
    "more_words": "words of the next passage",
    "definition": "says what it is",
    "translated": "words in the other language",
    "passage": "tokens of the passage",
    "window": "tokens of its best lines",
    "coverage": "share of the question in them",
    "title": "tokens of its title",
    "about": "title in the other language",
    "empty": "has no text",
    "behind": "behind the document's best passage",
}
"""What people read for each of `Reasons.parts`."""

MIN_SHOWN_PART = 0.005
"""What would be shown as 0.00 is not shown."""

BAR_CELLS = 10


def print_answer(
    answer: Answer, form: str, config: Config, *, preview_lines: int = PREVIEW_LINES, explain: bool = False
) -> None:
    """Write an answer to standard output in one of `SEARCH_FORMATS`."""
    if form == "text" and answer.mode == "exact":
        _print_lines(answer, standard_output(config))
    elif form == "text":
        echo(_render_text(answer, standard_output(config), preview_lines, explain), nl=False, styled=True)
    elif form == "json":
        print_json(answer_json(answer, explain))
    elif form in ("files", "null"):
        places = (f"{_relative_path(hit, answer.sources)}:{hit.start_line}" for hit in answer.results)
        ended = (f"{each}\0" if form == "null" else f"{escape_line_ends(each)}\n" for each in places)
        echo("".join(ended), nl=False)
    elif answer.mode == "exact":
        places = (f"{_relative_path(hit, answer.sources)}:{hit.start_line}" for hit in answer.results)
        lines = (f"- `{place}` {hit.preview}\n" for place, hit in zip(places, answer.results, strict=True))
        echo("".join((f"# {answer.query}\n\n", *lines)), nl=False)
    else:
        echo(_render_markdown(answer, explain), nl=False)


def _render_text(answer: Answer, screen: Screen, preview_lines: int, explain: bool) -> str:
    question = _question(answer) if screen.has_color else None
    width = screen.width
    several = len({hit.collection for hit in answer.results}) > 1
    blocks = [f"{screen.show(line, dim=True)}\n" for line in (*correction_lines(answer), *doubt_lines(answer))]
    for rank, hit in enumerate(answer.results):
        most = preview_lines * (1 if rank else FIRST_TIMES)
        path = place(_relative_path(hit, answer.sources), hit.path, hit.preview_line, hit.page)
        address = screen.link(_mark(path, question, screen, bold=True), answer.sources[hit.collection] / hit.path)
        label = screen.show(f"[{hit.collection}] ", fg="magenta") if several else ""
        lines = [screen.flow([f"{label}{address}", f"{_bar(hit.score, screen)} {hit.verdict}"], "  ")]
        lines.append(
            "  " + _mark(hit.breadcrumbs, question, screen, fg="cyan") + (" (out of date)" if hit.is_dirty else "")
        )
        if explain:
            explained = [screen.show(word, dim=True) for word in _explanation(hit).split()]
            lines.append(screen.flow(["  " + explained[0], *explained[1:]]))
        lines += [
            f"  {screen.show('│', dim=True)} {line}" for line in _preview_lines(hit, question, width - 4, screen, most)
        ]
        lines += [f"  {screen.show(_more_line(each, hit.path), dim=True)}" for each in hit.more]
        blocks.append("\n".join(lines) + "\n")
    if answer.results:
        note = f"; {answer.note}" if answer.note else ""
        summary = f"{result_count(answer)} in {answer.took_ms:.0f} ms{note}"
        blocks.append(f"{screen.show(summary, dim=True)}\n")
    return "\n".join(blocks)


def _print_lines(answer: Answer, screen: Screen) -> None:
    """Write the lines of an exact search as grep does: nothing else goes into a pipe."""
    wanted = _wanted(answer) if screen.has_color else None
    shown = []
    for hit in answer.results:
        place = screen.show(f"{escape_line_ends(_relative_path(hit, answer.sources))}:{hit.start_line}", fg="magenta")
        place = screen.link(place, answer.sources[hit.collection] / hit.path)
        text = hit.preview if screen.is_terminal else hit.content or hit.preview
        spans = wanted.spans(text) if wanted else []
        shown.append(f"{place}:{_mark_spans(text, spans, screen)}\n")
    echo("".join(shown), nl=False, styled=True)
    if answer.results:
        echo(f"{result_count(answer)} in {answer.took_ms:.0f} ms", err=True)


def _wanted(answer: Answer) -> "Wanted | None":
    """What to mark in the lines of an exact search; None if what finds patterns is on the server alone."""
    from annai.asking.exact import Wanted  # other answers are shown without it

    try:
        return Wanted(answer.query)
    except QueryError:
        return None


def _render_markdown(answer: Answer, explain: bool) -> str:
    notes_above = (*correction_lines(answer), *doubt_lines(answer))
    blocks = [f"# {answer.query}\n", *(f"{line}\n" for line in notes_above)]
    for hit in answer.results:
        where = place(_relative_path(hit, answer.sources), hit.path, hit.start_line, hit.page)
        notes = f"`{where}` · {hit.verdict}"
        if explain:
            notes += f" · {_explanation(hit)}"
        quote = "\n".join(f"> {line}".rstrip() for line in hit.content.strip().splitlines())
        more = "".join(f"- {more_place(each, hit.path)}: {each.heading} (`{each.id}`)\n" for each in hit.more)
        parts = [f"{notes}\n", *([f"{quote}\n"] if quote else []), *([f"See also:\n\n{more}"] if more else [])]
        blocks.append(f"## {hit.breadcrumbs}\n\n" + "\n".join(parts))
    return "\n".join(blocks)


def _question(answer: Answer) -> "Asked":
    """What to mark. A search through a server has loaded none of this, and most answers go into a pipe, uncoloured."""
    from annai.asking.meant import searched_text
    from annai.text.matches import asked

    return asked(searched_text(answer))


def _more_line(section: OtherSection, path: str) -> str:
    """Another section of the same document, in one line."""
    return f"+ {more_place(section, path)}: {section.heading}  {section.id}"


def _preview_lines(hit: Hit, question: "Asked | None", width: int, screen: Screen, count: int) -> list[str]:
    """The preview, wrapped to the width with its matches marked; a terminal gets as many lines as were asked for."""
    # A line that is escaped has its full width.
    shown = [escape_line(line) if screen.is_terminal else line for line in hit.preview.split("\n") if line]
    lines = [_mark(line, question, screen, span) for line in shown for span in wrap(line, width)]
    if screen.is_terminal and len(lines) > count:
        return [*lines[: count - 1], f"{lines[count - 1]}…"][:count]
    return lines


def _mark(
    text: str,
    question: "Asked | None",
    screen: Screen,
    span: tuple[int, int] | None = None,
    *,
    fg: str | None = None,
    bold: bool | None = None,
) -> str:
    """A text, or a span of it, with what the question names marked: in grep's colour, which every background suits."""
    if question is None:
        return _mark_spans(text, (), screen, span, fg=fg, bold=bold)
    from annai.text.matches import matching_spans

    return _mark_spans(text, matching_spans(text, question), screen, span, fg=fg, bold=bold)


def _mark_spans(
    text: str,
    spans: Iterable[Sequence[int]],
    screen: Screen,
    span: tuple[int, int] | None = None,
    *,
    fg: str | None = None,
    bold: bool | None = None,
) -> str:
    """The same with these spans of the text marked."""
    begin, end = span or (0, len(text))
    pieces, at = [], begin
    for start, stop in spans:
        first, last = max(start, at), min(stop, end)
        if first < last:
            pieces += [
                screen.show(text[at:first], fg=fg, bold=bold),
                screen.show(text[first:last], fg="red", bold=True),
            ]
            at = last
    return "".join((*pieces, screen.show(text[at:end], fg=fg, bold=bold) if at < end else ""))


def _bar(score: float, screen: Screen) -> str:
    full = round(score * BAR_CELLS)
    return screen.show("█" * full, fg="green") + screen.show("░" * (BAR_CELLS - full), dim=True)


def _explanation(hit: Hit) -> str:
    """Where a hit's score comes from, in one line."""
    reasons = hit.reasons
    parts = [f"{part:+.2f} {SCORE_PARTS[name]}" for name, part in reasons.parts.items() if abs(part) >= MIN_SHOWN_PART]
    return (
        f"score {hit.score:.2f}; meaning {reasons.similarity:.2f}, whole document {reasons.document_similarity:.2f}, "
        f"words {reasons.keywords:.2f}" + ("" if reasons.rerank is None else f", reranker {reasons.rerank:.2f}")
    ) + (f"; ranked by {reasons.ranking:.2f}: {', '.join(parts)}" if parts else "")


def _relative_path(hit: Hit, sources: Mapping[str, Path]) -> str:
    """The hit's file, relative to the current folder."""
    return os.path.relpath(sources[hit.collection] / hit.path, here())
