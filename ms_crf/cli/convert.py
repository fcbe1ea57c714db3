"""The command line that writes annotated text in another format: ms-crf convert --help"""


import argparse
from collections.abc import Container, Sequence

from ms_crf.base import files
from ms_crf.base.arguments import check_path
from ms_crf.base.errors import OptionError
from ms_crf.cli import console
from ms_crf.cli.parser import Parser, parse
from ms_crf.formats import conversion
from ms_crf.formats.conllu import UPOS, check_tag_column
from ms_crf.formats.conversion import (
    BRAT,
    CONLLU,
    FROM,
    JSON,
    LABEL_STUDIO,
    OF_COLUMNS,
    OF_JSON,
    OF_PREDICTIONS,
    OF_TAGS,
    TO,
    Source,
    Target,
)
from ms_crf.formats.document import Remarks, counted
from ms_crf.formats.json_fields import DEFAULT, Names
from ms_crf.formats.readers import check_readable
from ms_crf.runs.options import dashed
from ms_crf.text.partial import MARK, closed
from ms_crf.text.schemes import SCHEMES, spans_of
from ms_crf.text.splitting import AUTO, CHOICES, Deferred, check_name

KINDS = ANNOTATIONS, PREDICTIONS = 'annotations', 'predictions'


def parser() -> Parser:
    made = Parser(prog=console.program('convert'),
                  description='Writes annotated text in another format. What the other format has no place for, and '
                              'spans that do not fit its tokens, are counted and shown on standard error.')
    made.add_argument('input', nargs='?', metavar='IN', help='file to read, also .gz; of brat a folder, too')
    made.add_argument('output', nargs='?', metavar='OUT',
                      help='file to write; of brat a folder, or one of the files of a pair')
    made.add_argument('--from', dest='source', choices=FROM, metavar='FORMAT',
                      help=f'format of IN: one of {", ".join(FROM)}; those of JSON mean the same, as each record shows '
                           'which of them it is (default: by the name of IN, or as it begins)')
    made.add_argument('--to', dest='target', choices=TO, metavar='FORMAT',
                      help=f'format of OUT: one of {", ".join(TO)} (default: by the name of OUT)')
    made.add_argument('--splitter', metavar='NAME', default=AUTO,
                      help=f'what finds sentences and tokens in texts that have none: {CHOICES} (default: what suits '
                           'the text)')
    made.add_argument('--columns', metavar='TOKEN,TAG',
                      help='columns of IN, from 0, or from -1 backwards (default: 0,-1; of CoNLL-U 1,3, or 1,9, tags '
                           'in MISC, if there are none in 3)')
    made.add_argument('--tag-column', type=int, metavar='N', default=UPOS,
                      help='column of CoNLL-U to write tags to that are not of spans, from 0 (default: %(default)s, '
                           'which is UPOS); those of spans go to MISC')
    made.add_argument('--scheme', choices=SCHEMES,
                      help='of the tags in OUT; plain if each span is a token, with its type as tag (default: that of '
                           'IN, or BIO)')
    made.add_argument('--unknown-tag', metavar='TAG', default=MARK,
                      help="what stands in place of the tag of a token that nobody has judged; '' for nothing "
                           '(default: %(default)s)')
    made.add_argument('--as', dest='kind', choices=KINDS,
                      help='what the spans of IN become in a format that knows both: predictions of a model, which '
                           'people still check, or annotations (default: predictions for what a tagger has written, '
                           'otherwise annotations)')
    add_names(made)
    made.add_argument('--each', action='store_true',
                      help='show each text and span that is not kept as it is, not only the first of each kind')
    return made


def add_names(group: argparse._ActionsContainer) -> None:
    """Adds the options that name the parts of a labelling interface of Label Studio, to a parser or a group of one."""
    for option, meaning, default in (('--from-name', 'name of the tag with the labels', DEFAULT.from_name),
                                     ('--to-name', 'name of the tag with the text', DEFAULT.to_name),
                                     ('--label-type', 'type of the tag with the labels', DEFAULT.label_type)):
        group.add_argument(option, metavar='NAME', help=f'in the labelling interface of Label Studio: {meaning} '
                                                        f'(default: as in the input, or {default})')


