"""The functions behind the commands, for programs and notebooks: `from ms_crf.api import train`.

Each takes keyword arguments that are called like the options of its command, prints nothing, and returns its result. A
`watcher` is told how it gets on, see `ms_crf.base.watchers`. A function is loaded when it is first asked for.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:                # the names of `_HOMES` for editors and type checkers, which do not run `__getattr__`
    from ms_crf.formats.convert import convert
    from ms_crf.reports.evaluation import evaluate
    from ms_crf.reports.report import report

_HOMES = {
    'convert': 'formats.convert',
    'evaluate': 'reports.evaluation',
    'report': 'reports.report',
}
__all__ = ['convert', 'evaluate', 'report']


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    value = getattr(importlib.import_module(f'ms_crf.{_HOMES[name]}'), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
