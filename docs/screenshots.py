"""Make docs/page/*.png: the page of the example documents, as a browser shows it (needs Debian's chromium)."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

DOCS = Path(__file__).parent
VARIANTS = {
    "en-light": ("en-US", "how do I roll back a bad deployment?"),
    "ja-dark": ("ja-JP", "環境構築の方法"),
}
SIZE = {"width": 1000, "height": 760}


def main() -> None:
    """Serve a copy of the examples, and take a picture of each view."""
    with tempfile.TemporaryDirectory() as folder:
        examples = Path(folder) / "tsubame"
        shutil.copytree(DOCS.parent / "examples", examples)
        try:
            annai(examples, "search", "warm up", "--yes")
            with sync_playwright() as driver:
                browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
                for variant, (language, question) in VARIANTS.items():
                    scheme = variant.rpartition("-")[2]
                    page = browser.new_page(locale=language, color_scheme=scheme, viewport=SIZE)  # type: ignore[arg-type]
                    opened = annai(examples, "open", environment={"BROWSER": "echo %s"})
                    page.goto(re.findall(r"http\S+#ticket=\S+", opened)[0])
                    take(page, variant, question)
                browser.close()
        finally:
            annai(examples, "server", "stop")


def annai(folder: Path, *arguments: str, environment: dict[str, str] | None = None) -> str:
    """What annai prints."""
    command = [sys.executable, "-m", "annai", *arguments]
    return subprocess.run(
        command, cwd=folder, env=os.environ | (environment or {}), capture_output=True, text=True, check=False
    ).stdout


def take(page: Page, variant: str, question: str) -> None:
    """Pictures of the search, of its first result and of the index."""
    (DOCS / "page").mkdir(exist_ok=True)
    page.fill("#question", question)
    page.wait_for_selector(f'#results[data-for="{question}"]')
    page.screenshot(path=DOCS / "page" / f"search-{variant}.png")
    page.click(".result .open")
    page.wait_for_selector("#text .hit")
    page.screenshot(path=DOCS / "page" / f"reader-{variant}.png")
    page.click("nav [data-view=index]")
    page.wait_for_selector("#map a")
    page.screenshot(path=DOCS / "page" / f"index-{variant}.png")


if __name__ == "__main__":
    main()
