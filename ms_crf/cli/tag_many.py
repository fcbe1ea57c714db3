"""The command line that tags many files with several processes or machines: ms-crf tag-many --help"""


import argparse
import os
import time
from collections.abc import Sequence
from typing import Any

from ms_crf.base import files
from ms_crf.base.arguments import check_path
from ms_crf.base.errors import OptionError, brief
from ms_crf.bulk import engine
from ms_crf.bulk.folder import Folder
from ms_crf.bulk.rows import Fields, arrow
from ms_crf.bulk.shards import JSONL, PARQUET, Shard, shards_of
from ms_crf.bulk.worker import Done, Order
from ms_crf.cli import console
from ms_crf.cli.parser import Parser, add_common, parse
from ms_crf.runs.records import check_output, newest
from ms_crf.runs.run import Run
from ms_crf.text.splitting import CHOICES, check_name

from tqdm import tqdm

VERB = 'tag-many'
MOST_WORKERS, MOST_FAULTS = 10_000, 10
RAY = 'ray'


def parser() -> Parser:
    made = Parser(prog=console.program(VERB),
                  description='Tags many files, shards, with several processes of this machine or a cluster: a file in '
                              'is a file out, whole or not at all, and those that are there already stay.')
    group = made.add_argument_group('Input')
    group.add_argument('--run', metavar='DIR', help='run directory (default: the newest in runs/)')
    group.add_argument('--input', metavar='NAME', nargs='+', action='extend',
                       help='files, folders or patterns like "shards/*.jsonl.zst": JSON lines (.jsonl, .json), a text '
                            'a line (.txt), these also with .gz or .zst, and .parquet')
    group.add_argument('--id-field', metavar='NAME',
                       help='field or column of the id (default: id where a row has it, otherwise file and line)')
    group.add_argument('--text-field', metavar='NAME', default='text',
                       help='field or column of the text (default: %(default)s)')
    group.add_argument('--tokens-field', metavar='NAME', default='tokens',
                       help='field or column of the tokens, taken where a row has both (default: %(default)s)')
    group.add_argument('--raw', action='store_true', help='find sentences and tokens in each text')
    group.add_argument('--splitter', metavar='NAME',
                       help=f'what finds them: {CHOICES} (default: as the model was trained)')
    group = made.add_argument_group('Output')
    group.add_argument('--output', metavar='DIR', help='folder for the tagged files, of the same names')
    group.add_argument('--format', choices=(JSONL, PARQUET), default=JSONL, help='(default: %(default)s)')
    group.add_argument('--confidence', action='store_true', help='posteriors of tags, entities and sentences')
    group.add_argument('--json', metavar='FILE', help='write the summary there')
    group = made.add_argument_group('Computing')
    group.add_argument('--workers', metavar='N', type=int, default=os.cpu_count() or 1,
                       help='processes, each with the model (default: as many as this machine has processors)')
    group.add_argument('--engine', choices=(RAY,), default=RAY, help='what runs them (default: %(default)s)')
    group.add_argument('--address', metavar='HOST:PORT',
                       help="of a cluster that is there, or 'auto' for the one that this machine belongs to (default: "
                            'processes of this machine)')
    add_common(group)
    return made


def _check(parsed: argparse.Namespace) -> None:
    for name in ('input', 'output'):
        if not getattr(parsed, name):
            raise OptionError(f'the following arguments are required: --{name}; see --help')
    if not 1 <= parsed.workers <= MOST_WORKERS:
        raise OptionError(f'--workers must be from 1 to {MOST_WORKERS:,}, got {brief(parsed.workers)}')
    if parsed.splitter is not None:
        if not parsed.raw:
            raise OptionError('--splitter means nothing without --raw; leave it away')
        check_name(parsed.splitter, '--splitter')
    for name in parsed.input:
        if '://' in name:
            raise OptionError(f'--input must be files that all machines see by their names, got {brief(name)}')
        check_path('--input', name)
    if parsed.json:
        check_output(parsed.json)


