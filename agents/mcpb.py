"""How is annai installed with one click? make mcpb: a bundle for desktop programs, in dist/.

The bundle holds the program's source and its model; the desktop program installs the rest with uv, for its platform.
"""

import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
MANIFEST = Path(__file__).parent / "mcpb.json"


def build(folder: Path) -> Path:
    """Write the bundle into a folder, and return its path."""
    from annai import __version__

    folder.mkdir(exist_ok=True)
    bundle = folder / f"annai-{__version__}.mcpb"
    with zipfile.ZipFile(bundle, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(MANIFEST, "manifest.json")
        for file in _files():
            archive.write(file, file.relative_to(ROOT).as_posix())
    return bundle


def _files() -> Iterator[Path]:
    yield from (ROOT / name for name in ("pyproject.toml", "README.md", "LICENSE"))
    for file in sorted((ROOT / "src" / "annai").rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts:
            yield file


if __name__ == "__main__":
    bundle = build(ROOT / "dist")
    print(f"{bundle.relative_to(ROOT)} ({bundle.stat().st_size / 1_000_000:.1f} MB)")
