"""Trains several models on the same files and compares their test scores, speed and training time."""

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

#: arguments of `train` that the comparison sets for each run; without folds also the seed
_RESERVED = ('model', 'head', 'save', 'overwrite', 'resume')
_HEADERS = {**RATES, 'ill_formed': 'invalid spans', 'train_seconds': 'training s',
          'sentences_per_second': 'sentences/s'}
#: figures that the table shows as medians
_MEDIANS = {'train_seconds': '.1f', 'sentences_per_second': ',.0f'}


@dataclass
class Comparison:
    """The figures of several models on the same files.

    Attributes:
        figures: for each model a list with the figures of each run: `seed`, `fold` (only with folds), `precision`,
            `recall`, `f1`, `accuracy`, `ill_formed` (share of invalid spans), `train_seconds` and
            `sentences_per_second`.
    """

    figures: dict[str, list[dict[str, float]]] = field(default_factory=dict)

    def table(self) -> str:
        """Returns a table in Markdown: a row for each model, with mean ± standard deviation of several runs."""
        rows = []
        for model, runs in self.figures.items():
            columns = {name: [run[name] for run in runs] for name in _HEADERS}
            rows.append([model, str(len(runs)), *(
                format(statistics.median(values), _MEDIANS[name]) if name in _MEDIANS else mean_and_deviation(values)
                for name, values in columns.items())])
        return markdown(['model', 'runs', *_HEADERS.values()], rows)

    def write(self, path: str | None) -> None:
        """Writes the figures to a file; does nothing without a path or without figures."""
        if path and self.figures:
            files.write_json(path, self.figures)


@takes_options(*_RESERVED)
def compare(*, train: PathLike | None = None, dev: PathLike | None = None, test: PathLike | None = None,
            models: str | Sequence[str] = CompareArguments.models, seeds: int = 3, folds: int | None = None,
            jobs: int = 1, json: PathLike | None = None, keep: PathLike | None = None, config: PathLike | None = None,
            plugin: PathLike | None = None, device: str = 'auto', watcher: Watcher = SILENT,
            children: Children | None = None, **options: Value) -> Comparison:
    """Trains several models on the same files, each in a child process, and scores them on test.

    Args:
        train, dev, test: files of tagged sentences. `folds` only needs `train`, and excludes `test`.
        models: model names: 'hmm', 'softmax', 'crf', or custom model types.
        seeds: number of runs of each model; models without randomness are trained once.
        folds: cross-validation with this number of folds of `train`.
        jobs: number of trainings at the same time.
        json: file to write all figures to.
        keep: folder for the run directories; without it the runs are deleted.
        config: JSON file with an object of options; options of the call win.
        plugin: Python file that registers model types.
        device: 'auto', 'CPU', 'GPU' or 'Ascend'.
        watcher: receives the label of each run, and the output of the trainings unless `children` names streams.
        children: how to start the child processes, and where to write their output.
        options: options of `train`; each model gets the options that have an effect on it.

    Returns:
        The figures of all runs by model; its method `table()` returns a table.

    Raises:
        OptionError: an argument is invalid or has no effect, or a training failed.
        CorpusError: a file is invalid.
        KeyboardInterrupt: a signal stopped the comparison.
            Every exception has the attribute `comparison` with the figures of the finished runs. The file `json`
            has these figures, too.

    Example:
        >>> from ms_crf.api import compare
        >>> result = compare(train='train.tsv', dev='dev.tsv', test='test.tsv', models=['hmm', 'crf'])  # doctest: +SKIP
        >>> print(result.table())                                                               # doctest: +SKIP
    """
    if plugin is not None:
        run_plugin(str(plugin))
    arguments = CompareArguments.from_call({
        **locals(), 'models': models if isinstance(models, str) else ','.join(models)})
    paths = {part: str(path) for part, path in zip(PARTS, (train, dev, test)) if path is not None}
    named = _named(arguments, {**paths, **options})
    comparison = Comparison()
    try:
        _run(comparison, arguments, named, watcher, children)
    except BaseException as error:
        error.comparison = comparison  # type: ignore[attr-defined] # the finished runs
        raise
    return comparison


def _run(comparison: Comparison, arguments: CompareArguments, named: dict[str, Value], watcher: Watcher,
         children: Children | None) -> None:
    """Trains and measures all models."""
    with contextlib.ExitStack() as stack:
        folder = Path(arguments.keep or stack.enter_context(files.temporary(new_folder())))
        runs, fold_folders = _planned(arguments, named, folder, watcher)
        _check_outputs(arguments, named, folder, [*(run.folder for run in runs), *fold_folders])
        _prepare(arguments, runs, watcher)
        check = stack.enter_context(processes.deferred_signals())
        stack.callback(comparison.write, arguments.json)         # also after an exception
        for path, fold in fold_folders.items():
            fold.write(path)
        for first in range(0, len(runs), arguments.jobs):
            check()
            together = runs[first:first + arguments.jobs]
            run_all(together, arguments.jobs, 'the table contains the finished runs', children, watcher)
            for run in together:
                figures = measure(run.folder, check)
                comparison.figures.setdefault(run.model, []).append({
                    'seed': run.seed, **({} if run.fold is None else {'fold': run.fold}), **figures,
                    'train_seconds': run.seconds})


