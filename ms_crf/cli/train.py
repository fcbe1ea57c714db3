"""The command line of `train`: reads options, shows progress, prints scores."""

import argparse
import contextlib
import os
import sys
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, TextIO

from ms_crf.base import signals
from ms_crf.base.environment import choose_device
from ms_crf.base.errors import CorpusError, OptionError
from ms_crf.base.files import PathLike
from ms_crf.cli import console
from ms_crf.cli.parser import Help, Parser, add_arguments, add_common, parse, read_option_file
from ms_crf.cli.terminal import Terminal
from ms_crf.experiments import seeds
from ms_crf.formats.dataset import Corpora
from ms_crf.formats.registry import without_columns
from ms_crf.formats.tag_columns import UnlikelyTags
from ms_crf.models.base import Kind, kind_of, read_run
from ms_crf.models.inheritance import with_base
from ms_crf.native import library
from ms_crf.runs.options import Options, dashed
from ms_crf.training.begin import NotFinite, Stopped
from ms_crf.training.launcher import check_count, said_to_launcher, started_by_msrun
from ms_crf.training.launcher import run as run_workers

from tqdm import tqdm

NAMED = 5                      # so many kinds of unknown tags are named in a line
ON_RESUME = ('epochs', 'patience', 'learning_rate', 'encoder_lr', 'train', 'dev', 'test')


class Watcher:
    """Shows a training on the terminal, and hears Ctrl-C."""

    def __init__(self, output: TextIO | None = None) -> None:
        self.output, self.asked_to_stop = output or sys.stdout, False
        self.bar: Any = None                     # of tqdm, while an epoch runs
        self.compiling = 0.0                     # seconds so far

    def say(self, text: str) -> None:
        if self.bar is not None:
            self.bar.clear()
        try:
            console.show(text, self.output)
        except OSError as error:                 # training is worth more than what it says
            if not isinstance(error, BrokenPipeError):
                console.say(f'{console.program("train")}: standard output can not be written: {error.strerror}; '
                            'training goes on')
            console.silence(self.output)

    warn = say

    def corpora(self, corpora: Corpora) -> None:
        for part, sentences in corpora.parts.items():
            tokens = sum(len(sentence.tokens) for sentence in sentences)
            self.say(f'{part:<6}{len(sentences):>8,} sentences {tokens:>10,} tokens')
        trained = '' if corpora.scheme == corpora.file_scheme else f', trained as {corpora.scheme}'
        self.say(f'tags: {corpora.file_scheme}{trained}, {len(corpora.tags)} of them')
        for path, count, line in corpora.repaired:
            self.say(f'{path}: {count} sentences break {corpora.file_scheme}, the first begins at line {line}; '
                     'their tags are read by the rules of conlleval')
        for remark in corpora.remarks:
            self.say(remark)
        for path, line, tag, counts in corpora.unknown:
            named = ', '.join(f'{kind} {count}' for kind, count in counts.most_common(NAMED))
            others = f' and {len(counts) - NAMED} others' if len(counts) > NAMED else ''
            self.say(f'{path}: {sum(counts.values())} tags that train lacks can only be missed ({named}{others}), the '
                     f'first, {tag!r}, at line {line}')

    def compiled(self, task: str, length: int, rows: int, seconds: float) -> None:
        self.compiling += seconds
        self.say(f'compiled the graph of {task} for {rows} sentences of up to {length} tokens: {seconds:.1f} s')

    @contextlib.contextmanager
    def progress(self, task: str, total: int | None, unit: str) -> Iterator[Callable[[int], object]]:
        """Shows how far a task is, by a function that is called with the number of units just done."""
        with tqdm(total=total, unit=unit, leave=False, mininterval=0.5, desc=task, disable=None,
                  dynamic_ncols=True) as bar:
            yield bar.update

    def epoch_begins(self, epoch: int, epochs: int, sentences: int, done: int) -> None:
        self.bar = tqdm(total=sentences, initial=done, unit='sentences', leave=False, mininterval=0.5,
                        desc=f'epoch {epoch}/{epochs}', disable=None, dynamic_ncols=True)

    def step(self, sentences: int, loss: float) -> None:
        self.bar.set_postfix(loss=f'{loss:.3f}', refresh=False)
        self.bar.update(sentences)

    def epoch_ends(self, record: Mapping[str, Any]) -> None:
        rate = self.bar.total / max(record['seconds'], 1e-9)
        self.close()
        self.say(f'epoch {record["epoch"]:>3}  loss {record["loss"]:8.4f}  dev P {record["precision"]:7.2%}  '
                 f'R {record["recall"]:7.2%}  F1 {100 * record["f1"]:6.2f}  acc {record["accuracy"]:7.2%}  '
                 f'{record["seconds"]:6.2f} s  {rate:5.0f} sentences/s{"  best" if record["best"] else ""}')

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()
            self.bar = None

    def stopping(self) -> bool:
        return self.asked_to_stop

    def ask_to_stop(self, *_: object) -> None:
        if self.asked_to_stop:                   # a second signal does not wait for the step and the saving
            console.leave()
        self.asked_to_stop = True


