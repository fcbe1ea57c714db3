"""The report of one or several runs, as a page that needs nothing else to be read."""

from collections.abc import Sequence

from ms_crf.base.errors import OptionError, argument
from ms_crf.base.files import PathLike, check_writable, write_text
from ms_crf.base.watchers import SILENT, Watcher
from ms_crf.formats.registry import without_columns
from ms_crf.models.opening import device_for, run_plugin
from ms_crf.reports.figures import RunFigures, check_alike, figures_of, input_of
from ms_crf.reports.libraries import NAMES, library
from ms_crf.runs.arguments import ReportArguments
from ms_crf.runs.records import check_output, newest
from ms_crf.runs.run import Run
from ms_crf.text import bootstrap


def report(runs: Sequence[PathLike] | None = None, *, input: PathLike | None = None, output: PathLike = 'report.html',
           errors: int = 50, columns: str | None = None, unknown_tag: str | None = None,
           resamples: int = bootstrap.RESAMPLES, seed: int = bootstrap.SEED, plugin: PathLike | None = None,
           device: str = 'auto', watcher: Watcher = SILENT) -> list[RunFigures]:
    """Writes a page about a run: scores, learning curves, confusions, confidences and errors; or about several runs.

    Args:
        runs: run directories; by default the newest in runs/.
        input: tagged sentences; by default the test file that the first run names, or else its dev file.
        output: page to write.
        errors: how many sentences with errors are shown, the worst first.
        columns: columns of the token and of the tag; by default as the first run was trained.
        unknown_tag: the tag of tokens that nobody has judged; by default as the model was trained.
        resamples, seed: of the intervals; see `ms_crf.text.bootstrap`.
        plugin: Python file that registers kinds of model.
        device: 'auto', 'CPU', 'GPU' or 'Ascend'.
        watcher: is told which run is tagged.

    Returns:
        The figures of each run; `evaluation` has the scores.

    Raises:
        OptionError: an argument can't be, or has no effect beside the others, or a library is missing.
        CorpusError: a file has a fault.

    Example:
        >>> from ms_crf.api import report
        >>> figures = report(['runs/sample'], output='report.html')  # doctest: +SKIP
    """
    given = ReportArguments.given(locals())
    if given.plugin:
        run_plugin(given.plugin)
    check_output(given.output)
    for name in NAMES:
        library(name)
    opened = [Run.open(name) for name in given.runs or [newest('runs')]]
    tagged = input_of(opened[0], given.input, given.pair or None, given.unknown_tag)
    if given.columns is not None and (why := without_columns(tagged.path)):
        raise OptionError(f'{argument("columns")} means nothing {why}, which {tagged.path} has; leave it away')
    check_writable(given.output, tagged.path)
    device_for(given.device, *opened, watcher=watcher)
    figures: list[RunFigures] = []
    for run in opened:
        figures.append(figures_of(run, tagged, given.resamples, given.seed, given.errors, watcher.say))
        check_alike(figures)
    from ms_crf.reports.page import page  # here, because it imports the libraries
    write_text(given.output, page(figures, tagged))
    return figures
