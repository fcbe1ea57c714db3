"""The commands as functions, for programs and notebooks: `from ms_crf.api import train`.

Keyword arguments have the names of the command-line options. Functions print nothing and return their results. A
`watcher` receives messages and progress, see `ms_crf.base.watchers`. Functions are imported at their first use.
"""

from typing import TYPE_CHECKING

from ms_crf.base.environment import by_name, loader

if TYPE_CHECKING:                # the names of `_MODULES` for editors and type checkers, which do not run `__getattr__`
    from ms_crf.bulk.tag_many import tag_many
    from ms_crf.experiments.compare import compare
    from ms_crf.experiments.train import train
    from ms_crf.formats.convert import convert
    from ms_crf.models.opening import export
    from ms_crf.reports.evaluation import evaluate
    from ms_crf.reports.report import report
    from ms_crf.server.serve import serve
    from ms_crf.tagging.files import tag
    from ms_crf.tagging.suggest import suggest

_MODULES = by_name({
    'bulk.tag_many': 'tag_many', 'experiments.compare': 'compare', 'experiments.train': 'train',
    'formats.convert': 'convert', 'models.opening': 'export', 'reports.evaluation': 'evaluate',
    'reports.report': 'report', 'server.serve': 'serve', 'tagging.files': 'tag', 'tagging.suggest': 'suggest'})
__all__ = ['compare', 'convert', 'evaluate', 'export', 'report', 'serve', 'suggest', 'tag', 'tag_many', 'train']
__getattr__ = loader(__name__, globals(), _MODULES)
