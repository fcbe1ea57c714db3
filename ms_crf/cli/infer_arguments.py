"""What the command line of `infer.py` may say: its options, and which of them go together."""

import argparse
import shutil
import sys
from collections.abc import Iterable

from ms_crf.base.errors import OptionError, brief
from ms_crf.cli import console
from ms_crf.cli.parser import Parser, add_common, add_model, check_model
from ms_crf.formats.conllu import check_tag_column
from ms_crf.formats.document import UPOS
from ms_crf.formats.folders import Job, are_many, jobs
from ms_crf.formats.lines import check_readable
from ms_crf.formats.registry import (
    BRAT,
    CONLL,
    CONLLU,
    FORMATS,
    HTML,
    JSON,
    OUTPUTS,
    STREAMS,
    TEXT,
    columns_of,
    of_name,
    of_stream,
)
from ms_crf.models.base import MOST_NBEST
from ms_crf.runs.records import check_output
from ms_crf.text.splitting import CHOICES, check_name


def parser() -> Parser:
    width = min(110, shutil.get_terminal_size().columns)
    made = Parser(prog=console.program('infer'), add_help=False,
                  formatter_class=lambda prog: argparse.HelpFormatter(prog, max_help_position=30, width=width),
                  description='Tags text with a trained model. Without arguments it takes the newest '
                              'run in runs/, and asks for sentences on a terminal or reads standard input.')
    group = made.add_argument_group('Model')
    add_model(group)
    add_common(group)
    group = made.add_argument_group('Input')
    group.add_argument('--text', metavar='TEXT', help='one sentence')
    group.add_argument('--input', metavar='FILE',
                       help='file to tag, also .gz (default: standard input); or a folder, or a pattern like '
                            '"texts/*.txt", with a folder as --output')
    add_forms(group, 'the tag is read for --score, and in CoNLL-U it is where --format conll puts tags such as NOUN',
              raw='; places in json count the characters of all of it, and text keeps each of them')
    group = made.add_argument_group('Output')
    group.add_argument('--output', metavar='FILE',
                       help='file to write (default: standard output); of many inputs the folder for a file each, '
                            'where those that are there already stay as they are')
    group.add_argument('--format', choices=OUTPUTS,
                       help='text: the line with what was found in brackets; conll: the columns and the tag; json: an '
                            'object a sentence; html: a page with what was found in colour (default: text)')
    group.add_argument('--confidence', action=argparse.BooleanOptionalAction,
                       help='posteriors of tags and entities (default: in json and html)')
    group.add_argument('--nbest', metavar='N', type=int, default=0,
                       help='add the N likeliest taggings of each sentence; in json and html (default: 0)')
    group.add_argument('--temperature', metavar='T', type=float, default=1.0,
                       help='what all scores of the model are divided by before confidences are computed; ms-crf '
                            'report finds one that suits it (default: 1)')
    group.add_argument('--score', action='store_true',
                       help='compare with the tags in the input and print the table of scores; tagged sentences are '
                            'then written only where --output names a file')
    group.add_argument('--unknown-tag', metavar='TAG',
                       help="of --score: what stands in place of the tag of a token that nobody has judged, which does "
                            "not count; '' for nothing (default: as the model was trained)")
    group.add_argument('--help', '-h', action='help', help='show this and stop')
    return made


def add_forms(group: argparse._ActionsContainer, columns: str, raw: str = '', splitter: str = '') -> None:
    """Adds the options that say in which form sentences without tags come.

    Args:
        group: of a parser.
        columns: what the second column of --columns is.
        raw: what the help of --raw ends with.
        splitter: where else --splitter counts.
    """
    group.add_argument('--input-format', choices=('auto', *STREAMS), default='auto',
                       help='text: a sentence a line; conll: a token a row; json: an object with "tokens" or "text" a '
                            'line; auto goes by the name of the file (default: auto)')
    group.add_argument('--columns', metavar='TOKEN[,TAG]', default='0,-1',
                       help=f'columns of conll, from 0, or from -1 backwards; {columns} (default: 0,-1)')
    group.add_argument('--chars', action=argparse.BooleanOptionalAction,
                       help='each character is a token, not each word (default: as the model was trained)')
    group.add_argument('--raw', action='store_true',
                       help=f'find sentences and tokens in the text, in which an empty line ends a sentence{raw}')
    group.add_argument('--splitter', metavar='NAME',
                       help=f'what finds them{splitter}: {CHOICES} (default: as the model was trained)')
    group.add_argument('--strict', action='store_true',
                       help='stop at a line that is not UTF-8; otherwise it is reported and read with replacement '
                            'characters')


def columns_of_option(text: str, with_gold: bool, what: str = '--score') -> tuple[int, ...]:
    """The indices that --columns names: of the token, and with gold tags that of the tag."""
    try:
        columns = tuple(int(part) for part in text.split(','))
    except ValueError:
        columns = ()
    if len(columns) not in (1, 2) or len(set(columns)) < len(columns):
        raise OptionError(f'--columns must be a number or two like 0,-1, got {text!r}')
    if with_gold and len(columns) < 2:
        raise OptionError(f'--columns must name the tag beside the token for {what}, like 0,-1, got {text!r}')
    return columns if with_gold else columns[:1]


