"""The report of one or several runs, as a page that needs nothing else to be read."""

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
from ms_crf.reports.analysis import BORDERS, OTHERS, Confusion, Reliability, most_confused
from ms_crf.reports.figures import Believable, Input, RunFigures, figures_of, input_of, options_that_differ
from ms_crf.reports.pictures import LIBRARIES, library
from ms_crf.runs.arguments import ReportArguments
from ms_crf.runs.records import check_output, newest
from ms_crf.runs.run import SavedRun
from ms_crf.text import bootstrap
from ms_crf.text.bootstrap import LEVEL, Interval, difference

MOST_TYPES = 40                # in the picture of scores by type; the table has them all
_UNSHOWN = re.compile('[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]')
_CONTENTS_OF_ONE = [('scores', 'Scores'), ('course', 'Training'), ('confusion', 'Confusion'),
                    ('transitions', 'Transitions'), ('confidence', 'Confidences'), ('parts', 'Parts'),
                    ('errors', 'Errors'), ('origin', 'Speed and origin')]
_CONTENTS_OF_SEVERAL = [('scores', 'Scores'), ('differences', 'Differences'), ('types', 'Types'),
                        ('course', 'Trainings'), ('origin', 'Options')]


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
    given = ReportArguments.from_call(locals())
    if given.plugin:
        run_plugin(given.plugin)
    check_output(given.output)
    for name in LIBRARIES:
        library(name)
    opened = [SavedRun.open(name) for name in given.runs or [newest('runs')]]
    tagged = input_of(opened[0], given.input, given.pair or None, given.unknown_tag)
    if given.columns is not None and (why := without_columns(tagged.path)):
        raise OptionError(f'{argument("columns")} means nothing {why}, which {tagged.path} has; leave it away')
    check_writable(given.output, tagged.path)
    device_for(given.device, *opened, watcher=watcher)
    figures: list[RunFigures] = []
    for run in opened:
        figures.append(figures_of(run, tagged, given.resamples, given.seed, given.errors, watcher))
        first, last = figures[0].evaluation, figures[-1].evaluation
        if last.plain != first.plain:
            raise OptionError(f'{run.path} must have tags of the same kind as {opened[0].path}, {first.scheme}, got '
                              f'{last.scheme}')
    write_text(given.output, page(figures, tagged))
    return figures


def shown(text: str) -> str:
    """A text without what no page can hold: control characters and halves of characters are replaced."""
    return _UNSHOWN.sub('\ufffd', text)


def _named(label: str | None) -> str:
    """What a type or tag is called."""
    return 'nothing' if label is None else 'all others' if label == OTHERS else shown(label) or 'no type'


def _or_none(form: Callable[[Any], str]) -> Callable[[Any], str]:
    """A filter that says 'none' for what is not there."""
    undefined = library('jinja2').Undefined
    return lambda value: 'none' if value is None or isinstance(value, undefined) else form(value)


def _environment() -> Any:
    jinja2 = library('jinja2')
    made = jinja2.Environment(autoescape=True, loader=jinja2.FileSystemLoader(Path(__file__).parent), trim_blocks=True)
    made.filters.update(
        named=_named, count=lambda value: f'{value:,.0f}', points=lambda value: f'{100 * value:+.2f}',
        percent=_or_none(lambda value: f'{100 * value:.2f}'), number=_or_none(lambda value: f'{value:.4g}'),
        interval=_or_none(lambda value: f'{100 * value[0]:.2f} to {100 * value[1]:.2f}'))
    return made


def page(runs: Sequence[RunFigures], given: Input) -> str:
    """The whole page, as HTML.

    Args:
        runs: one, or several to be set side by side.
        given: what they were scored on.
    """
    first = runs[0]
    common = {'input': given, 'evaluation': first.evaluation, 'level': f'{100 * LEVEL:.0f} %',
              'units': 'tags' if first.evaluation.plain else 'entities', 'made_by': f'ms_crf {VERSION}',
              'blank': '' if first.of_characters else ' '}
    own = _one(first) if len(runs) == 1 else _several(runs)
    style = _safe(f'{PALETTE}{pictures.style()}\n{own.pop("mark_style", "")}\n{asset(__file__, "page.css")}')
    return shown(_environment().get_template('page.html').render(style=style, **common, **own))


