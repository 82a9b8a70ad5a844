"""By which other names can annai be called? Those of the programs it descends from, for who still types them."""

import os
import shutil
import sys
import sysconfig
from pathlib import Path

from annai.errors import ConfigError

ALIASES = ("mdvec", "search-docs")


def add_aliases() -> list[Path]:
    """Make the program answer to its predecessors' names, beside it. Returns those that are new."""
    program = _program()
    places = [_place(program, name) for name in ALIASES]
    for place in places:
        if os.path.lexists(place) and not _is_ours(place, program):
            raise ConfigError(f"{place} is another program", "remove it first if annai should answer to this name.")
    new = [place for place in places if not os.path.lexists(place)]
    for place in new:
        try:
            if os.name == "nt":
                shutil.copy2(program, place)  # a launcher that starts annai whatever its name; links need rights there
            else:
                place.symlink_to(program.name)
        except OSError as error:
            raise ConfigError(f"{place} cannot be written ({error.strerror})", "make its folder writable.") from error
    return new


def remove_aliases() -> list[Path]:
    """Take the names away again, where they are annai's. Returns what was removed."""
    program = _program()
    ours = [place for place in (_place(program, name) for name in ALIASES) if _is_ours(place, program)]
    for place in ours:
        try:
            place.unlink()
        except OSError as error:
            raise ConfigError(f"{place} cannot be removed ({error.strerror})", "remove it by hand.") from error
    return ours


def _program() -> Path:
    """The `annai` that was typed; else the one that belongs to this Python."""
    suffix = ".exe" if os.name == "nt" else ""
    belonging = Path(sysconfig.get_path("scripts")) / f"annai{suffix}"
    typed = shutil.which(sys.argv[0])
    found = Path(typed).absolute() if typed and Path(typed).stem == "annai" else belonging
    if not found.exists():
        raise ConfigError(f"There is no program {belonging}", "install annai with pip, pipx or uv first.")
    return found


def _place(program: Path, name: str) -> Path:
    return program.with_name(name + program.suffix)


def _is_ours(place: Path, program: Path) -> bool:
    if place.is_symlink():
        return place.resolve() == program.resolve()
    return place.is_file() and place.read_bytes() == program.read_bytes()
