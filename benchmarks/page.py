"""How quick is the page? A browser measures the first view, and the time from a key to the results it leads to.

    python benchmarks/page.py [SET] [--questions N]

It indexes a set of ../shared/eval (or ANNAI_EVAL; docs_en), opens the page in Debian's chromium, and types questions of
the set as people do: each letter is a key press, and every answer that is drawn counts from the last key before it.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

EVAL = Path(os.environ.get("ANNAI_EVAL", Path(__file__).parents[2] / "shared" / "eval"))
PAUSE_MS = 90
"""Between two keys: a quick typist's."""

MAX_TYPED = 80
"""Letters of a question: nobody types a whole paragraph."""

MEASURE = """() => {
  const results = document.getElementById("results");
  window.times = [];
  let pressed = 0;
  document.getElementById("question").addEventListener("input", () => { pressed = performance.now(); });
  new MutationObserver(() => {
    const begin = pressed;
    if (begin) requestAnimationFrame(() => window.times.push(performance.now() - begin));
    pressed = 0;
  }).observe(results, { childList: true });
}"""


def main() -> None:
    """Print the times."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", nargs="?", default="docs_en")
    parser.add_argument("--questions", type=int, default=20)
    options = parser.parse_args()
    queries = (EVAL / options.set / "queries.jsonl").read_text(encoding="utf-8").splitlines()
    questions = [text for line in queries if len(text := json.loads(line)["text"]) <= MAX_TYPED]
    questions = questions[:: max(len(questions) // options.questions, 1)][: options.questions]
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder)
        with tarfile.open(EVAL / options.set / "tree.tar.gz") as tree:
            tree.extractall(project, filter="data")
        try:
            annai(project, "search", "warm up", "--yes")
            with sync_playwright() as driver:
                browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
                page = browser.new_page()
                opened = annai(project, "open", BROWSER="echo %s")
                page.goto(re.findall(r"http\S+#ticket=\S+", opened)[0])
                page.wait_for_function("document.getElementById('project').textContent")
                report("first view (first contentful paint)", [first_view(page) for _ in range(10)])
                page.evaluate(MEASURE)
                for question in questions:
                    page.fill("#question", "")
                    page.type("#question", question, delay=PAUSE_MS)
                    page.wait_for_timeout(300)
                report("key to results", page.evaluate("window.times"))
                browser.close()
        finally:
            annai(project, "server", "stop")


def first_view(page: Page) -> float:
    """Load the page again, and ask the browser when it first showed something."""
    page.reload()
    page.wait_for_function("performance.getEntriesByName('first-contentful-paint').length")
    return float(page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"))


def report(name: str, times: list[float]) -> None:
    """One line of figures."""
    ordered = sorted(times)
    late = ordered[min(int(len(ordered) * 0.95), len(ordered) - 1)]
    print(f"{name}: p50 {statistics.median(ordered):.0f} ms, p95 {late:.0f} ms ({len(ordered)} times)")


def annai(folder: Path, *arguments: str, **environment: str) -> str:
    """What annai prints."""
    command = [sys.executable, "-m", "annai", *arguments]
    done = subprocess.run(
        command, cwd=folder, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


if __name__ == "__main__":
    main()
