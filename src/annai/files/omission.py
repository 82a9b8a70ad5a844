"""Why is a file left out? Walks to one file as the scanner does, and names the rule that stops it."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from annai.files.ignore import Patterns, read_lines
from annai.files.inside import lies_in
from annai.files.kinds import missing_extra, suffix_of
from annai.files.walk import IGNORE_FILES, SKIPPED_FOLDERS, Folder, Walk
from annai.plugins import install_command
from annai.settings import Files


def why_omitted(source: Path, settings: Files, path: str, *, without: Sequence[Path] = ()) -> str:
    """Why the scanner does not find a file, or any in a folder, that is there; empty if it does, or cannot be told."""
    trace = _Trace(source, settings, [path], without)
    if any(f"{each.path}/".startswith(f"{path}/") for each in trace.files()):
        extra = missing_extra(suffix_of(path))
        return f"{suffix_of(path)} files need an extra; `{install_command(extra)}` installs it" if extra else ""
    if trace.reason:
        return trace.reason
    parts = [source / path, *(source / path).parents]
    if any(each.is_symlink() for each in parts if each != source and each.is_relative_to(source)):
        if not lies_in(os.path.realpath(source / path), os.path.realpath(source)):
            return (
                "it is, or lies behind, a symbolic link out of its folder (files.linked_folders in your own settings)"
            )
        if not settings.follow_symlinks:
            return "it is, or lies behind, a symbolic link (files.follow_symlinks is false)"
    if any((source / path).is_relative_to(folder) for folder in without):
        return "its folder is a collection of its own"
    return "" if (source / path).is_file() else "there is no regular file in it"


class _Trace(Walk):
    """A walk that remembers what stopped it."""

    reason = ""

    def _should_enter(self, name: str, path: str, folder: Folder) -> bool:
        should_enter = super()._should_enter(name, path, folder)
        if name in SKIPPED_FOLDERS:
            self.reason = f"annai never reads {name}/"
        elif not should_enter:
            self.reason = f"{self._rule(name, path, folder, is_folder=True)} excludes its folder {path}/"
        return should_enter

    def _should_include(self, name: str, path: str, folder: Folder) -> bool:
        should_include = super()._should_include(name, path, folder)
        if should_include:
            return True
        if self._is_excluded(name, path, folder, is_folder=False):
            self.reason = f"{self._rule(name, path, folder, is_folder=False)} excludes it"
        else:
            patterns = ", ".join(self._settings.include)
            self.reason = f"annai indexes files whose names match {patterns} (files.include in annai.toml)"
        return False

    def _rule(self, name: str, path: str, folder: Folder, *, is_folder: bool) -> str:
        """The line that excludes a file or folder, and where it stands."""
        for pattern in reversed(self._settings.exclude):
            if Patterns([pattern], "files.exclude").last_match(name, path, is_folder) >= 0:
                return f"{pattern!r} in files.exclude"
        whole = self._prefix + path
        for rules in reversed(folder.rules):
            for file, number, line in self._lines(whole[: rules.prefix_length]):
                if Patterns([line], file).last_match(name, whole[rules.prefix_length :], is_folder) >= 0:
                    return f"{line.strip()!r} in {file}:{number}"
        return "an ignore file"

    def _lines(self, folder: str) -> Iterator[tuple[str, int, str]]:
        """The lines of a folder's ignore files, last first: file, number and text.

        The folder is one of the repository, or of the source if that is in none.
        """
        real = Path(self._real_source)
        root = real.parents[self._prefix.count("/") - 1] if self._prefix else real
        for name in reversed(IGNORE_FILES):
            lines = read_lines(str(root / folder / name))
            for number in range(len(lines), 0, -1):
                yield folder + name, number, lines[number - 1]
