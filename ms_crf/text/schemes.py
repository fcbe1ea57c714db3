"""Tag schemes: which one a corpus uses, the spans that tags mean, and tags for spans.

A span is (type, first token, last token). Tags are 'O' or a prefix, alone or with a type: 'B', 'I-PER'.
"""

PLAIN = 'plain'
SCHEMES = ('BIO', 'IOB1', 'BIOES', 'BMES', PLAIN)
_PREFIXES = 'BIEMS'


def split_tag(tag):
    """Prefix and type: 'O' and '' outside of spans."""
    prefix, _, kind = tag.partition('-')
    return prefix, kind


def is_span_tag(tag):
    prefix, dash, kind = tag.partition('-')
    return len(prefix) == 1 and prefix in _PREFIXES and bool(dash) == bool(kind)


class SchemeError(ValueError):
    """Tags that belong to no scheme; `sentence` and `position` say where the first of them is."""

    def __init__(self, message, sentence=None, position=None):
        super().__init__(message)
        self.sentence, self.position = sentence, position


def recognise_scheme(sentences):
    """Name of the scheme of tag sequences: 'BIO', 'IOB1', 'BIOES', 'BMES', or 'plain' such as parts of speech.

    Spans have to make up all tags or none: with 'B-PER' among them, a tag like 'NOUN' is an error.

    Args:
        sentences: lists of tags.
    """
    tags = {tag for sentence in sentences for tag in sentence}
    typed = {tag for tag in tags if is_span_tag(tag) and '-' in tag}
    odd = {tag for tag in tags if tag != 'O' and not is_span_tag(tag)}
    if odd and not typed:
        return PLAIN
    if odd:
        raise _fault(sentences, odd, f"expected 'O' or one of B, I, E, M, S with a type like {min(typed)!r}")
    prefixes = {split_tag(tag)[0] for tag in tags}
    if {'M', 'I'} <= prefixes:
        inside = {tag for tag in tags if split_tag(tag)[0] == 'I'}
        raise _fault(sentences, inside, 'expected M inside of spans as elsewhere in the corpus')
    if 'M' in prefixes:
        return 'BMES'
    if prefixes & {'E', 'S'}:
        return 'BIOES' if 'I' in prefixes or 'O' in prefixes else 'BMES'
    return 'IOB1' if _is_iob1(sentences) else 'BIO'


def _fault(sentences, wrong, expected):
    """The error for the first tag that is among the wrong ones."""
    return next(SchemeError(f'{expected}, got {tag!r}', index, position)
                for index, sentence in enumerate(sentences) for position, tag in enumerate(sentence) if tag in wrong)


def _is_iob1(sentences):
    """Spans begin with I, and B stands only where the same type has just ended."""
    begins_with_i = False
    for sentence in sentences:
        before = ('O', '')
        for tag in sentence:
            prefix, kind = split_tag(tag)
            inside = before[0] != 'O' and before[1] == kind
            if prefix == 'B' and not inside:
                return False
            begins_with_i |= prefix == 'I' and not inside
            before = (prefix, kind)
    return begins_with_i


def _ends(before, prefix, kind):
    """Whether the span that `before` (prefix, type) is in ends before this tag."""
    last, last_kind = before
    return last != 'O' and (last in 'ES' or prefix in 'BSO' or last_kind != kind)


def _begins(before, prefix, kind):
    last, last_kind = before
    return prefix != 'O' and (prefix in 'BS' or last in 'ESO' or last_kind != kind)


def boundaries(tags):
    """Where spans begin and end by the rules of `spans_of`, as two tables of bools (tags + 1, tags + 1).

    Entry (i, j) of the first: a span begins at tag j after tag i; of the second: the span that tag i is in ends
    before tag j. The last row and column are the sentence's ends.
    """
    parts = [('I' if prefix == 'M' else prefix, kind) for prefix, kind in map(split_tag, [*tags, 'O'])]
    return ([[_begins(before, *after) for after in parts] for before in parts],
            [[_ends(before, *after) for after in parts] for before in parts])


def spans_of(tags):
    """Spans, whatever the tags are: any change of type or prefix that can begin a span does.

    For B, I and O these are the rules of conlleval. That script knows no S and M, and takes E for the inside of a span
    unless E or I comes after it; here M counts as I, E ends a span, and S is one.
    """
    spans, first, before = [], None, ('O', '')
    for position, tag in enumerate([*tags, 'O']):
        prefix, kind = split_tag(tag)
        prefix = 'I' if prefix == 'M' else prefix
        if _ends(before, prefix, kind):
            spans.append((before[1], first, position - 1))
        if _begins(before, prefix, kind):
            first = position
        before = (prefix, kind)
    return spans


def strict_spans_of(tags, scheme):
    """Only spans that are well-formed in 'BIO', 'BIOES' or 'BMES'; what else there is means nothing."""
    spans, first, before = [], None, ''
    closed = scheme != 'BIO'
    for position, tag in enumerate([*tags, 'O']):
        prefix, kind = split_tag(tag)
        if first is not None and not (prefix in 'IME' and kind == before):
            if not closed:
                spans.append((before, first, position - 1))
            first = None
        if prefix == 'B':
            first = position
        elif prefix == 'S':
            spans.append((kind, position, position))
        elif prefix == 'E' and first is not None:
            spans.append((kind, first, position))
            first = None
        before = kind
    return spans


def tags_of(spans, length, scheme):
    """Tags of a sentence of that length in a scheme; spans must not overlap."""
    tags = ['O'] * length
    inside = 'M' if scheme == 'BMES' else 'I'
    after = {}
    for kind, first, last in sorted(spans, key=lambda span: span[1]):
        prefixes = ['B'] + [inside] * (last - first)
        if scheme in ('BIOES', 'BMES'):
            prefixes[-1] = 'S' if first == last else 'E'
        if scheme == 'IOB1' and after.get(first) != kind:
            prefixes[0] = 'I'
        tags[first:last + 1] = [f'{prefix}-{kind}' if kind else prefix for prefix in prefixes]
        after = {last + 1: kind}
    return tags