def names_of(parsed: argparse.Namespace) -> Names:
    """The names of the parts of a labelling interface in the options that `add_names` adds."""
    for option in Names._fields:
        if getattr(parsed, option) == '':
            raise OptionError(f'--{dashed(option)} must be a name, got nothing')
    return Names(*(getattr(parsed, option) for option in Names._fields))


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    return console.command('convert', _convert, arguments)


def _convert(arguments: Sequence[str]) -> int:
    parsed, named = parse(parser, arguments)
    for metavar, path in (('IN', parsed.input), ('OUT', parsed.output)):
        if not path:
            raise OptionError(f'{metavar} must be a name, got nothing; see --help')
        check_path(metavar, path)
    pair = _pair(parsed.columns)
    if parsed.splitter != AUTO:
        check_name(parsed.splitter, '--splitter')
    splitter, column = Deferred(parsed.splitter), check_tag_column(parsed.tag_column)
    names = names_of(parsed)
    kind, target = _formats(parsed)
    _check_meaning(named, kind, target)
    if kind != BRAT:
        check_readable(parsed.input)
    if target != BRAT:
        files.check_writable(parsed.output)
    remarks = Remarks(parsed.input)
    mark = parsed.unknown_tag
    source = conversion.read(parsed.input, kind, remarks.add, pair, mark)
    if parsed.kind is not None:
        source = conversion.read_as(source, parsed.kind == PREDICTIONS)
    conversion.write(source, Target(target, splitter, parsed.scheme, column, mark, names), parsed.output, remarks.add)
    for line in remarks.each() if parsed.each else remarks.lines():
        console.say(line)
    console.say(f'{parsed.output}: {_size(source)} of {parsed.input}, as {target}')
    return 0


def _formats(parsed: argparse.Namespace) -> tuple[str, str]:
    """The formats of IN and OUT."""
    target = parsed.target or conversion.format_out(parsed.output)
    if target is None:
        raise OptionError(f'{parsed.output}: the name of OUT does not say which format it is to have; name it with '
                          f'--to, one of {", ".join(TO)}')
    source = parsed.source
    if source is None:
        source = conversion.format_in(parsed.input)
        if source != BRAT:
            check_readable(parsed.input)
    if source is None:
        raise OptionError(f'{parsed.input}: neither the name of IN nor how it begins says which format it has; name it '
                          f'with --from, one of {", ".join(FROM)}')
    return JSON if source in OF_JSON else source, target


def _check_meaning(named: Container[str], source: str, target: str) -> None:
    """Raises OptionError for an option that has no effect between these formats."""
    why = {'columns': None if source in OF_COLUMNS else f'with {source}',
           'scheme': None if target in OF_TAGS else f'with --to {target}, which has spans',
           'tag_column': None if target == CONLLU else f'with --to {target}, only with {CONLLU}',
           'unknown_tag': f'from {source}, which has no tags' if source == BRAT else None,
           'kind': None if target in OF_PREDICTIONS else f'with --to {target}, which has no predictions',
           **dict.fromkeys(Names._fields, None if target == LABEL_STUDIO else f'with --to {target}'),
           'splitter': f'from {source} to {target}, as the file has tokens' if (
               source in OF_COLUMNS and target in OF_TAGS) else None}
    for name, reason in why.items():
        if name in named and reason:
            option = 'as' if name == 'kind' else dashed(name)
            raise OptionError(f'--{option} means nothing {reason}; leave it away')


def _pair(text: str | None) -> tuple[int, ...] | None:
    """The columns of token and tag, None if they are not named."""
    if text is None:
        return None
    try:
        pair = tuple(int(part) for part in text.split(','))
    except ValueError:
        pair = ()
    if len(pair) != 2 or pair[0] == pair[1]:
        raise OptionError(f'--columns must be two numbers like 0,-1, got {text!r}')
    return pair


def _size(source: Source) -> str:
    """How much there is: texts, or sentences, and spans or tags."""
    documents = source.documents
    spans = sum(len(document.spans) for document in documents)
    sentences = [sentence for document in documents for sentence in document.sentences or ()]
    if source.scheme is None:
        return f'{counted(len(documents), "text")} with {counted(spans, "span")}'
    if source.scheme == 'plain':
        tags = sum(len(sentence.tokens) for sentence in sentences)
        return f'{counted(len(sentences), "sentence")} with {counted(tags, "tag")}'
    spans += sum(len(spans_of(closed(sentence.tags or []))) for sentence in sentences)
    return f'{counted(len(sentences), "sentence")} with {counted(spans, "span")}'
