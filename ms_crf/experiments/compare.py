"""Several models trained on the same files, and their scores on test side by side."""

import contextlib
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ms_crf.base import files, processes
from ms_crf.base.errors import OptionError, argument
from ms_crf.base.files import PathLike, new_folder
from ms_crf.base.watchers import SILENT, Watcher
from ms_crf.experiments.folds import Fold, read_folds
from ms_crf.experiments.runner import RATES, Children, PlannedRun, Value, markdown, mean_and_deviation, prepare, run_all
from ms_crf.formats.registry import read_corpus
from ms_crf.models.base import Kind, kind_of
from ms_crf.models.opening import run_plugin
from ms_crf.runs import records
from ms_crf.runs.arguments import CompareArguments, selected_by
from ms_crf.runs.checksums import PARTS
from ms_crf.runs.directory import check_parent, nearest_folder
from ms_crf.runs.options import Options
from ms_crf.tagging.tagger import Run
from ms_crf.text.metrics import Scores, as_record
from ms_crf.text.schemes import PLAIN, spans_of, strict_spans_of
from ms_crf.training.train import named_options, takes_options

#: arguments of `train` that the comparison gives each run itself, as it does the seed without folds
_OWN = ('model', 'head', 'save', 'overwrite', 'resume')
_HEADS = {**RATES, 'ill_formed': 'ill-formed spans', 'train_seconds': 'training s',
          'sentences_per_second': 'sentences/s'}
#: figures of which the table has the median
_MEDIANS = {'train_seconds': '.1f', 'sentences_per_second': ',.0f'}


@dataclass
class Comparison:
    """The figures of several models on the same files.

    Attributes:
        figures: for each model the figures of its runs: `seed`, perhaps `fold`, `precision`, `recall`, `f1`,
            `accuracy`, `ill_formed` (the share of invalid spans), `train_seconds` and `sentences_per_second`.
    """

    figures: dict[str, list[dict[str, float]]] = field(default_factory=dict)

    def table(self) -> str:
        """Returns a table in Markdown: a row for each model, with mean ± standard deviation if it has several runs."""
        rows = []
        for model, runs in self.figures.items():
            columns = {name: [run[name] for run in runs] for name in _HEADS}
            rows.append([model, str(len(runs)), *(
                format(statistics.median(values), _MEDIANS[name]) if name in _MEDIANS else mean_and_deviation(values)
                for name, values in columns.items())])
        return markdown(['model', 'runs', *_HEADS.values()], rows)

    def write(self, path: str | None) -> None:
        """Writes the figures to a file, if it has a name and there are figures."""
        if path and self.figures:
            files.write_json(path, self.figures)


@takes_options(*_OWN)
def compare(*, train: PathLike | None = None, dev: PathLike | None = None, test: PathLike | None = None,
            models: str | Sequence[str] = CompareArguments.models, seeds: int = 3, folds: int | None = None,
            jobs: int = 1, json: PathLike | None = None, keep: PathLike | None = None, config: PathLike | None = None,
            plugin: PathLike | None = None, device: str = 'auto', watcher: Watcher = SILENT,
            children: Children | None = None, **options: Value) -> Comparison:
    """Trains several models on the same files, each in processes of its own, and scores them on test.

    Args:
        train, dev, test: files of tagged sentences; with `folds` only `train` is needed, and `test` cannot be used.
        models: some of 'hmm', 'softmax', 'crf', and of custom model types.
        seeds: runs of each model that is random.
        folds: cross-validation with this number of folds of `train`.
        jobs: number of trainings at the same time.
        json: file to write all figures to.
        keep: folder for the run directories, which are removed without it.
        config: JSON file with an object of options; options of the call win.
        plugin: Python file that registers model types.
        device: 'auto', 'CPU', 'GPU' or 'Ascend'.
        watcher: receives the runs that begin, and their output unless `children` names streams.
        children: how processes are started, and where their output goes.
        options: options of `train`; each model gets those that have an effect on it.

    Returns:
        The figures of all runs by model, and a `table()` of them.

    Raises:
        OptionError: an argument can't be or has no effect, or a training failed.
        CorpusError: a file has a fault.
        KeyboardInterrupt: a signal stopped the comparison.
            Every exception that ends a comparison early has the attribute `comparison`, the figures of the finished
            runs, which `json` holds as well.

    Example:
        >>> from ms_crf.api import compare
        >>> found = compare(train='train.tsv', dev='dev.tsv', test='test.tsv', models=['hmm', 'crf'])  # doctest: +SKIP
        >>> print(found.table())                                                                # doctest: +SKIP
    """
    if plugin is not None:
        run_plugin(str(plugin))
    given = CompareArguments.from_call({**locals(), 'models': models if isinstance(models, str) else ','.join(models)})
    paths = {part: str(path) for part, path in zip(PARTS, (train, dev, test)) if path is not None}
    named = _named(given, {**paths, **options})
    comparison = Comparison()
    try:
        _run(comparison, given, named, watcher, children)
    except BaseException as error:
        error.comparison = comparison  # type: ignore[attr-defined] # what was measured before
        raise
    return comparison


