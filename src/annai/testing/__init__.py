"""Does a package keep annai's contracts? Suites for pytest, which is not a dependency of annai: `annai[testing]`.

This package is a pytest plugin too: with it, pytest explains the failures of these suites as it does those of a test.
"""

import pkgutil

import pytest

pytest.register_assert_rewrite(*(f"{__name__}.{each.name}" for each in pkgutil.iter_modules(__path__)))
