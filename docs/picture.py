"""Draw docs/search.svg: two real searches of the example documents, as a terminal shows them."""

import html
import io
import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile
import termios
from contextlib import suppress
from pathlib import Path

from rich.cells import cell_len
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

DOCS = Path(__file__).parent
QUERIES = ("環境構築の方法", "how do I roll back a bad deployment?")
COLUMNS = 100
CELL_WIDTH = 12.2
"""What rich draws a cell with."""

THEME = TerminalTheme(
    (24, 26, 31),
    (220, 223, 228),
    [
        (60, 64, 72),
        (224, 108, 117),
        (152, 195, 121),
        (229, 192, 123),
        (97, 175, 239),
        (198, 120, 221),
        (86, 182, 194),
        (220, 223, 228),
    ],
)

FORM = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "Noto Sans Mono CJK JP", monospace;
  font-size: {char_height}px; line-height: {line_height}px; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">{matrix}</g>
</g>
</svg>
"""
"""rich's own form asks for a font from the network."""


def main() -> None:
    """Search, record and write."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "docs"
        shutil.copytree(DOCS.parent / "examples", tree, ignore=shutil.ignore_patterns(".annai"))
        command = [sys.executable, "-m", "annai", "search", "-n", "2"]
        subprocess.run([*command, QUERIES[0]], cwd=tree, check=True, capture_output=True)
        for query in QUERIES:
            console.print(Text(f'$ annai search "{query}"', style="bold"))
            console.print(Text.from_ansi(_on_a_terminal([*command, query], tree)))
    drawn = console.export_svg(title="annai", theme=THEME, code_format=FORM, unique_id="annai")
    (DOCS / "search.svg").write_text(_TEXT.sub(_with_right_length, drawn), encoding="utf-8")


def _on_a_terminal(command: list[str], folder: Path) -> str:
    """What a terminal of that width is sent; a pipe would get uncut lines. Links are left out: a picture has none."""
    terminal, end = pty.openpty()
    termios.tcsetwinsize(end, (50, COLUMNS))
    with subprocess.Popen(command, cwd=folder, stdout=end, stderr=subprocess.DEVNULL, env={"TERM": "xterm"}):
        os.close(end)
        received = b""
        # Linux reports an error when nobody writes any more.
        with suppress(OSError):
            while chunk := os.read(terminal, 65_536):
                received += chunk
    os.close(terminal)
    return re.sub(r"\x1b\]8;;[^\x1b]*\x1b\\", "", received.decode()).replace("\r", "")


_TEXT = re.compile(r'textLength="[\d.]+"([^>]*)>([^<]*)<')


def _with_right_length(match: re.Match[str]) -> str:
    """Give a text the length of its cells; rich counts characters, and would squeeze Japanese to half its width."""
    return f'textLength="{cell_len(html.unescape(match[2])) * CELL_WIDTH:.1f}"{match[1]}>{match[2]}<'


if __name__ == "__main__":
    main()
