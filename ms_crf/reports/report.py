"""Writes the report of one run, or a comparison of several runs, as one HTML file that loads nothing."""

import re
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from ms_crf.base.environment import VERSION
from ms_crf.base.errors import OptionError, argument
from ms_crf.base.files import PathLike, check_writable, write_text
from ms_crf.base.watchers import SILENT, Watcher
from ms_crf.formats.registry import without_columns
from ms_crf.models.chains import LOGARITHMS
from ms_crf.models.opening import device_for, run_plugin
from ms_crf.render.html import PALETTE, asset, colour_rules
from ms_crf.reports import pictures
from ms_crf.reports.analysis import BOUNDARIES, OTHERS, Confusion, Reliability, most_confused
from ms_crf.reports.figures import Calibration, ReportInput, RunFigures, figures_of, input_of, options_that_differ
from ms_crf.reports.pictures import LIBRARIES, library
from ms_crf.runs.arguments import ReportArguments
from ms_crf.runs.records import check_output, newest
from ms_crf.runs.run import SavedRun
from ms_crf.text import bootstrap
from ms_crf.text.bootstrap import LEVEL, Interval, difference

MOST_TYPES = 40                # the plot of scores by type is omitted with more types; the table shows all types
_UNSHOWN = re.compile('[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]')
_CONTENTS_OF_ONE = [('scores', 'Scores'), ('curves', 'Learning curves'), ('confusion', 'Confusion matrix'),
                    ('transitions', 'Transitions'), ('calibration', 'Calibration'), ('groups', 'Groups'),
                    ('errors', 'Error list'), ('settings', 'Speed and settings')]
_CONTENTS_OF_SEVERAL = [('scores', 'Scores'), ('differences', 'Differences'), ('types', 'F1 by type'),
                        ('curves', 'Learning curves'), ('settings', 'Settings')]


def report(runs: Sequence[PathLike] | None = None, *, input: PathLike | None = None, output: PathLike = 'report.html',
           errors: int = 50, columns: str | None = None, unknown_tag: str | None = None,
           resamples: int = bootstrap.RESAMPLES, seed: int = bootstrap.SEED, plugin: PathLike | None = None,
           device: str = 'auto', watcher: Watcher = SILENT) -> list[RunFigures]:
    """Writes an HTML report of a run, or a comparison of several runs.

    The report of a run has scores, learning curves, confusion matrix, transitions, calibration and an error list.

    Args:
        runs: run directories; by default the newest run in runs/.
        input: tagged sentences; by default the test file of the first run, or its dev file if it has no test file.
        output: HTML file to write.
        errors: number of sentences in the error list, which begins with the worst mistakes.
        columns: indices of the token column and the tag column; by default as in the training of the first run.
        unknown_tag: the tag of tokens that are not annotated; by default as in the training.
        resamples, seed: number of resamples and seed of the intervals; see `ms_crf.text.bootstrap`.
        plugin: Python file that registers model types.
        device: 'auto', 'CPU', 'GPU' or 'Ascend'.
        watcher: receives a line for each run.

    Returns:
        The figures of each run; `evaluation` has the scores.

    Raises:
        OptionError: an argument is invalid or has no effect with the other arguments, or a library is missing.
        CorpusError: a file is invalid.

    Example:
        >>> from ms_crf.api import report
        >>> figures = report(['runs/sample'], output='report.html')  # doctest: +SKIP
    """
    arguments = ReportArguments.from_call(locals())
    if arguments.plugin:
        run_plugin(arguments.plugin)
    check_output(arguments.output)
    for name in LIBRARIES:
        library(name)
    opened = [SavedRun.open(name) for name in arguments.runs or [newest('runs')]]
    tagged = input_of(opened[0], arguments.input, arguments.pair or None, arguments.unknown_tag)
    if arguments.columns is not None and (why := without_columns(tagged.path)):
        raise OptionError(f'{argument("columns")} has no effect {why}, the format of {tagged.path}; omit it')
    check_writable(arguments.output, tagged.path)
    device_for(arguments.device, *opened, watcher=watcher)
    figures: list[RunFigures] = []
    for run in opened:
        figures.append(figures_of(run, tagged, arguments.resamples, arguments.seed, arguments.errors, watcher))
        first, last = figures[0].evaluation, figures[-1].evaluation
        if last.plain != first.plain:
            raise OptionError(f'{run.path}: expected tags in {first.scheme} as in {opened[0].path}, got {last.scheme}; '
                              'spans and plain tags cannot be compared')
    write_text(arguments.output, page(figures, tagged))
    return figures


