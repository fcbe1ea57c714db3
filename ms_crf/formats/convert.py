"""The function behind `ms-crf convert`: writes annotated text in another format."""

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
class OfLabelStudio(Arguments):
    """The names of the parts of a labelling interface of Label Studio."""

    from_name: str = _name('name of the tag with the labels', DEFAULT.from_name)
    to_name: str = _name('name of the tag with the text', DEFAULT.to_name)
    label_type: str = _name('type of the tag with the labels', DEFAULT.label_type)

    @property
    def names(self) -> Names:
        """The names; raises OptionError for an empty one."""
        for name in Names._fields:
            if getattr(self, name) == '':
                raise OptionError(f'{argument(name)} must be a name, got nothing')
        return Names(self.from_name, self.to_name, self.label_type)


@dataclass
class ConvertArguments(OfLabelStudio):
    """What `convert` takes."""

    source: str = option(None, '', 'file to read, also .gz; of brat a folder, too', 'IN', positional=True)
    target: str = option(None, '', 'file to write; of brat a folder, or one of the files of a pair', 'OUT',
                         positional=True)
    from_: str = option(None, '', f'format of IN: one of {", ".join(SOURCES)}; those of JSON mean the same, as each '
                        'record shows which of them it is (default: by the name of IN, or as it begins)', 'FORMAT',
                        SOURCES)
    to: str = option(None, '', f'format of OUT: one of {", ".join(TARGETS)} (default: by the name of OUT)', 'FORMAT',
                     TARGETS)
    columns: str = option(None, '', 'columns of IN, from 0, or from -1 backwards (default: 0,-1; of CoNLL-U 1,3, or '
                          '1,9, tags in MISC, if there are none in 3)', 'TOKEN,TAG')
    tag_column: int = option(UPOS, '', 'column of CoNLL-U to write tags to that are not of spans, from 0 (default: '
                             f'{UPOS}, which is UPOS); those of spans go to MISC', 'N')
    scheme: str = option(None, '', 'of the tags in OUT; plain if each span is a token, with its type as tag (default: '
                         'that of IN, or BIO)', choices=SCHEMES)
    unknown_tag: str = option(MARK, '', "what stands in place of the tag of a token that nobody has judged; '' for "
                              'nothing', 'TAG')
    as_: str = option(None, '', 'what the spans of IN become in a format that knows both: predictions of a model, '
                      'which people still check, or annotations (default: predictions for what a tagger has written, '
                      'otherwise annotations)', choices=KINDS)
    splitter: str = option(AUTO, '', f'what finds sentences and tokens in texts that have none: {CHOICES} (default: '
                           'what suits the text)', 'NAME')
    each: bool = option(False, '', 'show each text and span that is not kept as it is, not only the first of each kind')

    def check(self) -> None:
        """Raises OptionError at the first value that can't be, CorpusError for a file that can't be read or written."""
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
        """The columns of token and tag, None if they are not named."""
        return None if self.columns is None else whole_numbers('columns', self.columns, [2])

    def _formats(self) -> tuple[registry.Format, registry.Format]:
        """The formats of source and target."""
        target = FORMATS[self.to] if self.to else registry.of_target(self.target)
        if target is None:
            raise OptionError(f'{self.target}: the name of {argument("target")} does not say which format it is to '
                              f'have; name it with {argument("to")}, one of {", ".join(TARGETS)}')
        source = FORMATS[self.from_] if self.from_ else registry.of_name(self.source)
        if source is None or not source.sniff:
            check_readable(self.source)
        source = source or registry.of_file(self.source)
        if source is None:
            raise OptionError(f'{self.source}: neither the name of {argument("source")} nor how it begins says which '
                              f'format it has; name it with {argument("from_")}, one of {", ".join(SOURCES)}')
        return FORMATS[JSON] if source.documents is FORMATS[JSON].documents else source, target

    def reasons(self) -> Mapping[str, str | None]:
        """Why arguments have no effect beside the others."""
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
    """What `convert` has written.

    Attributes:
        source, target: the names of the files.
        from_, to: the names of their formats.
        texts, sentences: how many of them there are; texts with spans have no sentences.
        spans: how many of them there are; None if each token has a plain tag.
        tokens: in sentences.
        remarks: on texts and spans that are not kept as they are; `remarks.lines()` has a line for each kind.
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
        """What is to be said of the conversion: remarks, and how much was written."""
        return [*(self.remarks.each() if self.each else self.remarks.lines()), str(self)]

    def __str__(self) -> str:
        of = counted(self.sentences, 'sentence') if self.tokens else counted(self.texts, 'text')
        what = counted(self.tokens, 'tag') if self.spans is None else counted(self.spans, 'span')
        return f'{self.target}: {of} with {what} of {self.source}, as {self.to}'


def convert(source: PathLike, target: PathLike, *, from_: str | None = None, to: str | None = None,
            splitter: str = AUTO, columns: str | None = None, tag_column: int = UPOS, scheme: str | None = None,
            unknown_tag: str = MARK, as_: str | None = None, from_name: str | None = None, to_name: str | None = None,
            label_type: str | None = None, each: bool = False, watcher: Watcher = SILENT) -> Conversion:
    """Writes annotated text in another format, whole or not at all.

    Args:
        source: file to read; of brat a folder, too.
        target: file to write; of brat a folder, or one of the files of a pair.
        from_: format of the source; by default its name says it, or how it begins.
        to: format of the target; by default its name says it.
        splitter: what finds sentences and tokens in texts that have none; by default what suits the text.
        columns: columns of token and tag in the source, from 0, or from -1 backwards, such as '0,-1'.
        tag_column: column of CoNLL-U to write tags to that are not of spans.
        scheme: of the tags in the target; 'plain' if each span is a token with its type as tag.
        unknown_tag: what stands in place of the tag of a token that nobody has judged; '' for nothing.
        as_: 'predictions' or 'annotations', in a format that knows both.
        from_name, to_name, label_type: names in the labelling interface of Label Studio.
        each: whether the result has a line for each remark.
        watcher: receives the lines of the result.

    Returns:
        How much was written, and remarks on what the target has no place for.

    Raises:
        OptionError: an argument can't be, or has no effect beside the others.
        CorpusError: a file has a fault, or can't be written.

    Example:
        >>> from ms_crf.api import convert
        >>> found = convert('data/dev.tsv', 'dev.jsonl', to='doccano')  # doctest: +SKIP
        >>> found.sentences, found.spans                                # doctest: +SKIP
        (200, 311)
    """
    given = ConvertArguments.from_call(locals())
    source_format, kind = given.formats
    if kind.check is None:
        files.check_writable(given.target)
    remarks = Remarks(given.source)
    read = conversion.read(given.source, source_format.name, remarks.add, given.pair, given.unknown_tag)
    if given.as_ is not None:
        read = read._replace(documents=[document._replace(prediction=(
            document.prediction or Prediction()) if given.as_ == PREDICTIONS else None) for document in read.documents])
    conversion.write(read, Target(kind.name, Deferred(given.splitter), given.scheme, check_tag_column(given.tag_column),
                                  given.unknown_tag, given.names), given.target, remarks.add)
    sentences = [sentence for document in read.documents for sentence in document.sentences or ()]
    spans = sum(len(document.spans) for document in read.documents)
    spans += sum(len(spans_of(closed(sentence.tags))) for sentence in sentences)
    made = Conversion(given.source, given.target, source_format.name, kind.name, len(read.documents),
                      len(sentences), None if read.scheme == PLAIN else spans,
                      sum(len(sentence.tokens) for sentence in sentences) if read.scheme else 0, remarks, given.each)
    for line in made.lines:
        watcher.say(line)
    return made
