"""The command line that compares models on the same files: python -m ms_crf.compare --help"""

import argparse
import contextlib
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ms_crf.base import files, signals
from ms_crf.base.drafts import new_folder
from ms_crf.base.environment import choose_device
from ms_crf.base.errors import CorpusError, OptionError, meant
from ms_crf.base.files import PathLike
from ms_crf.cli import console
from ms_crf.cli.parser import Parser, add_arguments, add_common, parse
from ms_crf.cli.terminal import Terminal
from ms_crf.cli.train import named_options
from ms_crf.experiments import cross_validation
from ms_crf.experiments.folds import Fold, as_json
from ms_crf.experiments.side_by_side import Training, arguments_of, check_jobs, mean_and_deviation, run_all
from ms_crf.formats.readers import read_corpus
from ms_crf.formats.scoring import Scores
from ms_crf.models.registry import kind_of
from ms_crf.native import library
from ms_crf.runs import model_types
from ms_crf.runs.options import Options, dashed
from ms_crf.runs.records import check_output
from ms_crf.text.metrics import as_record
from ms_crf.text.schemes import PLAIN, spans_of, strict_spans_of

_HEADS = ('softmax', 'crf')    # of the model that --model has by itself
CHOSEN = ('model', 'head', 'seed', 'save', 'overwrite', 'resume')
MOST_SEEDS = 1000
PARTS = ('train', 'dev', 'test')
COLUMNS = ('precision', 'recall', 'f1', 'accuracy', 'ill_formed', 'train_seconds', 'sentences_per_second')
HEADS = ('P', 'R', 'F1', 'accuracy', 'ill-formed spans', 'training s', 'sentences/s')


def parser() -> Parser:
    made = Parser(prog=console.program('compare'),
                  description='Trains several models on the same files and prints a table of what they are worth on '
                              'test. All other options are those of training, for the models that have them.')
    made.add_argument('--models', default='hmm,softmax,crf',
                      help='some of hmm, softmax, crf, and of those that --plugin registers (default: %(default)s)')
    made.add_argument('--seeds', type=int, default=3, metavar='N',
                      help='runs of each model that has chance in it (default: 3)')
    made.add_argument('--folds', type=int, metavar='K',
                      help='cross-validation: cut the sentences of --train into K folds, each of which is tested once '
                           'by a model of the others; the one after it is dev, unless --dev names a file; --seed is '
                           'that of the shuffle and of all runs (default: 1)')
    made.add_argument('--jobs', type=int, metavar='N', default=1,
                      help='how many trainings run side by side (default: 1)')
    made.add_argument('--json', metavar='FILE', help='write all figures of all runs there')
    made.add_argument('--keep', metavar='DIR', help='keep the run directories there')
    add_common(made)
    made.add_argument('--config', metavar='FILE', help='JSON object of options; the command line wins')
    add_arguments(made, Options, ('train', 'dev', 'test', 'columns', 'scheme'))
    return made


def measure(folder: PathLike, path: PathLike, options: Options) -> dict[str, float]:
    """The figures of a run on a tagged file: precision, recall, f1, accuracy, ill_formed, sentences_per_second."""
    from ms_crf.tagging.tagger import Tagger
    tagger = Tagger.load(folder)
    sentences = read_corpus(path, options.column_pair(), tagger.splitter, mark=options.unknown_tag)
    tokens = [sentence.tokens for sentence in sentences]
    tagger.tag(tokens, confidence=False)                         # compiles
    began = time.perf_counter()
    predicted = [tagged.tags for tagged in tagger.tag(tokens, confidence=False)]
    seconds = time.perf_counter() - began
    scores = Scores(tagger.found_scheme, tagger.scheme, path)
    scores.add([sentence.line for sentence in sentences], [sentence.tags for sentence in sentences], predicted)
    return {**as_record(scores.result), 'ill_formed': ill_formed(predicted, tagger.scheme),
            'sentences_per_second': len(tokens) / seconds}


def ill_formed(tags: Sequence[Sequence[str]], scheme: str) -> float:
    """The share of spans, among those that conlleval would find, that are not well-formed in their scheme."""
    if scheme == PLAIN:
        return 0.0
    spans = sum(len(spans_of(row)) for row in tags)
    fit = sum(len(set(spans_of(row)) & set(strict_spans_of(row, scheme))) for row in tags)
    return 1 - fit / spans if spans else 0.0


def table(results: Mapping[str, Sequence[Mapping[str, float]]]) -> list[str]:
    """A table in Markdown: a row for each model, with mean ± standard deviation if it has several runs."""
    lines = [f'| model | runs | {" | ".join(HEADS)} |', '|---' * (2 + len(HEADS)) + '|']
    for name, runs in results.items():
        cells = []
        for column in COLUMNS:
            values = [run[column] for run in runs]
            if column == 'sentences_per_second':
                cells.append(f'{statistics.median(values):,.0f}')
            elif column == 'train_seconds':
                cells.append(f'{statistics.median(values):.1f}')
            else:
                cells.append(mean_and_deviation(values))
        lines.append(f'| {name} | {len(runs)} | {" | ".join(cells)} |')
    return lines