class Request:
    """What one call of infer.py asks for, checked as far as it can be before the model is loaded.

    Args:
        parsed: all arguments.
        named: the names of the arguments that the command line names.

    Attributes:
        format: that of the output.
        columns: the index of the column of the token, and with --score that of the tag.
        many: whether the input is many files.
        jobs: the inputs, '-' for standard input, and where their outputs go.
        interactive: whether a person is asked for sentences.
    """

    def __init__(self, parsed: argparse.Namespace, named: Iterable[str]) -> None:
        self.parsed = parsed
        check_model(parsed)
        if parsed.text is not None and parsed.input:
            raise OptionError('--text and --input name two inputs, expected one of them')
        if not 0 <= parsed.nbest <= MOST_NBEST:
            raise OptionError(f'--nbest must be from 0 to {MOST_NBEST}, got {brief(parsed.nbest)}')
        if not 0.01 <= parsed.temperature <= 100:
            raise OptionError(f'--temperature must be from 0.01 to 100, got {parsed.temperature}')
        self.format = parsed.format or TEXT
        if parsed.nbest and self.format not in (JSON, HTML):
            raise OptionError(f'--nbest needs --format json or html, got {self.format}')
        self.columns = columns_of_option(parsed.columns, parsed.score)
        self.many = parsed.input is not None and are_many(parsed.input) and not (
            parsed.score and parsed.input_format == 'auto' and of_name(parsed.input) is FORMATS[BRAT])
        if self.many and not (parsed.output or parsed.score):
            raise OptionError(f'--output must name a folder where --input is many files, as {parsed.input} is')
        self.jobs = (jobs(parsed.input, parsed.output, self.format) if self.many
                     else [Job(parsed.input or '-', parsed.output)])
        if parsed.splitter is not None:
            check_name(parsed.splitter, '--splitter')
        self._check_formats()
        self._check_meaning(named)
        for job in self.jobs:
            if job.source != '-' and self.kind(job) != BRAT:
                check_readable(job.source)
            self.tag_column(job)
        if parsed.output and not self.many:
            check_output(parsed.output)
        self.interactive = parsed.text is None and not parsed.input and sys.stdin.isatty() and not parsed.output

    def kind(self, job: Job) -> str:
        """The format of an input."""
        if self.parsed.text is not None:
            return TEXT
        if self.parsed.score and self.parsed.input_format == 'auto' and of_name(job.source) is FORMATS[BRAT]:
            return BRAT
        return of_stream(job.source, self.parsed.input_format).stream

    def tag_column(self, job: Job) -> int | None:
        """Where CoNLL-U gets tags that are not of spans; None if it is not what is read and written."""
        if (self.format, self.kind(job)) != (CONLL, CONLL) or of_stream(job.source) is not FORMATS[CONLLU]:
            return None
        columns = columns_of(job.source, tuple(int(part) for part in self.parsed.columns.split(',')))
        return check_tag_column(columns[1]) if len(columns) > 1 else UPOS

    def _with_confidences(self) -> bool:
        """Whether confidences or alternatives are asked for."""
        wanted = self.parsed.confidence
        return bool(self.parsed.nbest) or (self.format in (JSON, HTML) if wanted is None else wanted)

    def _check_formats(self) -> None:
        """Raises OptionError if an option asks for what an input of that format does not have."""
        for job in self.jobs:
            kind, where = self.kind(job), f' in {job.source}' if self.many else ''
            if self.parsed.raw and kind != TEXT:
                raise OptionError(f'--raw needs text, got {kind}{where}; add --input-format text if that is what it is')
            if self.parsed.score and kind == TEXT:
                raise OptionError(f'--score needs tags in the input, got text{where}; name a column file or JSON lines '
                                  'with --input, or add --input-format conll')

    def _check_meaning(self, named: Iterable[str]) -> None:
        """Raises OptionError if one of the named options has no effect beside the others."""
        kinds = {self.kind(job) for job in self.jobs}
        kind = kinds.pop() if len(kinds) == 1 else ''
        nowhere = 'with --score without --output' if self.parsed.score and not self.parsed.output else None
        of_text = 'with --text' if self.parsed.text is not None else None
        of_brat = f'with {BRAT}' if kind == BRAT else None
        why = {'input_format': of_text, 'strict': of_text or of_brat, 'format': nowhere,
               'confidence': nowhere, 'nbest': nowhere,
               'columns': of_text or {TEXT: 'with text', JSON: 'with JSON lines', BRAT: of_brat}.get(kind),
               'chars': 'with columns' if kind == CONLL else 'with --raw' if self.parsed.raw else of_brat,
               'temperature': nowhere or (None if self._with_confidences() else 'without confidences'),
               'unknown_tag': None if self.parsed.score else 'without --score',
               'splitter': None if self.parsed.raw or (self.parsed.score and kind != CONLL) else
               'without --raw, or texts with spans to --score'}
        for name in named:
            if why.get(name):
                raise OptionError(f'--{name.replace("_", "-")} means nothing {why[name]}; leave it away')