class _Command:
    """One call of the command.

    Args:
        parsed: its arguments.
    """

    def __init__(self, parsed: argparse.Namespace) -> None:
        self.parsed = parsed
        self.began = time.monotonic()
        self.shards = shards_of(parsed.input, parsed.output, parsed.format)
        if parsed.json:
            files.check_writable(parsed.json, *(path for shard in self.shards for path in (shard.source, shard.target)))
        self.run = os.path.abspath(parsed.run or newest('runs'))
        self.model = Run.open(self.run).digest
        self.fields = Fields(parsed.id_field, parsed.text_field, parsed.tokens_field)
        if any(shard.needs_arrow for shard in self.shards):
            arrow('Parquet and .zst')
        self.faults: list[str] = []
        self.tagged = self.lines = self.entities = 0
        self.tally = engine.Tally()
        self.bar: tqdm | None = None

    def made_with(self) -> dict[str, Any]:
        """What decides what is in the files that are written."""
        parsed = self.parsed
        return {'model': self.model, 'format': parsed.format, 'confidence': parsed.confidence, 'raw': parsed.raw,
                'splitter': parsed.splitter, **{f'{name} field': value for name, value in
                                                self.fields._asdict().items()}}

    def order(self) -> Order:
        parsed = self.parsed
        return Order(self.run, self.fields, parsed.format, parsed.raw, parsed.confidence, parsed.splitter,
                     parsed.device, parsed.plugin and os.path.abspath(parsed.plugin))

    def work(self) -> int:
        """Tags what is not there yet; returns the exit status."""
        if self.parsed.address is not None and not all(os.path.isfile(shard.target) for shard in self.shards):
            engine.check_address(self.parsed.address)
        folder = Folder(self.parsed.output, self.made_with())
        try:
            waiting = [shard for shard in self.shards if not os.path.isfile(shard.target)]
            self.skipped = len(self.shards) - len(waiting)
            folder.prepare(self.shards)
            if waiting:
                self._tag(waiting)
        except KeyboardInterrupt:
            there = sum(os.path.isfile(shard.target) for shard in self.shards)
            _report(f'stopped; {there:,} of {len(self.shards):,} shards are done; the same command goes on')
            return console.INTERRUPTED
        finally:
            folder.release()
        self._summarize()
        return console.FAULT if self.faults else 0

    def _tag(self, waiting: list[Shard]) -> None:
        parsed = self.parsed
        count = min(parsed.workers, len(waiting))
        stop = engine.Stop()
        with (tqdm(total=len(waiting), unit='shards', leave=False, delay=2, disable=None, dynamic_ncols=True) as bar,
              engine.running(stop, parsed.address, count, parsed.device) as ray):
            pool = engine.Pool(ray, stop, self.order(), count, self.model, self._report)
            self.tally, self.bar = pool.tally, bar
            for settled in pool.tag(waiting):
                if settled is None:
                    bar.refresh()
                    continue
                self._count(settled[1])
                bar.set_postfix_str(f'{self.lines:,} lines', refresh=False)
                bar.update()

    def _count(self, done: Done) -> None:
        if done.fault is None:
            self.tagged += 1
            self.lines += done.lines
            self.entities += done.entities
            return
        self.faults.append(done.fault)
        if len(self.faults) >= MOST_FAULTS:
            raise OptionError(f'{done.fault}; this is the {MOST_FAULTS}th shard with a fault, the others are left')
        self._report(done.fault)

    def _report(self, message: str) -> None:
        if self.bar is not None:
            self.bar.clear()                     # a line of its own
        _report(message)

    def _summarize(self) -> None:
        seconds = time.monotonic() - self.began
        tally = self.tally
        console.show(
            f'{self.tagged:,} shards with {self.lines:,} lines and {self.entities:,} entities tagged; '
            f'{self.skipped:,} shards skipped that were there, {len(self.faults):,} left out for faults, '
            f'{tally.retries:,} retried; {seconds:.1f} s, {len(tally.peaks):,} workers')
        if self.parsed.json:
            workers = [{'worker': name, 'lines': tally.lines_by[name], 'peak_bytes': peak}
                       for name, peak in sorted(tally.peaks.items())]
            record = {'run': self.run, 'output': self.parsed.output, 'shards': self.tagged, 'lines': self.lines,
                      'entities': self.entities, 'skipped': self.skipped, 'faults': self.faults,
                      'retries': tally.retries, 'seconds': round(seconds, 3), 'workers': workers}
            files.write_json(self.parsed.json, record)


def _report(message: str) -> None:
    console.say(f'{console.program(VERB)}: {message}')


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    return console.command(VERB, _tag_many, arguments)


def _tag_many(arguments: Sequence[str]) -> int:
    parsed, _ = parse(parser, arguments)
    _check(parsed)
    return _Command(parsed).work()
