"""What does the site change? Links into the repository, where lines of Japanese are joined, how its search splits."""

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent

LINK = re.compile(r"\[([^\]]*)\]\(((?:\.\./)+[^)#]+)(?:#[^)]*)?\)")
FENCED = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
BREAK = re.compile(r"(?<=[、。：）」])\n *(?![-#|`>*\s])|(?<=[\u3040-\u9fff])\n *(?=[\u3001-\u9fff\uff01-\uff60])")
"""Where a line ends inside a sentence: a browser would show a space there, and Japanese has none."""


def on_page_markdown(markdown: str, *, page: Any, **_: object) -> str:  # noqa: ANN401 - MkDocs' own types are not needed
    """Replace links out of docs/ by the name of the file; one that leads nowhere stays, and the build fails."""

    def named(link: re.Match[str]) -> str:
        text, target = link.groups()
        file = (ROOT / "docs" / page.file.src_uri).parent.joinpath(target).resolve()
        if not file.exists() or file.is_relative_to(ROOT / "docs"):
            return link[0]
        name = file.relative_to(ROOT).as_posix()
        return f"`{name}`" if text.strip("`") in (name, target) else f"{text} (`{name}`)"

    if page.file.src_uri.endswith(".ja.md"):
        parts = FENCED.split(markdown)
        markdown = "".join(part if part.startswith("```") else BREAK.sub("", part) for part in parts)
    return LINK.sub(named, markdown)


def on_env(_: object, *, config: Any, **__: object) -> None:  # noqa: ANN401
    """Let the search split by its separator alone (mkdocs.yml): i18n adds a segmenter that what is typed never sees."""
    config.plugins["material/search"].search_index.config["lang"] = ["en"]
