"""Draw docs/search.svg: two real searches of the example documents, as a terminal shows them."""

import html
import io
import os
import pty
import re
import shlex
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
COMMANDS = ('search "環境構築の方法" --limit 2', 'search "how do I roll back a bad deployment?" --limit 2')
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
    """Draw and write."""
    (DOCS / "search.svg").write_text(draw(), encoding="utf-8")


def draw() -> str:
    """Search with the annai of this checkout, and record what it prints."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "docs"
        shutil.copytree(DOCS.parent / "examples", tree)
        # Neither the colours nor the settings of whoever draws it.
        environment = {"TERM": "xterm", "HOME": folder, "PYTHONPATH": str(DOCS.parent / "src")}
        command = [sys.executable, "-m", "annai"]
        subprocess.run([*command, "import"], cwd=tree, env=environment, check=True, capture_output=True)
        for typed in COMMANDS:
            console.print(Text(f"$ annai {typed}", style="bold"))
            console.print(Text.from_ansi(_on_a_terminal([*command, *shlex.split(typed)], tree, environment)))
    drawn = console.export_svg(title="annai", theme=THEME, code_format=FORM, unique_id="annai")
    return _TEXT.sub(_with_right_length, drawn)


def _on_a_terminal(command: list[str], folder: Path, environment: dict[str, str]) -> str:
    """What a terminal of that width is sent; a pipe would get uncut lines. Links are left out: a picture has none."""
    terminal, end = pty.openpty()
    termios.tcsetwinsize(end, (50, COLUMNS))
    with subprocess.Popen(command, cwd=folder, stdout=end, stderr=subprocess.DEVNULL, env=environment):
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
