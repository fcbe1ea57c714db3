"""Spans by character become tags of tokens, and tags become spans.

The rules, each of which is reported where it is needed:

- A span that does not fall on borders of tokens is widened to whole tokens. Tokens are never cut at its borders: text
  that is tagged later has no spans to cut it by, so that a model would be trained, and scored, on tokens that it does
  not get.
- Of spans that share a token the longest is kept, of equally long ones the first.
- Sentences are joined where a span crosses the border between them.
- A span of white space alone is left out.
- A token is judged if all of it is in a part of the text that somebody has looked at, or if it is in a span.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate

from ms_crf.base.errors import CorpusError
from ms_crf.base.files import PathLike
from ms_crf.formats.document import SHOWN, Document, Reading, Remark, Report
from ms_crf.formats.json_lines import flat
from ms_crf.text import schemes
from ms_crf.text.partial import as_json, certain, check_tag, closed, countable, in_scheme, is_open, is_well_formed
from ms_crf.text.schemes import NEXT, OPEN, PLAIN, SchemeError, SpanTuple, recognise_scheme, spans_of, tags_of
from ms_crf.text.sentence import Offsets, Sentence, Span
from ms_crf.text.splitting import Splitter

_VISIBLE = re.compile(r'\S')


def cut(document: Document, splitter: Splitter) -> list[Sentence]:
    """The sentences of a document: its own, or those that the splitter finds, with its own tokens if it has any."""
    if document.sentences is not None:
        return document.sentences
    found = splitter.split(document.text)
    if document.tokens is not None:
        starts = [sentence.start for sentence in found]
        by_sentence: dict[int, list[Offsets]] = {}
        for place in document.tokens:
            by_sentence.setdefault(max(bisect_right(starts, place[0]) - 1, 0), []).append(place)
        found = [Sentence.of_text(document.text, offsets) for offsets in by_sentence.values()]
    line_of = document.line_numbers()
    for sentence in found:
        sentence.line, sentence.raw = line_of(sentence.offsets[0][0]), False
    return found


def _kept(document: Document, sentences: Sequence[Sentence], report: Report) -> list[SpanTuple]:
    """(type, first token, last token) of the spans of a document that are kept, tokens numbered through it."""
    offsets = [place for sentence in sentences for place in sentence.offsets]
    starts, ends = [start for start, _ in offsets], [end for _, end in offsets]
    sentence_of = [index for index, sentence in enumerate(sentences) for _ in sentence.tokens]
    taken = bytearray(len(offsets))              # 1 for the tokens of spans that are kept
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
    """The sentences of a text, with those joined that a span crosses."""
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
        offsets=[place for sentence in group for place in sentence.offsets],
        text=text[group[0].start:group[-1].end],
        lines=tuple(line for sentence in group for line in sentence.lines), rows=()) for group in groups]


def tagged(document: Document, splitter: Splitter, report: Report, scheme: str = 'BIO') -> list[Sentence]:
    """The sentences of a document with tags: those that it has, or those of its spans.

    Args:
        document: with tags in its sentences, or with spans.
        splitter: finds sentences and tokens where the document has none.
        report: is called with a `Remark` on each span that the rules change.
        scheme: of the tags that are made of spans; 'plain' if each span is a token with its type as tag.
    """
    sentences = cut(document, splitter)
    if all(sentence.tags for sentence in sentences) and not document.spans:
        return sentences
    spans = _kept(document, sentences, report)
    firsts = [first for _, first, _ in spans]
    sentences = _joined(document.text, sentences, spans)
    made, begin, is_judged = [], 0, _within(document.judged)
    for sentence in sentences:
        end = begin + len(sentence.tokens)
        own = [(kind, first - begin, last - begin)
               for kind, first, last in spans[bisect_left(firsts, begin):bisect_left(firsts, end)]]
        inside = {token for _, first, last in own for token in range(first, last + 1)}
        judged = [index in inside or is_judged(*place) for index, place in enumerate(sentence.offsets)]
        tags = (_plain_tags(document.home, sentence, own, judged) if scheme == PLAIN else
                _with_open(tags_of(own, end - begin, scheme), own, judged))
        made.append(sentence.replace(tags=tags))
        begin = end
    return made


def _within(parts: Sequence[Offsets] | None) -> Callable[[int, int], bool]:
    """Returns a function: whether a token is in one of the parts of a text that somebody has looked at, None for all of
    it."""
    if parts is None:
        return lambda start, end: True
    ordered = sorted(parts)
    starts, furthest = [start for start, _ in ordered], list(accumulate((end for _, end in ordered), max))

    def within(start: int, end: int) -> bool:
        before = bisect_right(starts, start)             # of parts that do not begin later, one must not end earlier
        return before > 0 and end <= furthest[before - 1]
    return within


def _with_open(tags: list[str], spans: Iterable[SpanTuple], judged: Sequence[bool]) -> list[str]:
    """Tags with those open that nobody has judged; the end of a span is known, whatever comes behind it."""
    behind = {last + 1 for _, _, last in spans}
    return [tag if sure else NEXT if index in behind else OPEN
            for index, (tag, sure) in enumerate(zip(tags, judged))]


def _plain_tags(path: str, sentence: Sentence, spans: Sequence[SpanTuple], judged: Sequence[bool]) -> list[str]:
    types = {first: kind for kind, first, last in spans if first == last}
    types.update({index: OPEN for index, sure in enumerate(judged) if not sure})
    for index, token in enumerate(sentence.tokens):
        if not types.get(index):
            raise CorpusError(path, sentence.line_of(index), 'expected a span of its own for each token, as plain tags '
                                                             f'are made of, got none for {token!r}')
    return [types[index] for index in range(len(sentence.tokens))]


def check_scheme(document: Document, sentence: Sentence, scheme: str, report: Report) -> None:
    """Reports a sentence whose tags break their scheme, before spans are made of them."""
    if not is_well_formed(sentence.tags, scheme):
        report(Remark('ill-formed', document.path, sentence.line, ' '.join(sentence.tokens)))


def retagged(sentence: Sentence, path: str, scheme: str, source: str, types: Iterable[str] = ()) -> Sentence:
    """A sentence with the same spans in tags of another scheme; plain tags are the types of spans of one token each.

    Args:
        sentence: with tags, of which some may be open.
        path: of its file.
        scheme: the other one.
        source: that of the tags.
        types: of the spans that there may be where tags are open.
    """
    tags = sentence.tags
    if scheme == PLAIN:
        return sentence.replace(tags=_plain_tags(path, sentence, spans_of(closed(tags)),
                                                 [OPEN not in tag for tag in tags]))
    return sentence.replace(tags=in_scheme(tags, scheme, source, types))


def spans_in(document: Document, scheme: str, report: Report) -> list[Span]:
    """The spans of a document: those that it has, or those of its tags.

    Args:
        document: with spans, or with tags in its sentences.
        scheme: of the tags; 'plain' makes a span of each token, with its tag as type.
        report: is called with a `Remark` on each sentence of plain tags, or of tags that break their scheme.
    """
    spans = list(document.spans)
    for sentence in document.sentences or () if not spans else ():
        found = countable(schemes.spans_in(closed(sentence.tags), scheme), certain(sentence.tags, scheme))
        if scheme == PLAIN and found:
            report(Remark('plain', document.path, sentence.line, ' '.join(sentence.tokens)))
        check_scheme(document, sentence, scheme, report)
        spans += sentence.spans_at(found)
    return spans


def judged_in(document: Document, scheme: str, report: Report) -> list[Offsets] | None:
    """The parts of a document that are judged: those that it names, or those of its tokens whose tags are certain, and
    None for all of it; the arguments are those of `spans_in`."""
    if document.spans or not any(is_open(sentence.tags) for sentence in document.sentences or ()):
        return document.judged
    parts: list[Offsets] = []
    for sentence in document.sentences or ():
        tags = sentence.tags
        sure = certain(tags, scheme)
        if any(not known and tag not in (OPEN, NEXT) for known, tag in zip(sure, tags)):
            report(Remark('in part', document.path, sentence.line, ' '.join(sentence.tokens)))
        for index, (known, (start, end)) in enumerate(zip(sure, sentence.offsets)):
            if known and index and sure[index - 1]:
                parts[-1] = parts[-1][0], end
            elif known:
                parts.append((start, end))
    return parts


def scheme_of(documents: Iterable[Document]) -> str | None:
    """The scheme of all tags of a file's documents, or None if they have none.

    Raises:
        CorpusError: the tags are of no scheme.
    """
    sentences = [(document.path, sentence) for document in documents for sentence in document.sentences or ()
                 if sentence.tags]
    return recognised(sentences) if sentences else None


def recognised(sentences: Sequence[tuple[PathLike, Sentence]]) -> str:
    """The scheme of sentences, each with the path of its file; raises CorpusError if it is none."""
    try:
        return recognise_scheme([sentence.tags for _, sentence in sentences])
    except SchemeError as error:
        path, sentence = sentences[error.sentence]
        raise CorpusError(path, sentence.line_of(error.position), str(error)) from None


def corpus_of(documents: Iterable[Document], splitter: Splitter, report: Report) -> Iterator[Sentence]:
    """The sentences of documents as training and scoring take them, tags of spans in BIO."""
    for document in documents:
        if document.prediction is not None:
            report(Remark('predicted', document.path, document.line, document.text.strip()))
        for sentence in tagged(document, splitter, report):
            if sentence.tokens:
                yield Sentence(sentence.tokens, sentence.tags, line=sentence.line, lines=sentence.lines)


def sentences_of(documents: Iterable[Document], reading: Reading) -> Iterator[Sentence]:
    """The sentences of annotated documents, each in a text of its own, with gold tags in BIO.

    Args:
        documents: texts with spans.
        reading: with a splitter; `report` is called with a `Remark` on each span that is not kept as it is.
    """
    assert reading.splitter is not None
    for document in documents:
        for sentence in tagged(document, reading.splitter, reading.report):
            record = {**flat(document.record), 'tags': as_json(sentence.tags)}
            yield sentence.moved(0).replace(record=record)