def parser() -> Parser:
    """The command line, one group of options for each group of `Options`."""
    made = Parser(prog=console.program('train'), formatter_class=Help, add_help=False,
                  description='Trains a sequence tagger on tagged sentences and scores its best epoch. Without '
                              'arguments it trains on the sample corpus of the package.')
    general = made.add_argument_group('General')
    general.add_argument('--help', '-h', action='help', help='show this and stop')
    add_common(general)
    general.add_argument('--config', metavar='FILE', help='JSON object of options; the command line wins')
    general.add_argument('--resume', metavar='DIR',
                         help='go on with a run that was stopped; takes --device, --epochs, --patience, '
                              '--learning-rate and --encoder-lr, which the run keeps, and --train, --dev and --test '
                              'if these files have moved, nothing else')
    general.add_argument('--workers', metavar='N', type=int, default=1,
                         help='processes on this machine that train together, each on its share of every batch; for '
                              'several machines see the topic "More than one process" in the documentation')
    seeds.add_seeds(general)
    general.add_argument('--overwrite', action='store_true',
                         help='replace the run that --save names, if there is one; it stays until the first epoch of '
                              'the new one is saved, which is in .NAME.new beside it until then')
    add_arguments(made, Options)
    return made


def read_options(arguments: Sequence[str]) -> tuple[argparse.Namespace, dict[str, Any]]:
    """All arguments of a command line, and the values of those `Options` that it names."""
    parsed, named = parse(parser, arguments)
    return parsed, named_options(None, named)


def named_options(config: str | None, of_command_line: Mapping[str, Any]) -> dict[str, Any]:
    """The values of those `Options` that are named in a file of options or on a command line, which wins."""
    named = Options.read(read_option_file(config), config) if config is not None else {}
    names = {entry.name for entry in fields(Options)}
    return {**named, **{name: value for name, value in of_command_line.items() if name in names}}


def new_options(parsed: argparse.Namespace, of_command_line: Mapping[str, Any]) -> Options:
    """The `Options` of a new run, from what `read_options` returned and the file of options that it names.

    Raises:
        OptionError: one of them can't be, or has no effect beside the others.
    """
    named = named_options(parsed.config, of_command_line)
    record = {**Options().to_json(), **named}
    if 'train' in named:                                         # the sample's dev and test don't belong to it
        if 'dev' not in named:
            raise OptionError('--train needs a --dev beside it, tagged sentences to choose the best epoch by, got none')
        record['test'] = named.get('test', '')
    options = with_base(record, named) if record['init'] else Options(**record)
    options.check()
    options.check_given(named)
    return options


def _resumed_options(parsed: argparse.Namespace, named: Mapping[str, Any]) -> Options:
    from ms_crf.runs import records
    if parsed.config is not None or parsed.overwrite or set(named) - set(ON_RESUME):
        allowed = ', '.join(f'--{dashed(name)}' for name in ON_RESUME)
        raise OptionError(f'--resume takes --device, {allowed} and nothing else: the run has its own options')
    _, config = read_run(parsed.resume)
    before = records.read_options(parsed.resume, config)
    if 'encoder_lr' in named and (named['encoder_lr'] > 0) != (before.encoder_lr > 0):
        raise OptionError(f'--encoder-lr can not be 0 before --resume and more after it, or the other way round; the '
                          f'run has {before.encoder_lr:g}')
    options = records.read_options(parsed.resume, config, **named)
    options.check_given(named)
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    with said_to_launcher() as status:
        status[0] = console.command('train', _main, arguments)
        return status[0]


def _main(arguments: Sequence[str]) -> int:
    with contextlib.closing(Watcher()) as watcher:               # the bar is closed before an error is printed
        return _chosen(arguments, watcher)


def _chosen(arguments: Sequence[str], watcher: Watcher) -> int:
    parsed, named = read_options(arguments)
    if os.environ.get('MS_ROLE') == 'MS_SCHED':
        return _schedule()
    seeds.check(parsed)
    options = _resumed_options(parsed, named) if parsed.resume is not None else new_options(parsed, named)
    if parsed.seeds is not None:
        return seeds.run(parsed, options, named_options(parsed.config, named))
    kind = kind_of(options)
    check_count(parsed.workers)
    if parsed.workers > 1:
        return _train_together(parsed, options, arguments)
    if kind.uses_mindspore:
        device = choose_device(parsed.device, Terminal(console.program('train')))
        if options.precision == 'mixed' and device == 'CPU':
            raise OptionError('--precision mixed needs a GPU or Ascend, got CPU; leave it away')
        library.prepare(device, Terminal(console.program('train')))
    elif parsed.device not in ('auto', 'CPU'):
        raise OptionError(f'--model {kind.name} computes on the CPU, got --device {parsed.device}; leave it away')
    return _train(parsed, options, watcher, _meet(kind, watcher), named)


