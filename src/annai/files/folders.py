"""What lies in a folder? Its files, and its folders with all that is in them."""

from collections import Counter
from collections.abc import Collection, Iterable

from annai.types import FileCondition, FileState, FolderEntry


def folder_entries(states: Iterable[FileState], waiting: Collection[str], folder: str = "") -> list[FolderEntry]:
    """What lies directly in a folder, the largest first; `waiting` are the paths that are about to be indexed."""
    prefix = f"{folder.strip('/')}/" if folder.strip("/") else ""
    sizes, conditions, folders = Counter[str](), dict[str, Counter[FileCondition]](), set[str]()
    for state in states:
        if not state.path.startswith(prefix):
            continue
        name, slash, _ = state.path[len(prefix) :].partition("/")
        path = prefix + name
        if slash:
            folders.add(path)
        sizes[path] += max(state.size, 0)  # one that is to be read again has none
        conditions.setdefault(path, Counter())[_condition(state, waiting)] += 1
    return [
        FolderEntry(path, path in folders, conditions[path].total(), size, conditions[path])
        for path, size in sorted(sizes.items(), key=lambda each: (-each[1], each[0]))
    ]


def _condition(state: FileState, waiting: Collection[str]) -> FileCondition:
    if state.path in waiting:
        return "waiting"
    return state.problem.kind if state.problem else "latest"