def _settings(models: Sequence[str], named: Mapping[str, Any], folder: str) -> dict[str, dict[str, Any]]:
    """For each model the values of the options that have an effect on it.

    Args:
        models: their names, as --models takes them.
        named: the options that were named, and their values.
        folder: where the runs will be.

    Raises:
        OptionError: an option has no effect on any of the models.
    """
    settings, reasons = {}, {}
    for model in models:
        options = Options(**{**named, **_chosen_by(model), 'save': os.path.join(folder, f'{model}-1')})
        options.check()
        idle = {name: why for name in named if (why := options.idle(name))}
        reasons.update(idle)
        settings[model] = {name: value for name, value in named.items() if name not in idle}
    for name in named:
        if not any(name in setting for setting in settings.values()):
            raise OptionError(f'--{dashed(name)} means nothing to {" and ".join(models)}, {reasons[name]}; leave it '
                              'away')
    return settings


class _Run(NamedTuple):
    """One of the trainings: of a model, with a seed, and in a cross-validation on a fold, from 1."""

    model: str
    seed: int
    fold: int | None = None

    @property
    def by_chance(self) -> bool:
        """Whether the model depends on the seed."""
        return kind_of(Options(**_chosen_by(self.model))).in_steps

    @property
    def name(self) -> str:
        """That of its directory."""
        return f'{self.model}-{self.seed}' if self.fold is None else f'{self.model}-fold-{self.fold}'


class _Comparison:
    """Trains and measures all runs.

    Args:
        parsed: the arguments of the command line.
        settings: for each model its options, as `_settings` returns them.
        folds: what the runs of a cross-validation read; None without.
        seed: of a cross-validation.
    """

    def __init__(self, parsed: argparse.Namespace, settings: dict[str, dict[str, Any]],
                 folds: Sequence[Fold] | None = None, seed: int = 1) -> None:
        self.parsed, self.settings, self.folds = parsed, settings, folds
        self.results: dict[str, list[dict[str, float]]] = {}
        if folds is not None:
            self.runs = [_Run(model, seed, 1 + index) for model in settings for index in range(len(folds))]
        else:
            self.runs = [_Run(model, seed) for model in settings
                         for seed in range(1, 1 + (parsed.seeds if _Run(model, 1).by_chance else 1))]

    def check_places(self) -> None:
        """Raises CorpusError if the figures or the runs could not be written."""
        if self.parsed.json is not None:
            read = {options.get(part) for options in self.settings.values() for part in PARTS}
            check_output(self.parsed.json, *filter(None, read))
        if self.parsed.keep is None:
            return
        folder = Path(self.parsed.keep)
        absolute = folder.absolute()
        existing = next(parent for parent in (absolute, *absolute.parents) if os.path.lexists(parent))
        if not os.path.isdir(existing) or not os.access(existing, os.W_OK | os.X_OK):
            raise CorpusError(folder, None, f'can not be written: {existing} is not a folder that you may write to')
        folds = [f'fold-{number}' for number, _ in enumerate(self.folds or (), 1)]
        for name in [*(run.name for run in self.runs), *folds]:
            if os.path.lexists(folder / name):
                raise CorpusError(folder / name, None, 'expected no run there yet, got something; choose another '
                                                       '--keep or delete it')

    def run(self) -> None:
        """Trains and measures; if it is interrupted, what has been measured by then is written and printed."""
        with self._folder() as folder, signals.handling(self._leave):
            try:
                self._write_folds(Path(folder))
                for first in range(0, len(self.runs), self.parsed.jobs):
                    runs = self.runs[first:first + self.parsed.jobs]
                    trainings = [self._training(run, Path(folder)) for run in runs]
                    run_all(trainings, self.parsed.jobs, sys.stderr, 'the table has what was done before')
                    for run, training in zip(runs, trainings):
                        self._measure(run, Path(folder), training.seconds)
            finally:
                self.report()

    def _write_folds(self, folder: Path) -> None:
        for number, fold in enumerate(self.folds or (), 1):
            place = folder / f'fold-{number}'
            with files.faults_named(place, ''):
                place.mkdir(parents=True)
            for part in PARTS:
                files.write_text(place / f'{part}.jsonl', as_json(getattr(fold, part)))

    def _settings_of(self, run: _Run, folder: Path) -> dict[str, Any]:
        settings = self.settings[run.model]
        if run.fold is None:
            return settings
        return {**settings, **{part: str(folder / f'fold-{run.fold}' / f'{part}.jsonl') for part in PARTS}}

    def _folder(self) -> contextlib.AbstractContextManager[str]:
        if self.parsed.keep is not None:
            return contextlib.nullcontext(self.parsed.keep)
        return files.temporary(new_folder())

    def _training(self, run: _Run, folder: Path) -> Training:
        settings = self._settings_of(run, folder)
        plugin = [] if self.parsed.plugin is None else [f'--plugin={self.parsed.plugin}']
        own = [] if not run.by_chance else [f'--seed={run.seed}', f'--device={self.parsed.device}']
        gently = self.parsed.keep is not None or 'encoder_cache' in settings
        name = run.model if not run.by_chance else f'{run.model}, seed {run.seed} of {self.parsed.seeds}'
        if self.folds is not None:
            name = f'{run.model}, fold {run.fold} of {len(self.folds)}'
        chosen = {**settings, **_chosen_by(run.model)}
        return Training(name, [*arguments_of(chosen), *own, *plugin, f'--save={folder / run.name}'], gently)

    def _measure(self, run: _Run, folder: Path, seconds: float) -> None:
        settings = self._settings_of(run, folder)
        figures = measure(folder / run.name, settings['test'], Options(**settings))
        fold = {} if run.fold is None else {'fold': run.fold}
        self.results.setdefault(run.model, []).append({'seed': run.seed, **fold, **figures, 'train_seconds': seconds})

    def report(self) -> None:
        """Writes and prints the figures that there are so far."""
        if not self.results:
            return
        try:
            if self.parsed.json is not None:
                files.write_json(self.parsed.json, self.results)
        finally:
            for line in table(self.results):
                console.show(line)

    def _leave(self, *_: object) -> None:
        """The handler of signals while this process computes, which no exception may interrupt in MindSpore."""
        with contextlib.suppress(Exception):
            self.report()
        console.leave()


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    return console.command('compare', _main, arguments)


