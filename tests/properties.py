"""The names of Hypothesis that the tests use; where it is missing, tests that need it are skipped."""

import pytest

try:
    from hypothesis import example, given, settings, strategies
except ModuleNotFoundError:
    class _Anything:
        """Takes the place of strategies, which are built when a file of tests is imported."""

        def __getattr__(self, name):
            return self

        def __call__(self, *_, **__):
            return self

        def __or__(self, other):
            return self

    def given(*_, **__):
        return pytest.mark.skip(reason='Hypothesis is missing: pip install -r requirements-dev.txt')

    def settings(*_, **__):
        return lambda test: test

    example, strategies = settings, _Anything()

__all__ = ['example', 'given', 'settings', 'strategies']
