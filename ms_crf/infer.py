"""The command line of `infer.py`: text in, tags out."""

import sys

from ms_crf import console

if __name__ == '__main__':       # before anything that takes long to import: from here on Ctrl-C is one line
    sys.exit(console.enter('infer'))

import argparse
import contextlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from io import TextIOWrapper
from typing import cast

from ms_crf.arguments import Parser, add_common, parse
from ms_crf.environment import choose_device
from ms_crf.errors import CorpusError, OptionError, brief
from ms_crf.files import check_writable, text_writer
from ms_crf.models.base import MOST_NBEST, SentenceError, read_run
from ms_crf.runs.records import newest
from ms_crf.tagger import Tagger, chunks
from ms_crf.text.dataset import Scores
from ms_crf.text.folders import Job, are_many, jobs
from ms_crf.text.raw import items as raw_items
from ms_crf.text.readers import BLANKS, check_readable
from ms_crf.text.splitting import CHOICES, check_name, splitter_named
from ms_crf.text.stream import (
    CONLL,
    FORMATS,
    HTML,
    JSON,
    TEXT,
    Item,
    format_of,
    item_of_text,
    numbered,
    open_lines,
    read,
)
from ms_crf.text.tagged import Tagged, Writer, for_columns

from tqdm import tqdm

RUNS = 'runs'
_TITLE = 'Tagged text'                 # of a page that is not made of a file


def parser() -> Parser:
    width = min(110, shutil.get_terminal_size().columns)
    made = Parser(prog=console.program('infer'), add_help=False,
                  formatter_class=lambda prog: argparse.HelpFormatter(prog, max_help_position=30, width=width),
                  description='Tags text with a model that train.py has made. Without arguments it takes the newest '
                              'run in runs/, and asks for sentences on a terminal or reads standard input.')
    group = made.add_argument_group('Model')
    group.add_argument('--run', metavar='DIR', help='run directory (default: the newest in runs/)')
    group.add_argument('--mindir', metavar='FILE', help='graph that ms_crf.export has made, with its .json beside it')
    add_common(group)
    group = made.add_argument_group('Input')
    group.add_argument('--text', metavar='TEXT', help='one sentence')
    group.add_argument('--input', metavar='FILE',
                       help='file to tag, also .gz (default: standard input); or a folder, or a pattern like '
                            '"texts/*.txt", with a folder as --output')
    group.add_argument('--input-format', choices=('auto', *FORMATS), default='auto',
                       help='text: a sentence a line; conll: a token a row; json: an object with "tokens" or "text" a '
                            'line; auto goes by the name of the file (default: auto)')
    group.add_argument('--columns', metavar='TOKEN[,TAG]', default='0,-1',
                       help='columns of conll, from 0, or from -1 backwards; the tag is read for --score only '
                            '(default: 0,-1)')
    group.add_argument('--chars', action=argparse.BooleanOptionalAction,
                       help='each character is a token, not each word (default: as the model was trained)')
    group.add_argument('--raw', action='store_true',
                       help='find sentences and tokens in the text, in which an empty line ends a sentence; places in '
                            'json count the characters of all of it, and text keeps each of them')
    group.add_argument('--splitter', metavar='NAME',
                       help=f'what finds them: {CHOICES} (default: as the model was trained)')
    group.add_argument('--strict', action='store_true',
                       help='stop at a line that is not UTF-8; otherwise it is reported and tagged with replacement '
                            'characters')
    group = made.add_argument_group('Output')
    group.add_argument('--output', metavar='FILE',
                       help='file to write (default: standard output); of many inputs the folder for a file each, '
                            'where those that are there already stay as they are')
    group.add_argument('--format', choices=(*FORMATS, HTML),
                       help='text: the line with what was found in brackets; conll: the columns and the tag; json: an '
                            'object a sentence; html: a page with what was found in colour (default: text)')
    group.add_argument('--confidence', action=argparse.BooleanOptionalAction,
                       help='posteriors of tags and entities (default: in json and html)')
    group.add_argument('--nbest', metavar='N', type=int, default=0,
                       help='add the N likeliest taggings of each sentence; in json and html (default: 0)')
    group.add_argument('--score', action='store_true',
                       help='compare with the tags in the input and print the table of scores; tagged sentences are '
                            'then written only where --output names a file')
    group.add_argument('--help', '-h', action='help', help='show this and stop')
    return made


def _columns(text: str, with_gold: bool) -> tuple[int, ...]:
    try:
        columns = tuple(int(part) for part in text.split(','))
    except ValueError:
        columns = ()
    if len(columns) not in (1, 2) or len(set(columns)) < len(columns):
        raise OptionError(f'--columns must be a number or two like 0,-1, got {text!r}')
    if with_gold and len(columns) < 2:
        raise OptionError(f'--columns must name the tag beside the token for --score, like 0,-1, got {text!r}')
    return columns if with_gold else columns[:1]