def _safe(text: str) -> Any:
    """Text of `pictures` that needs no escaping, as names in it are escaped already."""
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
        'best': pictures.best_of(run.metrics), 'has_rates': any('learning_rate' in one for one in run.metrics),
        'confused': list(most_confused(counts)), 'matrix': _matrix(run.confusion, evaluation.plain),
        'border_names': BORDERS, 'missed': sum(count for (_, other), count in counts.items() if other is None),
        'invented': sum(count for (one, _), count in counts.items() if one is None),
        'calibration_rows': _calibration_rows(run.believable),
        'verdict': _verdict(run.believable), 'mark_style': colour_rules(evaluation.types),
        'classes': {kind: f't{index}' for index, kind in enumerate(evaluation.types)},
        'typed': typed, 'pictures': _pictures(run, overall, by_type)}


def _matrix(found: Confusion, plain: bool) -> dict[str, Any]:
    """Columns and rows of the table of confusions; each cell a count and how it looks."""
    labels: list[str | None] = [*found.labels, *([OTHERS] if found.others else []), *([] if plain else [None])]
    return {'columns': labels, 'rows': [
        (one, [(found.counts[one, other], 'diagonal' if one == other else 'hot' if found.counts[one, other] else '')
               for other in labels]) for one in labels]}


def _calibration_rows(found: Believable | None) -> list[tuple[str, Reliability]]:
    sides = (('', found.before), (', under the temperature', found.after)) if found else ()
    return [(f'of {unit}{end}', side[unit]) for unit in ('tags', 'entities') for end, side in sides if unit in side]


def _verdict(found: Believable | None) -> str:
    """Whether the temperature helps on the file that is scored, in a sentence."""
    if found is None or not found.after:
        return ''
    words = [f'that of {unit} from {100 * found.before[unit].ece:.2f} to {100 * after.ece:.2f}'
             for unit, after in found.after.items()]
    return f'On the sentences scored here it changes the calibration error: {" and ".join(words)}.'


def _pictures(run: RunFigures, overall: Interval | None, by_type: dict[str, Interval | None]) -> dict[str, Any]:
    evaluation, made = run.evaluation, {}
    spans = evaluation.score
    if 1 < len(spans.by_type) <= MOST_TYPES:
        rows = [('overall', spans.spans.f1, overall)]
        rows += [(_named(kind), one.f1, by_type[kind]) for kind, one in spans.by_type.items()]
        made['types'] = pictures.intervals(rows, 'picture-types')
    if run.metrics:
        made['course'] = pictures.courses({run.path: run.metrics}, _main(run), 'picture-course')
    if run.chain is not None and len(run.tags) <= pictures.MOST_TAGS:
        made['transitions'] = pictures.transitions(run.chain, list(map(shown, run.tags)), 'picture-transitions')
    panels = _panels(run.believable)
    if panels:
        made['reliability'] = pictures.reliabilities(panels, 'picture-reliability')
    return {name: _safe(svg) for name, svg in made.items()}


def _main(run: RunFigures) -> str:
    """The score that the best epoch is chosen by."""
    return 'accuracy' if run.evaluation.plain else 'f1'


def _panels(found: Believable | None) -> dict[str, list[tuple[str, Reliability]]]:
    if found is None:
        return {}
    sides = [('as it is', found.before)]
    if found.fit:
        sides.append((f'temperature {found.fit.temperature:.2f}', found.after))
    return {title: [(name, side[unit]) for name, side in sides if unit in side]
            for unit, title in (('tags', 'tags of tokens'), ('entities', 'entities')) if unit in found.before}


# Several runs

def _several(runs: Sequence[RunFigures]) -> dict[str, Any]:
    courses = {run.path: run.metrics for run in runs if run.metrics}
    made = {}
    if courses:
        made['course'] = _safe(pictures.courses(courses, _main(runs[0]), 'picture-course'))
    return {'kind': 'several_runs.html', 'title': f'{len(runs)} runs side by side', 'runs': runs,
            'contents': _CONTENTS_OF_SEVERAL, 'pairs': [_pair(*pair) for pair in combinations(runs, 2)],
            'type_rows': _type_rows(runs), 'pictures': made,
            'without_course': [run.path for run in runs if not run.metrics],
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
    """For each type how many are gold, and F1 and its interval of each run."""
    found = [run.evaluation.intervals(run.evaluation.counts)[1] for run in runs]
    rows = []
    for kind in sorted({kind for run in runs for kind in run.evaluation.types}):
        scores = [run.evaluation.score.by_type.get(kind) for run in runs]
        gold = max(score.gold for score in scores if score is not None)
        rows.append((kind, gold, [(None if score is None else score.f1, intervals.get(kind))
                                  for score, intervals in zip(scores, found)]))
    return rows
