"""Does a package keep annai's contracts? Suites for pytest, which is not a dependency of annai: `annai[testing]`.

This package is a pytest plugin too: with it, pytest explains the failures of these suites as it does those of a test.
"""

import pytest

pytest.register_assert_rewrite(*(f"annai.testing.{each}" for each in ("embedders", "rerankers", "splitters", "stores")))
