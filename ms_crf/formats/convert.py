"""The function and the arguments of `ms-crf convert`, which writes annotated text in another format."""

from collections.abc import Mapping
from dataclasses import dataclass

from ms_crf.base import files
from ms_crf.base.arguments import Arguments, check_path, option, whole_numbers
from ms_crf.base.errors import OptionError, argument
from ms_crf.base.files import PathLike
from ms_crf.base.watchers import SILENT, Watcher
from ms_crf.formats import conversion, registry
from ms_crf.formats.conllu import check_tag_column
from ms_crf.formats.document import DEFAULT, UPOS, Names, Prediction, Remarks, Target, counted
from ms_crf.formats.lines import check_readable
from ms_crf.formats.registry import CONLLU, FORMATS, JSON, LABEL_STUDIO, SOURCES, TARGETS
from ms_crf.text.partial import MARK, closed
from ms_crf.text.schemes import PLAIN, SCHEMES, spans_of
from ms_crf.text.splitting import AUTO, CHOICES, Deferred, check_name

KINDS = ANNOTATIONS, PREDICTIONS = 'annotations', 'predictions'


def _name(meaning: str, default: str | None) -> str:
    return option(None, 'Labelling interface of Label Studio', f'{meaning} (default: as in the input, or {default})',
                  'NAME')


@dataclass
class LabelStudioArguments(Arguments):
    """Names in the labelling interface of a Label Studio project."""

    from_name: str = _name('name of the tag with the labels', DEFAULT.from_name)
    to_name: str = _name('name of the tag with the text', DEFAULT.to_name)
    label_type: str = _name('type of the tag with the labels', DEFAULT.label_type)

    @property
    def names(self) -> Names:
        """The names; raises OptionError for an empty name."""
        for name in Names._fields:
            if getattr(self, name) == '':
                raise OptionError(f'{argument(name)} must be a name, got nothing')
        return Names(self.from_name, self.to_name, self.label_type)


@dataclass
class ConvertArguments(LabelStudioArguments):
    """The arguments of `convert`."""

    source: str = option(None, '', 'file to read, also .gz; for brat also a folder', 'IN', positional=True)
    target: str = option(None, '', 'file to write; for brat a folder, or one of the two files of a pair', 'OUT',
                         positional=True)
    from_: str = option(None, '', f'format of IN: one of {", ".join(SOURCES)}; all JSON formats are equivalent here, '
                        'as each record shows its own format (default: by the name or the first line of IN)', 'FORMAT',
                        SOURCES)
    to: str = option(None, '', f'format of OUT: one of {", ".join(TARGETS)} (default: by the name of OUT)', 'FORMAT',
                     TARGETS)
    columns: str = option(None, '', 'columns of token and tag in IN, from 0, or from -1 backwards (default: 0,-1; for '
                          'CoNLL-U 1,3, or 1,9, the tags in MISC, if column 3 is empty)', 'TOKEN,TAG')
    tag_column: int = option(UPOS, '', 'column of CoNLL-U for plain tags, such as parts of speech, from 0 (default: '
                             f'{UPOS}, which is UPOS); tags of spans are written to MISC', 'N')
    scheme: str = option(None, '', 'tag scheme of OUT; plain turns one-token spans into plain tags (default: the '
                         'scheme of IN, or BIO)', choices=SCHEMES)
    unknown_tag: str = option(MARK, '', "mark that stands for the unknown tag of an unlabelled token; '' for no mark",
                              'TAG')
    as_: str = option(None, '', 'whether the spans of IN are predictions of a model, which people still check, or '
                      'annotations, in output formats that distinguish both (default: predictions if a tagger wrote '
                      'them, otherwise annotations)', choices=KINDS)
    splitter: str = option(AUTO, '', f'splitter that finds sentences and tokens in texts without tokens: {CHOICES} '
                           '(default: chosen by the first text)', 'NAME')
    each: bool = option(False, '', 'report every text and span that changes, not only the first of each kind')

    def check(self) -> None:
        """Raises OptionError for an invalid argument, CorpusError for a file that cannot be read."""
        super().check()
        for name in ('source', 'target'):
            if not getattr(self, name):
                raise OptionError(f'{argument(name)} must be a name, got nothing')
            check_path(argument(name), getattr(self, name))
        if self.splitter != AUTO:
            check_name(self.splitter, argument('splitter'))
        _ = self.pair, check_tag_column(self.tag_column), self.names
        self.formats = self._formats()

    @property
    def pair(self) -> tuple[int, ...] | None:
        """The columns of token and tag; None if the argument is omitted."""
        return None if self.columns is None else whole_numbers('columns', self.columns, [2])

    def _formats(self) -> tuple[registry.Format, registry.Format]:
        """The formats of source and target."""
        target = FORMATS[self.to] if self.to else registry.of_target(self.target)
        if target is None:
            raise OptionError(f'{self.target}: the name of {argument("target")} does not show its format; '
                              f'name the format with {argument("to")}, one of {", ".join(TARGETS)}')
        source = FORMATS[self.from_] if self.from_ else registry.of_name(self.source)
        if source is None or not source.sniff:
            check_readable(self.source)
        source = source or registry.of_file(self.source)
        if source is None:
            raise OptionError(f'{self.source}: neither the name nor the first line of {argument("source")} shows its '
                              f'format; name the format with {argument("from_")}, one of {", ".join(SOURCES)}')
        return FORMATS[JSON] if source.documents is FORMATS[JSON].documents else source, target

    def reasons(self) -> Mapping[str, str | None]:
        """For each argument, why it has no effect with the formats of IN and OUT; None if it has an effect."""
        source, target = self.formats
        to = f'with {argument("to")} {target.name}'
        return {'columns': None if source.columns else f'with {source.name}',
                'scheme': None if 'tags' in target.holds else f'{to}, which has spans',
                'tag_column': None if target.name == CONLLU else f'{to}, only with {CONLLU}',
                'unknown_tag': f'from {source.name}, which has no tags' if source.sniff else None,
                'as_': None if 'fields' in target.holds else f'{to}, which has no predictions',
                **dict.fromkeys(Names._fields, None if target.name == LABEL_STUDIO else to),
                'splitter': f'from {source.name} to {target.name}, as the file has tokens' if (
                    'tags' in source.holds and 'tags' in target.holds) else None}


