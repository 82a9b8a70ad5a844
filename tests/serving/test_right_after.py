"""Is what was written before a question in its answer? Files are written in many ways, and asked for at once."""

import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

import annai
from tests.agents import connected
from tests.serving.conftest import LivingProject

MakePlace = Callable[..., LivingProject]
Ask = Callable[[str], set[str]]
"""The paths of the documents that hold a word."""

QUESTIONS = 100


def _new(root: Path, number: int, text: str) -> Path:
    file = root / f"new{number}.md"
    file.write_text(text)
    return file


def _same_size(root: Path, number: int, text: str) -> Path:
    assert number < 10_000
    file = root / "same.md"
    file.write_text(text.ljust(100))
    return file


def _appended(root: Path, number: int, text: str) -> Path:
    file = root / "log.md"
    with file.open("a") as stream:
        stream.write(f"{text}\n{number}\n")
    return file


def _renamed_onto(root: Path, number: int, text: str) -> Path:
    file, draft = root / "saved.md", root / f".saved.md.{number}"
    draft.write_text(text)
    draft.replace(file)
    return file


def _renamed_folder(root: Path, number: int, text: str) -> Path:
    """A folder that was indexed, with a file that is written after it was moved."""
    before = max(root.glob("moving*"), key=lambda each: int(each.name[6:]), default=root / "moving0")
    (before / "deep").mkdir(parents=True, exist_ok=True)
    after = before.rename(root / f"moving{number + 1}")
    file = after / "deep" / "a.md"
    file.write_text(text)
    return file


def _in_new_folders(root: Path, number: int, text: str) -> Path:
    file = root / f"folder{number}" / "深い" / "場所" / "メモ.md"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    return file


def _moved_in(root: Path, number: int, text: str) -> Path:
    outside = root.parent / f"outside{number}"
    (outside / "sub").mkdir(parents=True)
    (outside / "sub" / "x.md").write_text(text)
    return outside.rename(root / f"moved{number}") / "sub" / "x.md"


def _made_again(root: Path, number: int, text: str) -> Path:
    """A folder of the same name as one that was deleted just now."""
    folder = root / "again"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    file = folder / f"{number % 2}.md"
    file.write_text(text)
    return file


WAYS = (_new, _same_size, _appended, _renamed_onto, _renamed_folder, _in_new_folders, _moved_in, _made_again)


def missed(root: Path, ask: Ask) -> list[str]:
    """Write in every way, again and again, and ask at once: what is not in the answers."""
    chance = random.Random(1)  # noqa: S311 - a test that can be repeated, and nothing secret
    found = []
    for number in range(QUESTIONS):
        way, word = chance.choice(WAYS), f"zebra{number}x"
        file = way(root, number, f"# Note\n\n{word}\n")
        path = file.relative_to(root).as_posix()
        if path not in ask(word):
            found.append(f"{number}: {way.__name__}")
        elif chance.random() < 0.2:
            file.unlink()
            if path in ask(word):
                found.append(f"{number}: the deletion after {way.__name__}")
    return found


@contextmanager
def asking(folder: Path, way: str) -> Iterator[Ask]:
    """How to ask in one of several ways; where there is a server, all go through it."""
    if way == "mcp":
        with connected(folder) as agent:

            def ask(word: str) -> set[str]:
                return {row["path"] for row in agent.fields("search", query=word, mode="keyword")["results"]}

            yield ask
    else:
        with annai.open(folder) as project:
            yield lambda word: {
                hit.path for hit in project.search(word, mode="keyword", refresh=way == "refreshed").results
            }


@pytest.mark.parametrize("way", ["mcp", "http", "refreshed"])
def test_what_was_written_before_a_question_is_in_its_answer_through_a_server(place: LivingProject, way: str) -> None:
    place.start()
    with asking(place.folder, way) as ask:
        assert ask("apple") == {"a.md"}
        assert missed(place.folder, ask) == []


@pytest.mark.parametrize("way", ["mcp", "refreshed"])
def test_what_was_written_before_a_question_is_in_its_answer_without_one(place: LivingProject, way: str) -> None:
    with asking(place.folder, way) as ask:
        assert ask("apple") == {"a.md"}
        assert missed(place.folder, ask) == []


def test_what_was_written_before_it_is_read_or_listed_is_there(place: LivingProject) -> None:
    place.start()
    with annai.open(place.folder) as project:
        for number in range(QUESTIONS // 2):
            (place.folder / "note.md").write_text(f"# Note\n\nzebra{number}")
            assert f"zebra{number}" in project.locate("note.md").document.text
            (place.folder / f"{number}.md").write_text("# Another")
            assert project.browse().documents == number + 3


def test_it_is_so_for_many_who_ask_at_once(place: LivingProject) -> None:
    from concurrent.futures import ThreadPoolExecutor

    place.start()

    def write_and_ask(writer: int) -> Sequence[str]:
        with asking(place.folder, "http") as ask:
            lost = []
            for number in range(QUESTIONS // 4):
                word = f"writer{writer}word{number}"
                (place.folder / f"{writer}.md").write_text(f"# Note\n\n{word}\n")
                lost += [] if f"{writer}.md" in ask(word) else [word]
            return lost

    with ThreadPoolExecutor(4) as writers:
        assert [*writers.map(write_and_ask, range(4))] == [[], [], [], []]


def test_it_is_so_for_an_agent_beside_another_one(place: LivingProject) -> None:
    with connected(place.folder) as first:
        first.fields("search", query="apple")
        with asking(place.folder, "mcp") as ask:
            assert missed(place.folder, ask) == []