def measure(folder: PathLike, check: Callable[[], None] = lambda: None) -> dict[str, float]:
    """Returns the figures of a run on its test file.

    Args:
        folder: the run directory.
        check: called between long steps; an exception ends the measurement.

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
    tagger.tag(tokens, confidence=False)                         # compiles the graphs
    check()
    started = time.perf_counter()
    predicted = [tagged.tags for tagged in tagger.tag(tokens, confidence=False)]
    seconds = time.perf_counter() - started
    check()
    scores = Scores(tagger.file_scheme, tagger.scheme, options.test)
    scores.add([sentence.line for sentence in sentences], [sentence.tags for sentence in sentences], predicted)
    return {**as_record(scores.result), 'ill_formed': invalid_share(predicted, tagger.scheme),
            'sentences_per_second': len(tokens) / seconds}


def invalid_share(tags: Sequence[Sequence[str]], scheme: str) -> float:
    """Returns the share of spans, read by the rules of conlleval, that are invalid in the tag scheme."""
    if scheme == PLAIN:
        return 0.0
    spans = sum(len(spans_of(row)) for row in tags)
    valid = sum(len(set(spans_of(row)) & set(strict_spans_of(row, scheme))) for row in tags)
    return 1 - valid / spans if spans else 0.0


def _named(arguments: CompareArguments, options: dict[str, Value]) -> dict[str, Value]:
    """Returns the options that a file or the call names, with their values; raises OptionError if they are invalid."""
    named: dict[str, Value] = named_options(arguments.config, options)
    for name in (*_RESERVED, *(() if arguments.folds else ('seed',))):
        if name in options or name in named:
            shown = argument(name) if name in options else f'{arguments.config}: {name!r}'
            raise OptionError(f'{shown} is set by the comparison; omit it')
    if arguments.folds and 'test' in named:
        raise OptionError(f'{argument("test")} has no effect with {argument("folds")}, because each fold is the test '
                          'file of one training; omit it')
    if arguments.folds == 2 and 'dev' not in named:              # train, dev and test need three folds
        raise OptionError(f'{argument("folds")} must be at least 3 without {argument("dev")}, got 2')
    parts = [part for part in PARTS if not arguments.folds or part == 'train' or part in named]
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
        models: names of the models.
        named: the options that the user names, with their values.
        folder: folder of the runs.

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
            raise OptionError(f'{argument(name)} has no effect on {" and ".join(models)}, {reasons[name]}; omit it')
    return settings


def _planned(arguments: CompareArguments, named: dict[str, Value], folder: Path,
             watcher: Watcher) -> tuple[list[PlannedRun], dict[Path, Fold]]:
    """Returns the runs of a comparison, and the folder and content of each fold of a cross-validation."""
    if arguments.folds is None:
        return list(_runs(arguments, _settings(arguments.names, named, folder), folder)), {}
    options = Options(seed=named.pop('seed', 1))  # type: ignore[arg-type] # checked here
    options.check()
    files_of_folds = {'dev': named.get('dev', named['train']), 'test': named['train']}
    settings = _settings(arguments.names, {**named, **files_of_folds}, folder)
    folds, splitter = read_folds(named, arguments.folds, options.seed, watcher)
    for setting in settings.values():
        setting['columns'] = None                                # fold files are JSON lines
        if splitter is not None:
            setting['splitter'] = splitter
    fold_folders = {folder / f'fold-{number}': fold for number, fold in enumerate(folds, 1)}
    return list(_runs(arguments, settings, folder, options.seed, list(fold_folders))), fold_folders


def _runs(arguments: CompareArguments, settings: Mapping[str, dict[str, Value]], folder: Path, fold_seed: int = 1,
          fold_folders: Sequence[Path] = ()) -> Iterator[PlannedRun]:
    """Yields the runs of each model: one for each seed, or one for each fold."""
    for model, setting in settings.items():
        random = _model_type(model).in_steps
        unit = 'fold' if fold_folders else 'seed'
        count = len(fold_folders) or (arguments.seeds if random else 1)
        for number in range(1, 1 + count):
            label = f'{model}, {unit} {number} of {count}' if fold_folders or random else model
            seed = fold_seed if fold_folders else number
            save = folder / f'{model}-{"fold-" if fold_folders else ""}{number}'
            values: dict[str, Value] = {**setting, **selected_by(model), 'plugin': arguments.plugin, 'save': str(save)}
            if fold_folders:
                values.update({part: str(fold_folders[number - 1] / f'{part}.jsonl') for part in PARTS})
            if random:
                values.update(seed=seed, device=arguments.device)
            yield PlannedRun(label, save, values, model, seed, number if fold_folders else None,
                             arguments.keep is not None or 'encoder_cache' in setting)


def _check_outputs(arguments: CompareArguments, named: Mapping[str, Value], folder: Path,
                   paths: Sequence[Path]) -> None:
    """Raises CorpusError or OptionError if the figures or the runs cannot be written."""
    if arguments.json is not None:
        records.check_output(arguments.json, *(str(named[part]) for part in PARTS if part in named))
    if arguments.keep is None:
        return
    check_parent(folder, nearest_folder(folder), 'written')
    for path in paths:
        if os.path.lexists(path):
            raise OptionError(f'{path}: expected a free path, but it exists; choose another {argument("keep")} or '
                              'delete it')


def _prepare(arguments: CompareArguments, runs: Sequence[PlannedRun], watcher: Watcher) -> None:
    """Chooses the device and compiles C++ operators; raises OptionError if `seeds` or `device` have no effect."""
    if any(_model_type(model).uses_mindspore for model in arguments.names):
        device = prepare(arguments.device, watcher)
        for run in runs:
            if 'device' in run.arguments:
                run.arguments['device'] = device
        return
    if arguments.seeds != CompareArguments.seeds or arguments.device not in ('auto', 'CPU'):
        idle = 'seeds' if arguments.seeds != CompareArguments.seeds else 'device'
        raise OptionError(f'{argument(idle)} has no effect on {" and ".join(arguments.names)}, which is estimated '
                          'once, on the CPU; omit it')
