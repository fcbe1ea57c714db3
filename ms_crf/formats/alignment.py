"""Converts character spans to tags of tokens, and tags to character spans.

Rules (the first four produce remarks):

- A span that begins or ends inside a token is widened to whole tokens. Spans never split tokens: at prediction time
  there are no spans, so training and scoring must not use spans to find tokens.
- If spans share a token, the longest span is kept; of equally long spans, the first.
- If a span crosses a sentence boundary, the sentences are joined.
- A span of white space only is dropped.
- A token is annotated if it lies completely in an annotated part of the text, or if it is in a span.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate

from ms_crf.base.errors import CorpusError
from ms_crf.base.files import PathLike
from ms_crf.formats.document import SHOWN, Document, ReadOptions, Remark, Report
from ms_crf.formats.json_lines import flat
from ms_crf.text import schemes
from ms_crf.text.partial import as_json, certain, check_tag, closed, countable, in_scheme, is_open, is_well_formed
from ms_crf.text.schemes import NEXT, OPEN, PLAIN, SchemeError, SpanTuple, recognise_scheme, spans_of, tags_of
from ms_crf.text.sentence import Offsets, Sentence, Span
from ms_crf.text.splitting import Splitter

_VISIBLE = re.compile(r'\S')


def cut(document: Document, splitter: Splitter) -> list[Sentence]:
    """The sentences of a document. If the document has only tokens, or only text, the splitter finds the sentences."""
    if document.sentences is not None:
        return document.sentences
    sentences = splitter.split(document.text)
    if document.tokens is not None:
        starts = [sentence.start for sentence in sentences]
        by_sentence: dict[int, list[Offsets]] = {}
        for token in document.tokens:
            by_sentence.setdefault(max(bisect_right(starts, token[0]) - 1, 0), []).append(token)
        sentences = [Sentence.of_text(document.text, offsets) for offsets in by_sentence.values()]
    line_of = document.line_numbers()
    for sentence in sentences:
        sentence.line, sentence.raw = line_of(sentence.offsets[0][0]), False
    return sentences


def _kept(document: Document, sentences: Sequence[Sentence], report: Report) -> list[SpanTuple]:
    """Spans of a document after the rules: (type, first token, last token), with token indices in the document."""
    offsets = [pair for sentence in sentences for pair in sentence.offsets]
    starts, ends = [start for start, _ in offsets], [end for _, end in offsets]
    sentence_of = [index for index, sentence in enumerate(sentences) for _ in sentence.tokens]
    taken = bytearray(len(offsets))              # 1 for tokens that are in a kept span
    remarks, kept = [], []
    for span in sorted(document.spans, key=lambda span: (span.start - span.end, span.start)):
        check_tag(document.path, span.line, span.type)
        first, last = bisect_right(ends, span.start), bisect_left(starts, span.end) - 1
        if first > last or not _VISIBLE.search(document.text, max(span.start, starts[first]), span.end):
            remarks.append((span, 'empty'))
        elif taken.find(1, first, last + 1) >= 0:
            remarks.append((span, 'overlap'))
        else:
            kept.append((span.type, first, last))
            taken[first:last + 1] = b'\1' * (last + 1 - first)
            text = document.text[span.start:span.end]
            inner = span.start + len(text) - len(text.lstrip()), span.start + len(text.rstrip())
            if (starts[first], ends[last]) not in ((span.start, span.end), inner):
                remarks.append((span, 'grown'))
            if sentence_of[first] != sentence_of[last]:
                remarks.append((span, 'joined'))
    for span, kind in sorted(remarks, key=lambda entry: (entry[0].line, entry[0].start)):
        report(Remark(kind, document.path, span.line, document.text[span.start:min(span.end, span.start + SHOWN + 1)]))
    return sorted(kept, key=lambda span: span[1])


def _joined(text: str, sentences: Sequence[Sentence], spans: Iterable[SpanTuple]) -> list[Sentence]:
    """Sentences of a text after joining all sentences that share a span."""
    inside = {token for _, first, last in spans for token in range(first + 1, last + 1)}
    groups: list[list[Sentence]] = []
    begin = 0
    for sentence in sentences:
        if begin in inside:
            groups[-1].append(sentence)
        else:
            groups.append([sentence])
        begin += len(sentence.tokens)
    return [group[0] if len(group) == 1 else group[0].replace(
        tokens=[token for sentence in group for token in sentence.tokens],
        offsets=[pair for sentence in group for pair in sentence.offsets],
        text=text[group[0].start:group[-1].end],
        lines=tuple(line for sentence in group for line in sentence.lines), rows=()) for group in groups]


def tagged(document: Document, splitter: Splitter, report: Report, scheme: str = 'BIO') -> list[Sentence]:
    """Tagged sentences of a document; if the document has spans, they are converted to tags.

    Args:
        document: a document with tagged sentences or with spans.
        splitter: finds sentences and tokens if the document has none.
        report: receives a `Remark` for each span that the rules change.
        scheme: the scheme for tags of spans. 'plain' requires a span for each token and uses its type as tag.
    """
    sentences = cut(document, splitter)
    if all(sentence.tags for sentence in sentences) and not document.spans:
        return sentences
    spans = _kept(document, sentences, report)
    firsts = [first for _, first, _ in spans]
    sentences = _joined(document.text, sentences, spans)
    result, begin, is_annotated = [], 0, _within(document.annotated)
    for sentence in sentences:
        end = begin + len(sentence.tokens)
        inner = [(kind, first - begin, last - begin)
                 for kind, first, last in spans[bisect_left(firsts, begin):bisect_left(firsts, end)]]
        inside = {token for _, first, last in inner for token in range(first, last + 1)}
        annotated = [index in inside or is_annotated(*pair) for index, pair in enumerate(sentence.offsets)]
        tags = (_plain_tags(document.source_path, sentence, inner, annotated) if scheme == PLAIN else
                _with_open(tags_of(inner, end - begin, scheme), inner, annotated))
        result.append(sentence.replace(tags=tags))
        begin = end
    return result


def _within(parts: Sequence[Offsets] | None) -> Callable[[int, int], bool]:
    """Returns a function that checks whether a token (start, end) is in an annotated part; None is the whole text."""
    if parts is None:
        return lambda start, end: True
    ordered = sorted(parts)
    starts, furthest = [start for start, _ in ordered], list(accumulate((end for _, end in ordered), max))

    def within(start: int, end: int) -> bool:
        before = bisect_right(starts, start)             # parts that begin at the token or earlier
        return before > 0 and end <= furthest[before - 1]
    return within


def _with_open(tags: list[str], spans: Iterable[SpanTuple], annotated: Sequence[bool]) -> list[str]:
    """Tags with unknown tags for unlabelled tokens. After a span the tag is NEXT: the end of a span is always known."""
    after_spans = {last + 1 for _, _, last in spans}
    return [tag if known else NEXT if index in after_spans else OPEN
            for index, (tag, known) in enumerate(zip(tags, annotated))]


def _plain_tags(path: str, sentence: Sentence, spans: Sequence[SpanTuple], annotated: Sequence[bool]) -> list[str]:
    types = {first: kind for kind, first, last in spans if first == last}
    types.update({index: OPEN for index, known in enumerate(annotated) if not known})
    for index, token in enumerate(sentence.tokens):
        if not types.get(index):
            raise CorpusError(path, sentence.line_of(index), 'expected a span for each token, because plain tags are '
                                                             f'made of one-token spans, got none for {token!r}')
    return [types[index] for index in range(len(sentence.tokens))]


def check_scheme(document: Document, sentence: Sentence, scheme: str, report: Report) -> None:
    """Reports a sentence whose tag sequence is invalid in its scheme, before it is converted to spans."""
    if not is_well_formed(sentence.tags, scheme):
        report(Remark('ill-formed', document.path, sentence.line, ' '.join(sentence.tokens)))


def retagged(sentence: Sentence, path: str, scheme: str, source: str, types: Iterable[str] = ()) -> Sentence:
    """A sentence with its tags converted to another scheme.

    Args:
        sentence: a tagged sentence; tags may be unknown.
        path: path of its file, for messages.
        scheme: the new scheme. For 'plain', each span must have exactly one token, and its type becomes the tag.
        source: the scheme of the tags.
        types: the span types that unknown tags may stand for.
    """
    tags = sentence.tags
    if scheme == PLAIN:
        return sentence.replace(tags=_plain_tags(path, sentence, spans_of(closed(tags)),
                                                 [OPEN not in tag for tag in tags]))
    return sentence.replace(tags=in_scheme(tags, scheme, source, types))


def spans_in(document: Document, scheme: str, report: Report) -> list[Span]:
    """Spans of a document; tags are converted to spans.

    Args:
        document: a document with spans or with tagged sentences.
        scheme: the scheme of the tags; 'plain' makes each token a span, with its tag as type.
        report: receives a `Remark` for each sentence with plain tags or with an invalid tag sequence.
    """
    spans = list(document.spans)
    for sentence in document.sentences or () if not spans else ():
        converted = countable(schemes.spans_in(closed(sentence.tags), scheme), certain(sentence.tags, scheme))
        if scheme == PLAIN and converted:
            report(Remark('plain', document.path, sentence.line, ' '.join(sentence.tokens)))
        check_scheme(document, sentence, scheme, report)
        spans += sentence.spans_at(converted)
    return spans


def annotated_parts(document: Document, scheme: str, report: Report) -> list[Offsets] | None:
    """Annotated parts of a document; None if the whole document is annotated.

    Args:
        document: a document with spans or with tagged sentences; of tags, only certain ones are annotated.
        scheme: the scheme of the tags.
        report: receives a `Remark` for each sentence with partly unknown tags or spans.
    """
    if document.spans or not any(is_open(sentence.tags) for sentence in document.sentences or ()):
        return document.annotated
    parts: list[Offsets] = []
    for sentence in document.sentences or ():
        tags = sentence.tags
        is_certain = certain(tags, scheme)
        if any(not is_known and tag not in (OPEN, NEXT) for is_known, tag in zip(is_certain, tags)):
            report(Remark('in part', document.path, sentence.line, ' '.join(sentence.tokens)))
        for index, (is_known, (start, end)) in enumerate(zip(is_certain, sentence.offsets)):
            if is_known and index and is_certain[index - 1]:
                parts[-1] = parts[-1][0], end
            elif is_known:
                parts.append((start, end))
    return parts


def scheme_of(documents: Iterable[Document]) -> str | None:
    """The scheme of all tags in the documents of a file; None if they have no tags.

    Raises:
        CorpusError: the tags do not fit any scheme.
    """
    sentences = [(document.path, sentence) for document in documents for sentence in document.sentences or ()
                 if sentence.tags]
    return recognised(sentences) if sentences else None


def recognised(sentences: Sequence[tuple[PathLike, Sentence]]) -> str:
    """The tag scheme of sentences with their paths; raises CorpusError if the tags do not fit any scheme."""
    try:
        return recognise_scheme([sentence.tags for _, sentence in sentences])
    except SchemeError as error:
        path, sentence = sentences[error.sentence]
        raise CorpusError(path, sentence.line_of(error.position), str(error)) from None


def corpus_of(documents: Iterable[Document], splitter: Splitter, report: Report) -> Iterator[Sentence]:
    """Tagged sentences of documents for training and scoring; spans become BIO tags."""
    for document in documents:
        if document.prediction is not None:
            report(Remark('predicted', document.path, document.line, document.text.strip()))
        for sentence in tagged(document, splitter, report):
            if sentence.tokens:
                yield Sentence(sentence.tokens, sentence.tags, line=sentence.line, lines=sentence.lines)


def sentences_of(documents: Iterable[Document], options: ReadOptions) -> Iterator[Sentence]:
    """Sentences of texts with spans for tagging with gold tags: each sentence has its own text, and BIO tags.

    Args:
        documents: texts with spans.
        options: reading options with a splitter; `report` receives a `Remark` for each span that the rules change.
    """
    assert options.splitter is not None
    for document in documents:
        for sentence in tagged(document, options.splitter, options.report):
            record = {**flat(document.record), 'tags': as_json(sentence.tags)}
            yield sentence.moved(0).replace(record=record)
