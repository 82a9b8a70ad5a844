"""Does an index survive a short chaos? `make chaos` has more time for it, and more that can happen."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "chaos.py"


@pytest.mark.skipif(sys.platform != "linux", reason="it kills and freezes processes in Linux's way")
def test_an_index_is_the_same_as_a_new_one_after_a_few_accidents() -> None:
    options = ["--steps", "60", "--seed", "7", "--without", "disk,clock,index,quiet"]
    done = subprocess.run([sys.executable, PROGRAM, *options], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