def _utf8(text: str) -> str:
    """An argument of the command line as UTF-8; where the locale is another, Python has made lone surrogates of it."""
    if text.isascii() or not any('\udc80' <= character <= '\udcff' for character in text):
        return text
    try:
        return os.fsencode(text).decode('utf-8')
    except UnicodeEncodeError:                                   # surrogates that do not stand for bytes
        return text
    except UnicodeDecodeError as error:
        raise OptionError(f'--text must be UTF-8, got byte {error.object[error.start]:#04x} at column '
                          f'{error.start + 1}') from None


class _Command:
    """One call of infer.py; its arguments are checked as far as they can be before the model is loaded.

    Args:
        parsed: all arguments.
        named: the names of the arguments that the command line names.
    """

    def __init__(self, parsed: argparse.Namespace, named: Iterable[str]) -> None:
        self.parsed = parsed
        if parsed.run and parsed.mindir:
            raise OptionError('--run and --mindir name two models, expected one of them')
        if parsed.text is not None and parsed.input:
            raise OptionError('--text and --input name two inputs, expected one of them')
        if not 0 <= parsed.nbest <= MOST_NBEST:
            raise OptionError(f'--nbest must be from 0 to {MOST_NBEST}, got {brief(parsed.nbest)}')
        self.format = parsed.format or TEXT
        if parsed.nbest and self.format not in (JSON, HTML):
            raise OptionError(f'--nbest needs --format json or html, got {self.format}')
        self.columns = _columns(parsed.columns, parsed.score)
        self.many = parsed.input is not None and are_many(parsed.input)
        if self.many and not (parsed.output or parsed.score):
            raise OptionError(f'--output must name a folder where --input is many files, as {parsed.input} is')
        self.jobs = (jobs(parsed.input, parsed.output, self.format) if self.many
                     else [Job(parsed.input or '-', parsed.output)])
        if parsed.splitter is not None:
            check_name(parsed.splitter, '--splitter')
        self._check_formats()
        self._check_meaning(named)
        for job in self.jobs:
            if job.source != '-':
                check_readable(job.source)
        if parsed.output and not self.many:
            check_writable(parsed.output)
        self.interactive = parsed.text is None and not parsed.input and sys.stdin.isatty() and not parsed.output
        self.scores: Scores | None = None

    def _kind(self, job: Job) -> str:
        """The format of an input."""
        if self.parsed.text is not None:
            return TEXT
        return self.parsed.input_format if self.parsed.input_format != 'auto' else format_of(job.source)

    def _check_formats(self) -> None:
        """Raises OptionError if an option asks for what an input of that format does not have."""
        for job in self.jobs:
            kind, where = self._kind(job), f' in {job.source}' if self.many else ''
            if self.parsed.raw and kind != TEXT:
                raise OptionError(f'--raw needs text, got {kind}{where}; add --input-format text if that is what it is')
            if self.parsed.score and kind == TEXT:
                raise OptionError(f'--score needs tags in the input, got text{where}; name a column file or JSON lines '
                                  'with --input, or add --input-format conll')

    def _check_meaning(self, named: Iterable[str]) -> None:
        """Raises OptionError if one of the named options has no effect beside the others."""
        kinds = {self._kind(job) for job in self.jobs}
        kind = kinds.pop() if len(kinds) == 1 else ''
        nowhere = 'with --score without --output' if self.parsed.score and not self.parsed.output else None
        of_text = 'with --text' if self.parsed.text is not None else None
        why = {'input_format': of_text, 'strict': of_text, 'format': nowhere, 'confidence': nowhere, 'nbest': nowhere,
               'columns': of_text or {TEXT: 'with text', JSON: 'with JSON lines'}.get(kind),
               'chars': 'with columns' if kind == CONLL else 'with --raw' if self.parsed.raw else None,
               'splitter': None if self.parsed.raw else 'without --raw'}
        for name in named:
            if why.get(name):
                raise OptionError(f'--{name.replace("_", "-")} means nothing {why[name]}; leave it away')

    def load(self) -> None:
        path = self.parsed.mindir or self.parsed.run or newest(RUNS)
        if self.parsed.mindir or read_run(path)[0].uses_mindspore:
            choose_device(self.parsed.device, console.program('infer'))
        if sys.stderr.isatty():
            print(f'loading {path}', file=sys.stderr, flush=True)
        self.tagger = Tagger.load(path)
        self.characters = self.tagger.of_characters if self.parsed.chars is None else self.parsed.chars
        self.splitter = splitter_named(self.parsed.splitter or self.tagger.splitter) if self.parsed.raw else None
        self.confidence = self.parsed.confidence
        if self.confidence is None:
            self.confidence = self.format in (JSON, HTML) and self.tagger.gives_confidences
        colour = self.interactive and self.format == TEXT and 'NO_COLOR' not in os.environ
        self.writer = Writer(self.format, self.tagger.scheme, self.tagger.tags, self.tagger.of_characters,
                             self.confidence, colour)
        self._check_model()

    def _check_model(self) -> None:
        """Raises OptionError if an option asks for something that the model can't compute."""
        if self.confidence and not self.tagger.gives_confidences:
            raise OptionError('--confidence: this graph gives no confidences; export one with --confidence, or use the '
                              'run itself')
        if self.parsed.nbest and not self.tagger.gives_nbest:
            raise OptionError('--nbest: the n best taggings come from the run of a network only, not from an exported '
                              'graph or a hidden Markov model')

    def run(self) -> None:
        if self.interactive:
            _print(self.writer.begin(_TITLE))
            self._talk()
            _print(self.writer.end())
            return
        done = [job for job in self.jobs if self.many and job.target and os.path.lexists(job.target)]
        waiting = self.jobs if self.parsed.score else [job for job in self.jobs if job not in done]
        with self._bar() as bar:
            for job in waiting:
                if self.many and job.target:
                    os.makedirs(os.path.dirname(job.target), exist_ok=True)
                self._run_job(job, bar)
        if self.many and len(waiting) < len(self.jobs):
            _report(f'{len(waiting):,} of {len(self.jobs):,} files tagged; the others were in {self.parsed.output} '
                    'already')
        if self.many:
            self._check_scored(self.parsed.input)
        for line in self.scores.lines() if self.scores else ():
            print(line)

    def _run_job(self, job: Job, bar: tqdm) -> None:
        """Tags an input, from its beginning to its end."""
        self.name = '--text' if self.parsed.text is not None else 'standard input' if job.source == '-' else job.source
        items: Iterable[Item | None]
        if self.parsed.text is not None:
            items = self._items(_utf8(self.parsed.text))
        else:
            raw = self.parsed.raw
            lines = numbered(open_lines(job.source, raw), self.name, self.parsed.strict, _report, raw)
            items = (raw_items(lines, self.splitter) if self.splitter else
                     read(lines, self.name, self._kind(job), self.characters, self.columns))
        if self.format == CONLL:
            items = for_columns(items, self.name)
        with _output(job.target, not self.parsed.score) as write:
            write(self.writer.begin(_TITLE if not self.parsed.input else os.path.basename(job.source) or _TITLE))
            for chunk in chunks(items, lambda item: len(item.tokens)):
                self._tag(chunk, write)
                if not self.many:
                    bar.update(len(chunk))
            write(self.writer.end())
            if not self.many:
                self._check_scored(self.name)
        if self.many:
            bar.update(1)

    def _check_scored(self, name: str) -> None:
        if self.parsed.score and not (self.scores and self.scores.result.tokens):
            raise CorpusError(name, None, 'expected tagged sentences, got none')

    def _items(self, text: str) -> list[Item]:
        """What is in a text that came by itself."""
        if self.splitter is None:
            return [item_of_text(1, text, self.characters)]
        return [item for item in raw_items([(1, f'{text}\n')], self.splitter) if item is not None]

    def _bar(self) -> tqdm:
        hidden = self.parsed.text is not None or (not self.parsed.output and sys.stdout.isatty())
        total, unit = (len(self.jobs), 'files') if self.many else (None, 'sentences')
        return tqdm(total=total, unit=unit, leave=False, delay=2, disable=True if hidden else None, dynamic_ncols=True)

    def _tag(self, items: Sequence[Item], write: Callable[[str], object]) -> None:
        try:
            tagged = self.tagger.tag([item.tokens for item in items], self.confidence, self.parsed.nbest)
        except SentenceError as error:
            if error.index:
                self._tag(items[:error.index], write)
            line = None if self.parsed.text is not None else items[error.index].line
            raise CorpusError(self.name, line, error.reason) from None
        if self.parsed.score:
            self._score(items, tagged)
        write(''.join(self.writer.lines(item, sentence) for item, sentence in zip(items, tagged)))

    def _score(self, items: Sequence[Item], tagged: Sequence[Tagged]) -> None:
        if self.scores is None:
            self.scores = Scores(self.tagger.found_scheme, self.tagger.scheme, self.name)
        self.scores.path = self.name
        self.scores.add([item.line for item in items], [item.gold or [] for item in items],
                        [sentence.tags for sentence in tagged])

    def _talk(self) -> None:
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401  that lines can be edited
        print('a sentence a line; an empty line or Ctrl-D ends', file=sys.stderr)
        while True:
            try:
                with console.handling(console.interrupt):        # which leaves the terminal as it was
                    text = input('> ')
            except EOFError:
                print()
                return
            except UnicodeDecodeError:
                print('expected UTF-8', file=sys.stderr)
                continue
            if not text.strip(BLANKS):
                return
            self._tag(self._items(text), _print)


def _print(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _report(message: str) -> None:
    console.say(f'{console.program("infer")}: {message}')


@contextlib.contextmanager
def _output(name: str | None, shown: bool) -> Iterator[Callable[[str], object]]:
    """A function that writes text to a file, or to standard output without `name`, or nowhere if it is not `shown`."""
    if not name:
        yield _print if shown else lambda _: None
        return
    with text_writer(name) as write:
        yield write


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    return console.command('infer', _infer, arguments)


def _infer(arguments: Sequence[str]) -> int:
    parsed, named = parse(parser, arguments)
    # Lone surrogates, which strings of JSON may hold, can't be written in UTF-8; escaped, they are the same JSON.
    cast(TextIOWrapper, sys.stdout).reconfigure(encoding='utf-8', errors='backslashreplace')
    command = _Command(parsed, named)
    command.load()
    command.run()
    return 0
