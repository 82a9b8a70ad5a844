"""Does the built package work without a checkout? `python tests/wheel.py dist` installs the wheel and asks it."""

import json
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

DOCUMENTS = {
    "deploy.md": "# Deployment\n\n## Rolling back\n\nTo undo a bad release, run `ship rollback`.\n",
    "案内/環境.md": "# 環境構築\n\n## 手順\n\nPython を入れてから、依存関係を導入する。\n",
}
QUESTIONS = {"how do I undo a bad release?": "deploy.md", "環境構築の手順": "案内/環境.md"}


def ask(program: list[str], folder: Path) -> None:
    """Ask the program questions in a new folder of documents; fails unless each is answered by the right one."""
    for name, text in DOCUMENTS.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    for question, right in QUESTIONS.items():
        command = [*program, "search", question, "--format", "json"]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, encoding="utf-8", check=False)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["results"][0]["path"] == right, done.stdout


def main() -> None:
    """Install the wheel of a folder, with all that it needs, into a new environment."""
    (wheel,) = Path(sys.argv[1]).resolve().glob("*.whl")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        venv.create(Path(temporary, "environment"), with_pip=True)
        python = Path(temporary, "environment", *(("Scripts", "python.exe") if os.name == "nt" else ("bin", "python")))
        subprocess.run([python, "-m", "pip", "install", "--quiet", wheel], check=True)
        ask([str(python), "-m", "annai"], Path(temporary, "documents"))
        print(f"{wheel.name} answers on Python {sys.version.split()[0]}.")


if __name__ == "__main__":
    main()