def _run(comparison: Comparison, given: CompareArguments, named: dict[str, Value], watcher: Watcher,
         children: Children | None) -> None:
    """Trains and measures all models."""
    with contextlib.ExitStack() as stack:
        folder = Path(given.keep or stack.enter_context(files.temporary(new_folder())))
        runs, cut = _planned(given, named, folder, watcher)
        _check_places(given, named, folder, [*(run.folder for run in runs), *cut])
        _prepare(given, runs, watcher)
        check = stack.enter_context(processes.deferred_signals())
        stack.callback(comparison.write, given.json)             # also after an exception
        for place, fold in cut.items():
            fold.write(place)
        for first in range(0, len(runs), given.jobs):
            check()
            together = runs[first:first + given.jobs]
            run_all(together, given.jobs, 'the table has what was done before', children, watcher)
            for run in together:
                figures = measure(run.folder, check)
                comparison.figures.setdefault(run.model, []).append({
                    'seed': run.seed, **({} if run.fold is None else {'fold': run.fold}), **figures,
                    'train_seconds': run.seconds})


def measure(folder: PathLike, check: Callable[[], None] = lambda: None) -> dict[str, float]:
    """Returns the figures of a run on its test file.

    Args:
        folder: the run directory.
        check: is called between long steps, and may raise.

    Returns:
        `precision`, `recall`, `f1`, `accuracy`, `ill_formed` and `sentences_per_second`.
    """
    run = Run.open(folder)
    options = run.options
    check()
    tagger = run.tagger()
    sentences = read_corpus(options.test, options.column_pair(), tagger.splitter, mark=options.unknown_tag)
    tokens = [sentence.tokens for sentence in sentences]
    check()
    tagger.tag(tokens, confidence=False)                         # compiles
    check()
    began = time.perf_counter()
    predicted = [tagged.tags for tagged in tagger.tag(tokens, confidence=False)]
    seconds = time.perf_counter() - began
    check()
    scores = Scores(tagger.file_scheme, tagger.scheme, options.test)
    scores.add([sentence.line for sentence in sentences], [sentence.tags for sentence in sentences], predicted)
    return {**as_record(scores.result), 'ill_formed': ill_formed(predicted, tagger.scheme),
            'sentences_per_second': len(tokens) / seconds}


def ill_formed(tags: Sequence[Sequence[str]], scheme: str) -> float:
    """Returns the share of spans, among the spans by the rules of conlleval, that are invalid in their scheme."""
    if scheme == PLAIN:
        return 0.0
    spans = sum(len(spans_of(row)) for row in tags)
    valid = sum(len(set(spans_of(row)) & set(strict_spans_of(row, scheme))) for row in tags)
    return 1 - valid / spans if spans else 0.0


def _named(given: CompareArguments, options: dict[str, Value]) -> dict[str, Value]:
    """Returns the options of the trainings that are named in a file or in the call; raises OptionError."""
    named: dict[str, Value] = named_options(given.config, options)
    for name in (*_OWN, *(() if given.folds else ('seed',))):
        if name in options or name in named:
            shown = argument(name) if name in options else f'{given.config}: {name!r}'
            raise OptionError(f'{shown} is chosen by the comparison itself; leave it away')
    if given.folds and 'test' in named:
        raise OptionError(f'{argument("test")} means nothing with {argument("folds")}, each of which is the test of '
                          'the others; leave it away')
    if given.folds == 2 and 'dev' not in named:                  # one fold for dev, one for test, and one to learn from
        raise OptionError(f'{argument("folds")} must be at least 3 without {argument("dev")}, got 2')
    parts = [part for part in PARTS if not given.folds or part == 'train' or part in named]
    missing = [argument(part) for part in parts if part not in named]
    if missing:
        raise OptionError(f'the following arguments are required: {", ".join(missing)}; see {argument("help")}')
    for part in parts:
        if not named[part]:
            raise OptionError(f'{argument(part)} must be a name, got nothing')
    return named