def shown(text: str) -> str:
    """Returns a text in which � replaces control characters and unpaired surrogates, which HTML cannot contain."""
    return _UNSHOWN.sub('\ufffd', text)


def _named(label: str | None) -> str:
    """Returns the displayed name of a type or tag."""
    return 'no entity' if label is None else 'other' if label == OTHERS else shown(label) or 'no type'


def _or_none(form: Callable[[Any], str]) -> Callable[[Any], str]:
    """Returns a template filter that shows missing values as 'none' and formats other values with `form`."""
    undefined = library('jinja2').Undefined
    return lambda value: 'none' if value is None or isinstance(value, undefined) else form(value)


def _environment() -> Any:
    jinja2 = library('jinja2')
    loader = jinja2.FileSystemLoader(Path(__file__).parent)
    environment = jinja2.Environment(autoescape=True, loader=loader, trim_blocks=True)
    environment.filters.update(
        named=_named, count=lambda value: f'{value:,.0f}', points=lambda value: f'{100 * value:+.2f}',
        percent=_or_none(lambda value: f'{100 * value:.2f}'), number=_or_none(lambda value: f'{value:.4g}'),
        interval=_or_none(lambda value: f'{100 * value[0]:.2f} to {100 * value[1]:.2f}'))
    return environment


def page(runs: Sequence[RunFigures], file: ReportInput) -> str:
    """Returns the page as HTML.

    Args:
        runs: the figures of one run, or of several runs to compare.
        file: the tagged file of the figures.
    """
    first = runs[0]
    common = {'input': file, 'evaluation': first.evaluation, 'level': f'{100 * LEVEL:.0f} %',
              'units': 'tags' if first.evaluation.plain else 'entities', 'made_by': f'ms_crf {VERSION}',
              'blank': '' if first.of_characters else ' '}
    own = _one(first) if len(runs) == 1 else _several(runs)
    style = _safe(f'{PALETTE}{pictures.style()}\n{own.pop("mark_style", "")}\n{asset(__file__, "page.css")}')
    return shown(_environment().get_template('page.html').render(style=style, **common, **own))


def _safe(text: str) -> Any:
    """Marks text from `pictures` as safe HTML: `pictures` has already escaped the names in it."""
    return library('markupsafe').Markup(text)


# One run

def _one(run: RunFigures) -> dict[str, Any]:
    evaluation, counts = run.evaluation, run.confusion.counts
    overall, by_type = evaluation.intervals(evaluation.counts)
    typed, token_rows = evaluation.types != [''], evaluation.rows(evaluation.token_counts)
    return {
        'kind': 'one_run.html', 'title': f'Report of {run.path}', 'contents': _CONTENTS_OF_ONE, 'run': run,
        'logarithms': LOGARITHMS,
        'exact_overall': overall, 'exact_by_type': by_type, 'token_rows': token_rows if typed else token_rows[:1],
        'best': pictures.best_of(run.metrics), 'has_rates': any('learning_rate' in record for record in run.metrics),
        'confused': list(most_confused(counts)), 'matrix': _matrix(run.confusion, evaluation.plain),
        'boundary_names': BOUNDARIES, 'missed': sum(count for (_, other), count in counts.items() if other is None),
        'spurious': sum(count for (one, _), count in counts.items() if one is None),
        'calibration_rows': _calibration_rows(run.calibration),
        'verdict': _verdict(run.calibration), 'mark_style': colour_rules(evaluation.types),
        'classes': {kind: f't{index}' for index, kind in enumerate(evaluation.types)},
        'typed': typed, 'pictures': _pictures(run, overall, by_type)}


def _matrix(matrix: Confusion, plain: bool) -> dict[str, Any]:
    """Returns the columns and rows of the confusion matrix; a cell is a count and a CSS class."""
    labels: list[str | None] = [*matrix.labels, *([OTHERS] if matrix.others else []), *([] if plain else [None])]
    return {'columns': labels, 'rows': [
        (gold, [(count := matrix.counts[gold, label], 'diagonal' if gold == label else 'hot' if count else '')
                for label in labels]) for gold in labels]}


