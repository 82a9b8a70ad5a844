"""Does annai speak the protocol as its authors mean it? make conformance: their suite, on the project's own server.

The suite and the Node.js that it needs come from npm into `.conformance/`. Most scenarios call tools, prompts and
resources that only a server made for the suite has: `left_out.toml` names each of those, with the reason. Every other
one must pass, and one that is left out must still fail.
"""

import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
TOOLS = ROOT / ".conformance"
LEFT_OUT = Path(__file__).parent / "left_out.toml"

SUITE, NODE = "@modelcontextprotocol/conformance@0.1.16", "node@22"

# The suite sends no token, so the server asks for none; all else is as a user starts it.
SERVER = """
from annai.serving import daemon
daemon.required_token = lambda _config: ""
from annai.interfaces.cli import main
main()
"""

SECONDS = 300


def main() -> None:
    """Run the suite, compare with what is left out, and exit with 1 if they differ."""
    if not (TOOLS / "node_modules" / ".bin" / "conformance").exists():
        _install()
    with tempfile.TemporaryDirectory() as folder, _server(Path(folder)) as url:
        passed = _run(url, Path(folder))
    left_out = tomllib.loads(LEFT_OUT.read_text(encoding="utf-8"))
    problems = differences(passed, left_out)
    print(f"{sum(passed.values())} of {len(passed)} scenarios pass, {len(left_out)} do not apply ({LEFT_OUT.name}).")
    for problem in problems:
        print(problem, file=sys.stderr)
    sys.exit(bool(problems))


def differences(passed: Mapping[str, bool], left_out: Mapping[str, str]) -> list[str]:
    """What is not as it should be: scenario → whether it passed, against scenario → why it does not apply."""
    return [
        *(f"{name} fails." for name, has_passed in passed.items() if not has_passed and name not in left_out),
        *(f"{name} passes: take it out of {LEFT_OUT.name}." for name in left_out if passed.get(name)),
        *(f"{name} is no scenario: take it out of {LEFT_OUT.name}." for name in left_out if name not in passed),
        *([] if passed else ["The suite ran no scenario."]),
    ]


def _install() -> None:
    npm = shutil.which("npm")
    if npm is None:
        sys.exit("The suite comes from npm, which is not installed; install Node.js, or leave this out.")
    TOOLS.mkdir(exist_ok=True)
    subprocess.run([npm, "install", "--no-audit", "--no-fund", "--prefix", str(TOOLS), NODE, SUITE], check=True)


@contextmanager
def _server(folder: Path) -> Iterator[str]:
    """The server of a copy of the example documents; the address of its protocol."""
    docs = folder / "docs"
    shutil.copytree(ROOT / "examples", docs, ignore=shutil.ignore_patterns(".annai"))
    command = [sys.executable, "-c", SERVER, "mcp", "--http", "--port", "auto", "--docs-dir", str(docs)]
    with (folder / "server.log").open("w") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        assert process.stdout
        yield next(found[0] for line in process.stdout if (found := re.search(r"http://\S+:\d+", line))) + "/mcp"
    except BaseException:
        print((folder / "server.log").read_text(), file=sys.stderr)
        raise
    finally:
        process.terminate()
        process.communicate()


def _run(url: str, folder: Path) -> dict[str, bool]:
    """Scenario → whether it passed."""
    modules = TOOLS / "node_modules"
    suite = modules / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    options = ["--url", url, "--suite", "all", "-o", str(folder / "results")]
    command = [str(modules / ".bin" / "node"), str(suite), "server", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    summary = done.stdout.partition("=== SUMMARY ===")[2]
    lines = re.findall(r"^\S+ ([\w-]+): (\d+) passed, (\d+) failed", summary, re.MULTILINE)
    if not lines:
        print(done.stdout[-2000:], done.stderr[-2000:], file=sys.stderr)
    return {name: int(passed) > 0 and int(failed) == 0 for name, passed, failed in lines}


if __name__ == "__main__":
    main()