def _model_type(model: str) -> type[Kind]:
    return kind_of(Options(**selected_by(model)))  # type: ignore[arg-type] # options that are text


def _settings(models: Sequence[str], named: Mapping[str, Value], folder: Path) -> dict[str, dict[str, Value]]:
    """Returns for each model the options that have an effect on it.

    Args:
        models: their names.
        named: the options that were named, and their values.
        folder: of the runs.

    Raises:
        OptionError: an option has no effect on any of the models.
    """
    settings: dict[str, dict[str, Value]] = {}
    reasons: dict[str, str] = {}
    for model in models:
        values = {**named, **selected_by(model), 'save': str(folder / f'{model}-1')}
        options = Options(**values)  # type: ignore[arg-type] # checked here
        options.check()
        idle = {name: why for name in named if (why := options.idle(name))}
        reasons.update(idle)
        settings[model] = {name: value for name, value in named.items() if name not in idle}
    for name in named:
        if not any(name in setting for setting in settings.values()):
            raise OptionError(f'{argument(name)} means nothing to {" and ".join(models)}, {reasons[name]}; leave it '
                              'away')
    return settings


def _planned(given: CompareArguments, named: dict[str, Value], folder: Path,
             watcher: Watcher) -> tuple[list[PlannedRun], dict[Path, Fold]]:
    """Returns the runs of a comparison, and the folds of a cross-validation by their folders."""
    if given.folds is None:
        return list(_runs(given, _settings(given.names, named, folder), folder)), {}
    options = Options(seed=named.pop('seed', 1))  # type: ignore[arg-type] # checked here
    options.check()
    files_of_folds = {'dev': named.get('dev', named['train']), 'test': named['train']}
    settings = _settings(given.names, {**named, **files_of_folds}, folder)
    folds, splitter = read_folds(named, given.folds, options.seed, watcher)
    for setting in settings.values():
        setting['columns'] = None                                # the files of folds have tokens and tags
        if splitter is not None:
            setting['splitter'] = splitter
    cut = {folder / f'fold-{number}': fold for number, fold in enumerate(folds, 1)}
    return list(_runs(given, settings, folder, options.seed, list(cut))), cut


def _runs(given: CompareArguments, settings: Mapping[str, dict[str, Value]], folder: Path, fold_seed: int = 1,
          cut: Sequence[Path] = ()) -> Iterator[PlannedRun]:
    """Yields the runs: of each model a run for each seed, or for each fold."""
    for model, setting in settings.items():
        random = _model_type(model).in_steps
        unit = 'fold' if cut else 'seed'
        count = len(cut) or (given.seeds if random else 1)
        for number in range(1, 1 + count):
            label = f'{model}, {unit} {number} of {count}' if cut or random else model
            seed = fold_seed if cut else number
            save = folder / f'{model}-{"fold-" if cut else ""}{number}'
            arguments: dict[str, Value] = {**setting, **selected_by(model), 'plugin': given.plugin, 'save': str(save)}
            if cut:
                arguments.update({part: str(cut[number - 1] / f'{part}.jsonl') for part in PARTS})
            if random:
                arguments.update(seed=seed, device=given.device)
            yield PlannedRun(label, save, arguments, model, seed, number if cut else None,
                             given.keep is not None or 'encoder_cache' in setting)


def _check_places(given: CompareArguments, named: Mapping[str, Value], folder: Path, places: Sequence[Path]) -> None:
    """Raises CorpusError or OptionError if the figures or the runs could not be written."""
    if given.json is not None:
        records.check_output(given.json, *(str(named[part]) for part in PARTS if part in named))
    if given.keep is None:
        return
    check_parent(folder, nearest_folder(folder), 'written')
    for place in places:
        if os.path.lexists(place):
            raise OptionError(f'{place}: expected no run there yet, got something; choose another {argument("keep")} '
                              'or delete it')


def _prepare(given: CompareArguments, runs: Sequence[PlannedRun], watcher: Watcher) -> None:
    """Chooses the device, and compiles the operators for the CPU; raises OptionError if no model needs a device."""
    if any(_model_type(model).uses_mindspore for model in given.names):
        device = prepare(given.device, watcher)
        for run in runs:
            if 'device' in run.arguments:
                run.arguments['device'] = device
        return
    if given.seeds != CompareArguments.seeds or given.device not in ('auto', 'CPU'):
        idle = 'seeds' if given.seeds != CompareArguments.seeds else 'device'
        raise OptionError(f'{argument(idle)} means nothing to {" and ".join(given.names)}, counted once, on the CPU; '
                          'leave it away')
