"""The names of Hypothesis that tests import. If Hypothesis is missing, tests that need it are skipped."""

import functools

import pytest

MISSING = 'Hypothesis is missing: pip install -r requirements-dev.txt'

try:
    from hypothesis import example, given, settings, strategies
except ModuleNotFoundError:
    class _Anything:
        """Replacement of strategies, which test files create at import."""

        def __getattr__(self, name):
            return self

        def __call__(self, *_, **__):
            return self

        def __or__(self, other):
            return self

    def given(*_, **__):
        def replaced(test):
            @pytest.mark.skip(reason=MISSING)
            @functools.wraps(test)
            def skipped(*_, **__):                               # if a test calls the function itself
                pytest.skip(MISSING)
            return skipped
        return replaced

    def settings(*_, **__):
        return lambda test: test

    example, strategies = settings, _Anything()

__all__ = ['example', 'given', 'settings', 'strategies']