@dataclass
class Conversion:
    """The result of `convert`.

    Attributes:
        source, target: names of the files.
        from_, to: names of the formats.
        texts, sentences: number of texts and of sentences; texts with spans are not split into sentences.
        spans: number of spans; None for plain tags.
        tokens: number of tokens in sentences.
        remarks: texts and spans that were changed; `remarks.lines()` has one line for each kind of change.
        each: whether `lines` has a line for each remark.
    """

    source: str
    target: str
    from_: str
    to: str
    texts: int
    sentences: int
    spans: int | None
    tokens: int
    remarks: Remarks
    each: bool = False

    @property
    def lines(self) -> list[str]:
        """The remarks as lines, and a last line with the number of texts and spans that were written."""
        return [*(self.remarks.each() if self.each else self.remarks.lines()), str(self)]

    def __str__(self) -> str:
        of = counted(self.sentences, 'sentence') if self.tokens else counted(self.texts, 'text')
        what = counted(self.tokens, 'tag') if self.spans is None else counted(self.spans, 'span')
        return f'{self.target}: {of} with {what} of {self.source}, as {self.to}'


def convert(source: PathLike, target: PathLike, *, from_: str | None = None, to: str | None = None,
            splitter: str = AUTO, columns: str | None = None, tag_column: int = UPOS, scheme: str | None = None,
            unknown_tag: str = MARK, as_: str | None = None, from_name: str | None = None, to_name: str | None = None,
            label_type: str | None = None, each: bool = False, watcher: Watcher = SILENT) -> Conversion:
    """Converts annotated text to another format. If it fails, no output is written.

    Args:
        source: file to read; for brat also a folder.
        target: file to write; for brat a folder, or one of the two files of a pair.
        from_: format of the source; by default its name or its first line decides.
        to: format of the target; by default its name decides.
        splitter: name of the splitter that finds sentences and tokens in texts without tokens; by default the first
            text decides.
        columns: columns of token and tag in the source, from 0, or from -1 backwards, such as '0,-1'.
        tag_column: column of CoNLL-U for plain tags, such as parts of speech.
        scheme: tag scheme of the target; 'plain' turns one-token spans into plain tags.
        unknown_tag: the mark that stands for the unknown tag of an unlabelled token; '' for no mark.
        as_: 'predictions' or 'annotations', for formats that distinguish both.
        from_name, to_name, label_type: names in the labelling interface of Label Studio.
        each: whether the result has a line for each remark.
        watcher: receives the lines of the result.

    Returns:
        Conversion: the number of texts and spans, and remarks about everything that the target cannot hold.

    Raises:
        OptionError: an argument is invalid, or has no effect with the two formats.
        CorpusError: a file cannot be read or written, or its content is invalid.

    Example:
        >>> from ms_crf.api import convert
        >>> result = convert('data/dev.tsv', 'dev.jsonl', to='doccano')  # doctest: +SKIP
        >>> result.sentences, result.spans                               # doctest: +SKIP
        (200, 311)
    """
    arguments = ConvertArguments.from_call(locals())
    source_format, kind = arguments.formats
    if kind.check is None:
        files.check_writable(arguments.target)
    remarks = Remarks(arguments.source)
    read = conversion.read(arguments.source, source_format.name, remarks.add, arguments.pair, arguments.unknown_tag)
    if arguments.as_ is not None:
        is_prediction = arguments.as_ == PREDICTIONS
        documents = [document._replace(prediction=(document.prediction or Prediction()) if is_prediction else None)
                     for document in read.documents]
        read = read._replace(documents=documents)
    options = Target(kind.name, Deferred(arguments.splitter), arguments.scheme, check_tag_column(arguments.tag_column),
                     arguments.unknown_tag, arguments.names)
    conversion.write(read, options, arguments.target, remarks.add)
    sentences = [sentence for document in read.documents for sentence in document.sentences or ()]
    spans = sum(len(document.spans) for document in read.documents)
    spans += sum(len(spans_of(closed(sentence.tags))) for sentence in sentences)
    tokens = sum(len(sentence.tokens) for sentence in sentences) if read.scheme else 0
    result = Conversion(arguments.source, arguments.target, source_format.name, kind.name, len(read.documents),
                        len(sentences), None if read.scheme == PLAIN else spans, tokens, remarks, arguments.each)
    for line in result.lines:
        watcher.say(line)
    return result
