"""What does the site do with links into the repository? They lead to no page of it, so it names the file instead."""

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent

LINK = re.compile(r"\[([^\]]*)\]\(((?:\.\./)+[^)#]+)(?:#[^)]*)?\)")


def on_page_markdown(markdown: str, *, page: Any, **_: object) -> str:  # noqa: ANN401 - MkDocs' own types are not needed
    """Replace links out of docs/ by the name of the file; one that leads nowhere stays, and the build fails."""

    def named(link: re.Match[str]) -> str:
        text, target = link.groups()
        file = (ROOT / "docs" / page.file.src_uri).parent.joinpath(target).resolve()
        if not file.exists() or file.is_relative_to(ROOT / "docs"):
            return link[0]
        name = file.relative_to(ROOT).as_posix()
        return f"`{name}`" if text.strip("`") in (name, target) else f"{text} (`{name}`)"

    return LINK.sub(named, markdown)