def _train_together(parsed: argparse.Namespace, options: Options, arguments: Sequence[str]) -> int:
    """Trains in several processes, each of which is called like this one, but for their number."""
    name = kind_of(options).name
    if not kind_of(options).in_steps:
        raise OptionError(f'--workers: a model of kind {name} is learned at once, by one process; leave it away')
    if started_by_msrun():
        raise OptionError('--workers means nothing under msrun, which says how many there are; leave it away')
    resumed = f'{_resuming(parsed, parsed.resume or options.save)} --workers {parsed.workers}'
    return run_workers(parsed.workers, [*arguments, '--workers', '1'], resumed)


def _resuming(parsed: argparse.Namespace, folder: PathLike) -> str:
    """The command by which a training in a folder goes on."""
    plugin = '' if parsed.plugin is None else f' --plugin {parsed.plugin}'
    return f'{console.call("train")}{plugin} --resume {folder}'


def _schedule() -> int:
    """Lets the workers of msrun meet, and waits for their end, deaf to Ctrl-C, which they hear themselves."""
    with signals.handling(lambda *_: None):
        from ms_crf.training import workers
        workers.meet()
    return 0


def _meet(kind: type[Kind], watcher: Watcher) -> Any:
    """The `Workers` that msrun has started, if it has; all but the first of them are silent."""
    if not started_by_msrun():
        return None
    if not kind.in_steps:
        raise OptionError(f'--model {kind.name} is learned at once, by one process; call it without msrun')
    from ms_crf.training import workers
    found = workers.meet()
    if not found.leads:
        watcher.output = open(os.devnull, 'w')  # noqa: SIM115  until the end of the process
    return found


def _report(watcher: Watcher, scores: Mapping[str, Any], folder: PathLike, began: float) -> None:
    part = 'test' if 'test' in scores else 'dev'
    watcher.say('')
    watcher.say(f'best epoch {scores["best_epoch"]}, on {part}:' if scores['epochs'] else f'on {part}:')
    for line in scores[part]['table']:
        watcher.say(line)
    compiling = f', {watcher.compiling:.1f} of them compiling' if watcher.compiling else ''
    watcher.say('')
    watcher.say(f'saved in {folder}; {time.perf_counter() - began:.0f} s{compiling}')


def with_options(error: UnlikelyTags) -> CorpusError:
    """The error of a command line, which names the options that help."""
    columns = '' if without_columns(str(error.path)) else 'name the columns of token and tag with --columns, or '
    return CorpusError(error.path, None, f'{error.fault}; {columns}add --allow-any-tags if these are tags')


def _train(parsed: argparse.Namespace, options: Options, watcher: Watcher, workers: Any,
           named: Container[str]) -> int:
    from ms_crf.runs.directory import PathTaken
    from ms_crf.training import begin
    began = time.perf_counter()
    run: Any
    if parsed.resume is not None:
        run = begin.resume(parsed.resume, options, watcher, workers, named)
        watcher.say(f'going on after epoch {run.epoch}, step {run.step_in_epoch} of the next')
    else:
        try:
            run = begin.start(options, watcher, parsed.overwrite, workers)
        except PathTaken as error:
            others = ', go on with --resume, or add --overwrite' if error.is_run else ''
            raise CorpusError(error.path, None, f'{error.fault}; choose another --save{others}') from None
        except UnlikelyTags as error:
            raise with_options(error) from None
    try:
        with signals.handling(watcher.ask_to_stop) if run.stoppable else contextlib.nullcontext():
            scores = run.run()
    except Stopped:
        watcher.close()
        kept = run.directory.earlier
        earlier = f'; {kept} is the earlier run still' if kept is not None else ''
        watcher.say(f'stopped and saved{earlier}; go on with: {_resuming(parsed, run.folder)}')
        return console.INTERRUPTED
    except NotFinite as error:
        watcher.close()
        kept = f'{run.folder} holds epoch {run.epoch}' if run.epoch else f'{run.folder} holds no epoch yet'
        encoder = f' --encoder-lr {options.encoder_lr / 4:g}' if options.encoder_lr > 0 else ''
        console.say(f'{console.program("train")}: {error}; {kept}; try --resume {run.folder} --learning-rate '
                    f'{options.learning_rate / 4:g}{encoder}')
        return console.FAULT
    if workers is None or workers.leads:
        _report(watcher, scores, run.folder, began)
    return 0
