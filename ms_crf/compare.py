"""The command line that compares models on the same files: python -m ms_crf.compare --help"""

import sys

from ms_crf import console

if __name__ == '__main__':       # before anything that takes long to import: from here on Ctrl-C is one line
    sys.exit(console.enter('compare'))

import argparse
import contextlib
import json
import os
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ms_crf import files
from ms_crf.arguments import Parser, add_common, parse
from ms_crf.environment import choose_device
from ms_crf.errors import CorpusError, OptionError, meant
from ms_crf.files import PathLike
from ms_crf.models.base import kind_of
from ms_crf.options import MODELS, Options, dashed
from ms_crf.text.dataset import Scores
from ms_crf.text.metrics import as_record
from ms_crf.text.readers import read_corpus
from ms_crf.text.schemes import PLAIN, spans_of, strict_spans_of
from ms_crf.train import add_options, named_options

_HEADS = ('softmax', 'crf')    # of the model that --model has by itself
CHOSEN = ('model', 'head', 'seed', 'save', 'overwrite', 'resume')
MOST_SEEDS = 1000
COLUMNS = ('precision', 'recall', 'f1', 'accuracy', 'ill_formed', 'train_seconds', 'sentences_per_second')
HEADS = ('P', 'R', 'F1', 'accuracy', 'ill-formed spans', 'training s', 'sentences/s')


def parser() -> Parser:
    made = Parser(prog=console.program('compare'),
                  description='Trains several models on the same files and prints a table of what they are worth on '
                              'test. All other options are those of train.py, for the models that have them.')
    made.add_argument('--models', default='hmm,softmax,crf',
                      help='some of hmm, softmax, crf, and of those that --plugin registers (default: %(default)s)')
    made.add_argument('--seeds', type=int, default=3, metavar='N',
                      help='runs of each model that has chance in it (default: 3)')
    made.add_argument('--json', metavar='FILE', help='write all figures of all runs there')
    made.add_argument('--keep', metavar='DIR', help='keep the run directories there')
    add_common(made)
    made.add_argument('--config', metavar='FILE', help='JSON object of options; the command line wins')
    add_options(made, ('train', 'dev', 'test', 'columns', 'scheme'))
    return made


class _Training:
    """A training in a process of its own, which shows its progress on standard error.

    The process has a session of its own, so that Ctrl-C reaches it only through this one, once.

    Args:
        arguments: for the command line of train.py.
        gently: whether it is to save its state when it is stopped, and not to end at once.
    """

    def __init__(self, arguments: Sequence[str], gently: bool) -> None:
        self.arguments, self.gently, self.asked = arguments, gently, 0
        self.process: subprocess.Popen | None = None

    def run(self) -> float:
        """Waits for its end; returns the seconds that it took.

        Raises:
            OptionError: the training failed.
            KeyboardInterrupt: it was stopped.
        """
        began = time.perf_counter()
        package = str(Path(__file__).resolve().parents[1])
        paths = os.pathsep.join(filter(None, (package, os.environ.get('PYTHONPATH'))))
        with console.handling(self._stop):
            self.process = subprocess.Popen([sys.executable, '-m', 'ms_crf.train', *self.arguments],
                                            stdin=subprocess.DEVNULL, stdout=sys.stderr, start_new_session=True,
                                            env={**os.environ, 'PYTHONPATH': paths})
            if self.asked:                                       # before there was a process to be told
                self._tell()
            status = self.process.wait()
        if self.asked or status == console.INTERRUPTED:
            raise KeyboardInterrupt
        if status:
            ended = f'by signal {-status}' if status < 0 else f'with status {status}'
            raise OptionError(f'a training ended {ended}, see above; the table has what was done before')
        return time.perf_counter() - began

    def _stop(self, *_: object) -> None:
        self.asked += 1
        if self.process is not None:
            self._tell()

    def _tell(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM if self.gently and self.asked == 1 else signal.SIGKILL)


def measure(folder: PathLike, path: PathLike, columns: tuple[int, ...]) -> dict[str, float]:
    """The figures of a run on a tagged file: precision, recall, f1, accuracy, ill_formed, sentences_per_second."""
    from ms_crf.tagger import Tagger
    tagger = Tagger.load(folder)
    sentences = read_corpus(path, columns, tagger.splitter)
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
                spread = f' ± {100 * statistics.stdev(values):.2f}' if len(values) > 1 else ''
                cells.append(f'{100 * statistics.mean(values):.2f}{spread}')
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


def _arguments(settings: Mapping[str, Any]) -> Iterator[str]:
    """Options as arguments of a command line."""
    for name, value in settings.items():
        if isinstance(value, bool):
            yield f'--{"" if value else "no-"}{dashed(name)}'
        else:
            yield f'--{dashed(name)}={value}'