def _main(arguments: Sequence[str]) -> int:
    given = {text.split('=')[0] for text in arguments}
    for name in CHOSEN:
        if f'--{name}' in given and not (name == 'seed' and '--folds' in given):
            raise OptionError(f'--{name} is chosen by the comparison itself; leave it away')
    parsed, named = parse(parser, arguments)
    models = _models(parsed.models)
    check_jobs(parsed.jobs)
    if not 1 <= parsed.seeds <= MOST_SEEDS:
        raise OptionError(f'--seeds must be at {"least 1" if parsed.seeds < 1 else f"most {MOST_SEEDS}"}, got '
                          f'{parsed.seeds}')
    options = _named(parsed.config, named, parsed.folds is not None)
    folder = parsed.keep or tempfile.gettempdir()
    if parsed.folds is None:
        comparison = _Comparison(parsed, _settings(models, options, folder))
    else:
        cross_validation.check(parsed.folds, options, 'seeds' in named)
        comparison = _in_folds(parsed, models, options)
    comparison.check_places()
    if any(kind_of(Options(**_chosen_by(model))).uses_mindspore for model in models):
        parsed.device = choose_device(parsed.device, Terminal(console.program('compare')))
        library.prepare(parsed.device, Terminal(console.program('compare')))
    elif 'seeds' in named or ('device' in named and parsed.device not in ('auto', 'CPU')):
        name = 'seeds' if 'seeds' in named else 'device'
        raise OptionError(f'--{name} means nothing to {" and ".join(models)}, counted once, on the CPU; leave it away')
    comparison.run()
    return 0


def _in_folds(parsed: argparse.Namespace, models: Sequence[str], named: dict[str, Any]) -> _Comparison:
    """The comparison on the folds of one corpus, from the arguments of the command line and the options they name."""
    path, seed = named['train'], named.pop('seed', 1)
    Options(seed=seed).check()
    settings = _settings(models, {**named, 'dev': named.get('dev', path), 'test': path},
                         parsed.keep or tempfile.gettempdir())
    folds, splitter = cross_validation.read(named, parsed.folds, seed)
    for setting in settings.values():            # the files of folds have tokens and tags
        setting.pop('columns', None)
        if splitter is not None:
            setting['splitter'] = splitter
    return _Comparison(parsed, settings, folds, seed)


def _chosen_by(model: str) -> dict[str, Any]:
    """The options that one of the names of --models stands for."""
    return {'head': model} if model in _HEADS else {'model': model}


def _models(text: str) -> list[str]:
    models, known = text.split(','), [model for model in (*model_types.MODELS, *_HEADS) if model != Options().model]
    for model in models:
        if model not in known:
            raise OptionError(f'--models must be some of {", ".join(known)}, got {model!r}{meant(model, known, "")}')
        if models.count(model) > 1:
            raise OptionError(f'--models must name each model once, got {model} {models.count(model)} times')
    return models


def _named(config: str | None, of_command_line: Mapping[str, Any], in_folds: bool) -> dict[str, Any]:
    """The options of the trainings that were named in a file or on the command line, and their values."""
    named = named_options(config, of_command_line)
    for name in CHOSEN:
        if name in named and not (name == 'seed' and in_folds):
            raise OptionError(f'{config}: {name!r} is chosen by the comparison itself; leave it away')
    parts = [part for part in PARTS if not in_folds or part == 'train' or part in named]
    missing = [f'--{name}' for name in parts if name not in named]
    if missing:
        raise OptionError(f'the following arguments are required: {", ".join(missing)}; see --help')
    empty = next((name for name in parts if not named[name]), None)
    if empty is not None:
        raise OptionError(f'--{empty} must be a name, got nothing')
    return named
