"""Does annai work on file systems that are not here: where case does not matter, and where times are coarse?

Run by `make systems`. Each is made in a file and mounted, which takes root and, for most, FUSE; where one cannot be
had, its tests are skipped and say why.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from annai.config import load_config
from tests.systems.life import Machine, live, paths

pytestmark = pytest.mark.skipif(not os.environ.get("ANNAI_SYSTEMS"), reason="only `make systems` mounts file systems")

IMAGE_BYTES = 64_000_000
MOST_SECONDS = 60

Commands = tuple[tuple[str, ...], ...]

CASELESS: dict[str, Commands] = {
    "ext4 with casefold": (
        ("mkfs.ext4", "-q", "-O", "casefold", "-E", "encoding=utf8", "{image}"),
        ("mount", "-o", "loop", "{image}", "{place}"),
        ("mkdir", "{place}/docs"),
        ("chattr", "+F", "{place}/docs"),
    ),
    "NTFS by lowntfs-3g": (
        ("mkntfs", "-q", "-F", "{image}"),
        ("lowntfs-3g", "-o", "ignore_case", "{image}", "{place}"),
        ("mkdir", "{place}/docs"),
    ),
}
"""Ways to have a file system on which case does not matter, the best first; `docs` is where it does not."""

FAT: dict[str, Commands] = {
    "vfat": (
        ("mkfs.vfat", "{image}"),
        ("mount", "-o", "loop,utf8", "{image}", "{place}"),
        ("mkdir", "{place}/docs"),
    ),
    "FAT by fusefat": (
        ("mkfs.vfat", "{image}"),
        ("fusefat", "-o", "rw+", "{image}", "{place}"),
        ("mkdir", "{place}/docs"),
    ),
}


def mounted(tmp_path: Path, ways: dict[str, Commands]) -> Iterator[tuple[str, Path]]:
    """The name of the first way that works, and `docs` on it; skips the test if none does."""
    failures = []
    for name, commands in ways.items():
        image, place = tmp_path / f"{name}.img", tmp_path / name
        place.mkdir()
        with image.open("wb") as file:
            file.truncate(IMAGE_BYTES)
        try:
            if failure := _run(commands, image, place):
                failures.append(f"{name}: {failure}")
                continue
            yield name, place / "docs"
            return
        finally:
            if os.path.ismount(place):
                subprocess.run(["umount", str(place)], check=True, timeout=MOST_SECONDS)
    pytest.skip("; ".join(failures))


def _run(commands: Commands, image: Path, place: Path) -> str:
    """Run the commands one after the other; what is in the way of one, or nothing."""
    for command in commands:
        words = [each.format(image=image, place=place) for each in command]
        if not shutil.which(words[0]):
            return f"there is no {words[0]}"
        done = subprocess.run(words, capture_output=True, text=True, timeout=MOST_SECONDS, check=False)
        if done.returncode:
            return f"`{' '.join(command)}` failed ({(done.stderr.strip() or 'no reason').splitlines()[0]})"
    return ""


@pytest.fixture
def caseless(tmp_path: Path) -> Iterator[Path]:
    """A folder in which case does not matter."""
    for _, folder in mounted(tmp_path, CASELESS):
        (folder / "Probe").touch()
        assert (folder / "pROBE").exists()
        (folder / "Probe").unlink()
        yield folder


@pytest.fixture
def fat(tmp_path: Path) -> Iterator[Path]:
    """A folder with times in steps of two seconds, and without modes and links."""
    for _, folder in mounted(tmp_path, FAT):
        yield folder


def in_one_case(folder: Path) -> bool:
    """Whether names lose their case, as with lowntfs-3g's `ignore_case`."""
    (folder / "Probe").touch()
    names = os.listdir(folder)  # noqa: PTH208 - as it is listed
    (folder / "Probe").unlink()
    return "Probe" not in names


def test_a_life_where_case_does_not_matter(caseless: Path) -> None:
    live(caseless, names=("guide" if in_one_case(caseless) else "Guide", "手順"))


def test_state_is_kept_where_case_does_not_matter(caseless: Path) -> None:
    docs = caseless / "own"
    docs.mkdir()
    live(docs, {"ANNAI_STATE": str(caseless / "state")}, names=("guide", "手順"))


def test_a_folder_is_one_project_however_its_name_is_typed(caseless: Path) -> None:
    (caseless / "guide").mkdir()
    (caseless / "guide" / "setup.md").write_text("# Setup\n\nAn apple.", encoding="utf-8")
    spellings = [caseless, caseless.with_name("DOCS"), caseless.with_name("Docs")]
    spellings = [each for each in spellings if each.exists()]
    assert len({load_config(docs_dir=each).root for each in spellings}) == 1
    assert len({load_config(start=each).state_folder for each in spellings}) == 1
    for each in spellings:
        annai = Machine(each, {})
        assert paths(annai, "apple") == {"guide/setup.md"}
        assert annai("search", "apple", "--format", "files").stdout == "guide/setup.md:1\n"
    annai = Machine(caseless / "GUIDE", {})
    assert "An apple" in annai("get", "SETUP.md").stdout
    assert paths(annai, "apple", "--path", "Setup.md") == {"guide/setup.md"}


def test_a_name_whose_case_changes_is_the_new_one(caseless: Path) -> None:
    if in_one_case(caseless):
        pytest.skip("names lose their case here")
    file = caseless / "Setup.md"
    file.write_text("# Setup\n\nAn apple.", encoding="utf-8")
    annai = Machine(caseless, {})
    assert paths(annai, "apple") == {"Setup.md"}
    file.rename(caseless / "SETUP.md")
    assert paths(annai, "apple") == {"SETUP.md"}


def test_a_life_on_fat(fat: Path) -> None:
    live(fat, names=("Guide", "手順" if _can_make(fat / "手順") else "Steps"))


def test_a_change_within_two_seconds_is_found_on_fat(fat: Path) -> None:
    file = fat / "a.md"
    annai = Machine(fat, {})
    for word in ("apple", "grape", "lemon"):
        # Made anew, since not every driver gives a file another time that is written again.
        file.unlink(missing_ok=True)
        file.write_text(f"# A\n\nAn {word}.", encoding="utf-8")
        assert paths(annai, word, "--mode", "keyword") == {"a.md"}
    written = file.stat().st_mtime
    while time.time() < written + 4:
        time.sleep(0.1)
    assert paths(annai, "lemon") == {"a.md"}
    assert "unchanged 1" in annai("import").stdout


def _can_make(file: Path) -> bool:
    try:
        file.touch()
    except OSError:
        return False
    file.unlink()
    return True