def _calibration_rows(calibration: Calibration | None) -> list[tuple[str, Reliability]]:
    sides = (('', calibration.before), (' with the temperature', calibration.after)) if calibration else ()
    return [(f'{unit}{end}', side[unit]) for unit in ('tags', 'entities') for end, side in sides if unit in side]


def _verdict(calibration: Calibration | None) -> str:
    """Returns a sentence about the effect of the temperature on the calibration error of the evaluated file."""
    if calibration is None or not calibration.after:
        return ''
    words = [f'of {unit} from {100 * calibration.before[unit].ece:.2f} to {100 * after.ece:.2f}'
             for unit, after in calibration.after.items()]
    return f'On this file, the temperature changes the calibration error {" and ".join(words)}.'


def _pictures(run: RunFigures, overall: Interval | None, by_type: dict[str, Interval | None]) -> dict[str, Any]:
    evaluation, plots = run.evaluation, {}
    spans = evaluation.score
    if 1 < len(spans.by_type) <= MOST_TYPES:
        rows = [('overall', spans.spans.f1, overall)]
        rows += [(_named(kind), score.f1, by_type[kind]) for kind, score in spans.by_type.items()]
        plots['types'] = pictures.interval_plot(rows, 'picture-types')
    if run.metrics:
        plots['curves'] = pictures.learning_curves({run.path: run.metrics}, _main(run), 'picture-curves')
    if run.chain is not None and len(run.tags) <= pictures.MOST_TAGS:
        plots['transitions'] = pictures.transition_plot(run.chain, list(map(shown, run.tags)), 'picture-transitions')
    panels = _panels(run.calibration)
    if panels:
        plots['reliability'] = pictures.reliability_diagrams(panels, 'picture-reliability')
    return {name: _safe(svg) for name, svg in plots.items()}


def _main(run: RunFigures) -> str:
    """Returns the name of the score that chooses the best epoch."""
    return 'accuracy' if run.evaluation.plain else 'f1'


def _panels(calibration: Calibration | None) -> dict[str, list[tuple[str, Reliability]]]:
    if calibration is None:
        return {}
    sides = [('no temperature', calibration.before)]
    if calibration.fit:
        sides.append((f'temperature {calibration.fit.temperature:.2f}', calibration.after))
    return {title: [(name, side[unit]) for name, side in sides if unit in side]
            for unit, title in (('tags', 'tags of tokens'), ('entities', 'entities')) if unit in calibration.before}


# Several runs

def _several(runs: Sequence[RunFigures]) -> dict[str, Any]:
    metrics = {run.path: run.metrics for run in runs if run.metrics}
    plots = {}
    if metrics:
        plots['curves'] = _safe(pictures.learning_curves(metrics, _main(runs[0]), 'picture-curves'))
    return {'kind': 'several_runs.html', 'title': f'Comparison of {len(runs)} runs', 'runs': runs,
            'contents': _CONTENTS_OF_SEVERAL, 'pairs': [_pair(*pair) for pair in combinations(runs, 2)],
            'type_rows': _type_rows(runs), 'pictures': plots,
            'without_curves': [run.path for run in runs if not run.metrics],
            'option_rows': options_that_differ(runs)}


def _pair(one: RunFigures, other: RunFigures) -> dict[str, Any]:
    first, second = one.evaluation, other.evaluation
    test = difference(first.counts.sum(1), second.counts.sum(1), first.resamples, first.seed)
    right = list(zip(*([score.spans.correct == score.spans.predicted == score.spans.gold for score in each]
                       for each in (first.sentence_scores, second.sentence_scores))))
    return {'first': one.path, 'second': other.path, 'difference': test, 'both': right.count((True, True)),
            'only_first': right.count((True, False)), 'only_second': right.count((False, True)),
            'none': right.count((False, False))}


def _type_rows(runs: Sequence[RunFigures]) -> list[tuple[str, int, list[tuple[float | None, Interval | None]]]]:
    """Returns a row for each type: the number of gold spans, and F1 with its interval for each run."""
    intervals_of_runs = [run.evaluation.intervals(run.evaluation.counts)[1] for run in runs]
    rows = []
    for kind in sorted({kind for run in runs for kind in run.evaluation.types}):
        scores = [run.evaluation.score.by_type.get(kind) for run in runs]
        gold = max(score.gold for score in scores if score is not None)
        rows.append((kind, gold, [(None if score is None else score.f1, intervals.get(kind))
                                  for score, intervals in zip(scores, intervals_of_runs)]))
    return rows