class _Comparison:
    """Trains and measures all runs, one after the other.

    Args:
        parsed: the arguments of the command line.
        settings: for each model its options, as `_settings` returns them.
    """

    def __init__(self, parsed: argparse.Namespace, settings: dict[str, dict[str, Any]]) -> None:
        self.parsed, self.settings = parsed, settings
        self.results: dict[str, list[dict[str, float]]] = {}
        self.runs = [(model, seed) for model in settings
                     for seed in range(1, 1 + (parsed.seeds if self._by_chance(model) else 1))]

    @staticmethod
    def _by_chance(model: str) -> bool:
        """Whether the model depends on the seed."""
        return kind_of(Options(**_chosen_by(model))).in_steps

    def check_places(self) -> None:
        """Raises CorpusError if the figures or the runs could not be written."""
        if self.parsed.json is not None:
            files.check_writable(self.parsed.json)
        if self.parsed.keep is None:
            return
        folder = Path(self.parsed.keep)
        absolute = folder.absolute()
        existing = next(parent for parent in (absolute, *absolute.parents) if os.path.lexists(parent))
        if not os.path.isdir(existing) or not os.access(existing, os.W_OK | os.X_OK):
            raise CorpusError(folder, None, f'can not be written: {existing} is not a folder that you may write to')
        for model, seed in self.runs:
            if os.path.lexists(folder / f'{model}-{seed}'):
                raise CorpusError(folder / f'{model}-{seed}', None, 'expected no run there yet, got something; choose '
                                                                    'another --keep or delete it')

    def run(self) -> None:
        """Trains and measures; if it is interrupted, what has been measured by then is written and printed."""
        with self._folder() as folder, console.handling(self._leave):
            try:
                for model, seed in self.runs:
                    named = model if not self._by_chance(model) else f'{model}, seed {seed} of {self.parsed.seeds}'
                    console.say(named)
                    self._add(model, seed, str(Path(folder) / f'{model}-{seed}'))
            finally:
                self.report()

    def _folder(self) -> contextlib.AbstractContextManager[str]:
        if self.parsed.keep is not None:
            return contextlib.nullcontext(self.parsed.keep)
        return files.temporary(tempfile.mkdtemp(prefix='ms_crf-'))

    def _add(self, model: str, seed: int, run: str) -> None:
        settings = self.settings[model]
        plugin = [] if self.parsed.plugin is None else [f'--plugin={self.parsed.plugin}']
        own = [] if not self._by_chance(model) else [f'--seed={seed}', f'--device={self.parsed.device}']
        gently = self.parsed.keep is not None or 'encoder_cache' in settings
        chosen = {**settings, **_chosen_by(model)}
        seconds = _Training([*_arguments(chosen), *own, *plugin, f'--save={run}'], gently).run()
        columns = Options(**settings).column_pair()
        figures = measure(run, settings['test'], columns)
        self.results.setdefault(model, []).append({'seed': seed, **figures, 'train_seconds': seconds})

    def report(self) -> None:
        """Writes and prints the figures that there are so far."""
        if not self.results:
            return
        try:
            if self.parsed.json is not None:
                files.write_text(self.parsed.json, json.dumps(self.results, indent=1) + '\n')
        finally:
            for line in table(self.results):
                print(line)

    def _leave(self, *_: object) -> None:
        """The handler of signals while this process computes, which no exception may interrupt in MindSpore."""
        with contextlib.suppress(Exception):
            self.report()
        console.leave()


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    return console.command('compare', _main, arguments)


def _main(arguments: Sequence[str]) -> int:
    for name in CHOSEN:
        if any(text.split('=')[0] == f'--{name}' for text in arguments):
            raise OptionError(f'--{name} is chosen by the comparison itself; leave it away')
    parsed, named = parse(parser, arguments)
    models = _models(parsed.models)
    if not 1 <= parsed.seeds <= MOST_SEEDS:
        raise OptionError(f'--seeds must be at {"least 1" if parsed.seeds < 1 else f"most {MOST_SEEDS}"}, got '
                          f'{parsed.seeds}')
    settings = _settings(models, _named(parsed.config, named), parsed.keep or tempfile.gettempdir())
    comparison = _Comparison(parsed, settings)
    comparison.check_places()
    if any(kind_of(Options(**_chosen_by(model))).uses_mindspore for model in models):
        parsed.device = choose_device(parsed.device, console.program('compare'))
        console.prepare_operators(parsed.device, console.program('compare'))
    elif 'seeds' in named or ('device' in named and parsed.device not in ('auto', 'CPU')):
        name = 'seeds' if 'seeds' in named else 'device'
        raise OptionError(f'--{name} means nothing to {" and ".join(models)}, counted once, on the CPU; leave it away')
    comparison.run()
    return 0


def _chosen_by(model: str) -> dict[str, Any]:
    """The options that one of the names of --models stands for."""
    return {'head': model} if model in _HEADS else {'model': model}


def _models(text: str) -> list[str]:
    models, known = text.split(','), [model for model in (*MODELS, *_HEADS) if model != Options().model]
    for model in models:
        if model not in known:
            raise OptionError(f'--models must be some of {", ".join(known)}, got {model!r}{meant(model, known, "")}')
        if models.count(model) > 1:
            raise OptionError(f'--models must name each model once, got {model} {models.count(model)} times')
    return models


def _named(config: str | None, of_command_line: Mapping[str, Any]) -> dict[str, Any]:
    """The options of the trainings that were named in a file or on the command line, and their values."""
    named = named_options(config, of_command_line)
    for name in CHOSEN:
        if name in named:
            raise OptionError(f'{config}: {name!r} is chosen by the comparison itself; leave it away')
    parts = ('train', 'dev', 'test')
    missing = [f'--{name}' for name in parts if name not in named]
    if missing:
        raise OptionError(f'the following arguments are required: {", ".join(missing)}; see --help')
    empty = next((name for name in parts if not named[name]), None)
    if empty is not None:
        raise OptionError(f'--{empty} must be a name, got nothing')
    return named
