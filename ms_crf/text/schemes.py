"""Tag schemes: a table of schemes, from which allowed transitions, the spans of tags and the tags of spans follow.

A span is (type, first token, last token). A tag is 'O', or a prefix alone ('B') or with a type ('I-PER'). In unknown
tags OPEN replaces the unknown part; see `ms_crf.text.partial`.
"""

from collections.abc import Container, Iterable, Sequence
from typing import NamedTuple

from ms_crf.base.errors import brief
from ms_crf.crf.constraints import Constraints

import numpy as np

PrefixAndType = tuple[str, str]            # prefix and type of a tag
SpanTuple = tuple[str, int, int]  # type, first and last token


class Scheme(NamedTuple):
    """The prefixes of the tokens of a span."""

    first: str                   # first token of several
    inside: str
    last: str
    single: str                  # the only token of a span
    again: str | None = None     # replaces `first` and `single` directly after a span of the same type

    @property
    def prefixes(self) -> str:
        """All prefixes of the scheme, each once."""
        return ''.join(dict.fromkeys((self.again or '') + ''.join(self[:4])))

    @property
    def closing(self) -> set[str]:
        """Prefixes that may end a sentence or be followed by a new span."""
        return {self.last, self.single} | ({self.again} if self.again else set())

    @property
    def within(self) -> set[tuple[str, str]]:
        """Pairs of prefixes that may follow each other in a span; with `again` also from a span to the next span."""
        pairs = {(before, after) for before in {self.first, self.inside, self.again or self.first}
                 for after in {self.inside, self.last}}
        return pairs | ({(before, self.again) for before in self.closing} if self.again else set())


TABLE = {
    'BIO': Scheme('B', 'I', 'I', 'B'),
    'IOB1': Scheme('I', 'I', 'I', 'I', again='B'),
    'BIOES': Scheme('B', 'I', 'E', 'S'),
    'BMES': Scheme('B', 'M', 'E', 'S'),
}
PLAIN = 'plain'
OPEN = '\0'                       # the unknown part of a tag; no tag of a file may contain it
NEXT = OPEN + OPEN                # an unknown tag that does not continue the span before it
ANOTHER = OPEN + OPEN + OPEN      # a type that no span has
SCHEMES = (*TABLE, PLAIN)

# Prefixes that always begin a span, prefixes that always end a span, and all prefixes.
_BEGINNING = ''.join({prefix for scheme in TABLE.values() for prefix in (scheme.first, scheme.single, scheme.again)
                      if prefix and prefix != scheme.inside})
_ENDING = ''.join({prefix for scheme in TABLE.values() if scheme.last != scheme.inside
                   for prefix in (scheme.last, scheme.single)})
_PREFIXES = ''.join({prefix for scheme in TABLE.values() for prefix in scheme.prefixes})


def split_tag(tag: str) -> tuple[str, str]:
    """Prefix and type of a tag; 'O' and '' outside of spans."""
    prefix, _, kind = tag.partition('-')
    return prefix, kind


def is_span_tag(tag: str) -> bool:
    """Whether a tag belongs to a span: it has a known prefix, alone or with a type."""
    prefix, dash, kind = tag.partition('-')
    return len(prefix) == 1 and prefix in _PREFIXES and bool(dash) == bool(kind)


# Allowed transitions

def may_follow(scheme: Scheme, before: PrefixAndType | None, after: PrefixAndType | None) -> bool:
    """Whether `after` may follow `before`, both (prefix, type); None is the beginning or the end of a sentence."""
    outside = ('O', '')
    ended = before is None or before == outside or before[0] in scheme.closing
    begins = after is None or after == outside or after[0] in (scheme.first, scheme.single)
    if before is None or after is None:
        return ended and begins
    return ended and begins or (before[1] == after[1] and (before[0], after[0]) in scheme.within)


def allowed_transitions(scheme: str, tags: Iterable[str]) -> Constraints:
    """The transitions that a tag scheme allows, for `CRF(constraints=...)`.

    Args:
        scheme: 'BIO', 'IOB1', 'BIOES' or 'BMES'.
        tags: the tags in the order of their ids, such as ['O', 'B-PER', 'I-PER'].

    Returns:
        Constraints: transitions (K, K), start (K,) and end (K,) as bools; True means allowed.
    """
    if not isinstance(scheme, str) or scheme not in TABLE:
        raise ValueError(f'scheme must be one of {", ".join(TABLE)}, got {brief(scheme)}')
    if isinstance(tags, str) or not hasattr(tags, '__iter__'):
        raise TypeError(f'tags must be a sequence of strings, got {brief(tags)}')
    tags = list(tags)
    if not tags:
        raise ValueError('tags must hold at least one tag, got none')
    repeated = sorted({str(tag) for tag in tags if tags.count(tag) > 1})
    if repeated:
        raise ValueError(f'tags must be different from each other, got {brief(repeated[0])} more than once')
    table = TABLE[scheme]
    for index, tag in enumerate(tags):
        if not isinstance(tag, str):
            raise TypeError(f'tags must be strings, got {brief(tag)} at {index}')
        if tag != 'O' and not (is_span_tag(tag) and tag[0] in table.prefixes):
            expected = ', '.join([*(f'{prefix}-TYPE' for prefix in table.prefixes), 'O'])
            raise ValueError(f'tags must be {expected} (or without types) under {scheme}, got {brief(tag)} at {index}')
    parts = list(map(split_tag, tags))
    return Constraints(np.array([[may_follow(table, before, after) for after in parts] for before in parts]),
                       np.array([may_follow(table, None, after) for after in parts]),
                       np.array([may_follow(table, before, None) for before in parts]))


def tags_in(scheme: str, types: Iterable[str]) -> list[str]:
    """O and all tags of a scheme with the given span types; the type '' stands for tags without a type."""
    return ['O', *(f'{prefix}-{kind}' if kind else prefix for kind in types for prefix in TABLE[scheme].prefixes)]


def completions(tag: str, known: Sequence[str]) -> list[str]:
    """The known tags that an unknown tag may stand for; a known tag stands for itself."""
    if OPEN not in tag:
        return [tag]
    if tag == OPEN:
        return list(known)
    if tag == NEXT:
        return [other for other in known if other == 'O' or split_tag(other)[0] in _BEGINNING]
    if tag.count(OPEN) > 2:
        return tag[1:-1].split(OPEN)
    prefix, kind = split_tag(tag)
    parts = [(other, *split_tag(other)) for other in known if other != 'O']
    return [other for other, of_prefix, of_type in parts if prefix in (OPEN, of_prefix) and kind in (OPEN, of_type)]


# From tags to spans and back

def ends(before: PrefixAndType, prefix: str, kind: str) -> bool:
    """Whether the span of the tag `before` (prefix, type) ends before a tag with this prefix and type."""
    last, last_kind = before
    return last != 'O' and (last in _ENDING or prefix == 'O' or prefix in _BEGINNING or last_kind != kind)


def begins(before: PrefixAndType, prefix: str, kind: str) -> bool:
    """Whether a span begins at a tag with this prefix and type after the tag `before` (prefix, type)."""
    last, last_kind = before
    return prefix != 'O' and (prefix in _BEGINNING or last == 'O' or last in _ENDING or last_kind != kind)


def boundaries(tags: Sequence[str]) -> tuple[list[list[bool]], list[list[bool]]]:
    """Where spans begin and end by the rules of `spans_of`, as two tables of bools (tags + 1, tags + 1).

    Entry (i, j) of the first table is True if a span begins at tag j after tag i. Entry (i, j) of the second table is
    True if the span of tag i ends before tag j. The last row is the beginning of a sentence, the last column its end.
    """
    parts = [*map(split_tag, tags), ('O', '')]
    return ([[begins(before, *after) for after in parts] for before in parts],
            [[ends(before, *after) for after in parts] for before in parts])


def span_steps(tags: Sequence[str]) -> np.ndarray:
    """Numbers for the steps between tags, for `CRF.nbest_spans`: they show where spans begin and end.

    Two tag sequences have the same spans, by the rules of `spans_of`, if their steps have the same numbers.

    Args:
        tags: the tags in the order of their ids.

    Returns:
        (K + 1, K + 1) int32: entry (i, j) is the number of the step from tag i to tag j. The last row is for steps from
        the beginning of a sentence, the last column for steps to its end.
    """
    if isinstance(tags, str) or not all(isinstance(tag, str) for tag in tags):
        raise TypeError(f'tags must be a sequence of strings, got {brief(tags)}')
    begins, ends = boundaries(tags)
    steps = [(ended, split_tag(tag)[1] if begun else None)
            for ended_before, begun_after in zip(ends, begins)
            for ended, begun, tag in zip(ended_before, begun_after, [*tags, 'O'])]
    numbers = {step: number for number, step in enumerate(dict.fromkeys(steps))}
    return np.array([numbers[step] for step in steps], np.int32).reshape(len(tags) + 1, len(tags) + 1)


def spans_of(tags: Iterable[str]) -> list[SpanTuple]:
    """The spans of a tag sequence, which may be invalid. A span begins wherever a new type or prefix allows it.

    For B, I and O these are the rules of conlleval. For other prefixes they differ: conlleval does not know S and M,
    and reads E as the inside of a span unless E or I follows. Here M means I, E ends a span, and S is a one-token span.
    """
    spans: list[SpanTuple] = []
    first, before = 0, ('O', '')
    for position, tag in enumerate([*tags, 'O']):
        prefix, kind = split_tag(tag)
        if ends(before, prefix, kind):
            spans.append((before[1], first, position - 1))
        if begins(before, prefix, kind):
            first = position
        before = (prefix, kind)
    return spans


def strict_spans_of(tags: Iterable[str], scheme: str) -> list[SpanTuple]:
    """The spans whose tags are valid in the scheme 'BIO', 'BIOES' or 'BMES'; other tags are ignored."""
    known = [tag if is_span_tag(tag) and tag[0] in TABLE[scheme].prefixes else 'O' for tag in tags]
    return [(kind, first, last) for kind, first, last in spans_of(known)
            if known[first:last + 1] == tags_of([(kind, 0, last - first)], last - first + 1, scheme)]


def spans_in(tags: Sequence[str], scheme: str, strict: bool = False) -> list[SpanTuple]:
    """The spans of tags in a scheme; with `strict` only valid spans. Each plain tag is a span of one token."""
    if scheme == PLAIN:
        return [(tag, position, position) for position, tag in enumerate(tags)]
    return strict_spans_of(tags, scheme) if strict else spans_of(tags)


def tags_of(spans: Iterable[SpanTuple], length: int, scheme: str) -> list[str]:
    """The tags in a scheme for a sentence of `length` tokens with the given spans, which must not overlap."""
    table, tags = TABLE[scheme], ['O'] * length
    before, after = None, 0                      # type of the span before, and the token after it
    for kind, first, last in sorted(spans, key=lambda span: span[1]):
        prefixes = [table.first, *[table.inside] * (last - first - 1), table.last] if last > first else [table.single]
        if table.again and (before, after) == (kind, first):
            prefixes[0] = table.again
        tags[first:last + 1] = [f'{prefix}-{kind}' if kind else prefix for prefix in prefixes]
        before, after = kind, last + 1
    return tags


# Recognising the scheme

class SchemeError(ValueError):
    """Tags that do not fit any scheme; `sentence` and `position` are the indices of the first such tag."""

    def __init__(self, message: str, sentence: int, position: int) -> None:
        super().__init__(message)
        self.sentence, self.position = sentence, position


def recognise_scheme(sentences: Sequence[Sequence[str]]) -> str:
    """The name of the scheme of tag sequences: a key of `TABLE`, or 'plain' for tags such as parts of speech.

    Args:
        sentences: lists of tags; some may be unknown.

    Raises:
        SchemeError: tags of spans are mixed with other tags, such as 'B-PER' with 'NOUN', or no scheme fits.
    """
    tags = {tag for sentence in sentences for tag in sentence} - {OPEN, NEXT}
    typed = {tag for tag in tags if (is_span_tag(tag) or OPEN in tag) and '-' in tag}
    odd = {tag for tag in tags if tag != 'O' and not is_span_tag(tag) and OPEN not in tag}
    if odd and not typed:
        return PLAIN
    if odd:
        like = _readable(min(typed, key=lambda tag: (OPEN in tag, tag)))
        raise _fault(sentences, odd, f"expected 'O' or one of B, I, E, M, S with a type like {like!r}")
    prefixes = {split_tag(tag)[0] for tag in tags} - {'O', OPEN}
    fitting = [name for name, scheme in TABLE.items() if prefixes <= set(scheme.prefixes)]
    if not fitting:                              # I and M mean inside of a span in different schemes
        inside = {tag for tag in tags if split_tag(tag)[0] == 'I'}
        raise _fault(sentences, inside, 'expected M inside of spans as in the rest of the corpus')
    if 'IOB1' in fitting:
        return 'IOB1' if _keeps_to('IOB1', sentences) and not _keeps_to('BIO', sentences) else 'BIO'
    # Without I and M both BIOES and BMES fit; in Chinese word segmentation no token is outside of a word.
    return fitting[0] if len(fitting) == 1 or 'O' in tags else fitting[-1]


def _fault(sentences: Sequence[Sequence[str]], wrong: Container[str], expected: str) -> SchemeError:
    """The error for the first wrong tag."""
    return next(SchemeError(f'{expected}, got {_readable(tag)!r}', index, position)
                for index, sentence in enumerate(sentences) for position, tag in enumerate(sentence) if tag in wrong)


def _readable(tag: str) -> str:
    """A tag for a message, with '?' for the unknown part."""
    return tag.replace(OPEN, '?')


def _keeps_to(scheme: str, sentences: Sequence[Sequence[str]]) -> bool:
    """Whether the scheme allows all transitions between tags; the last tags of sentences are not checked."""
    pairs = {pair for sentence in sentences for pair in zip([None, *sentence], sentence)}
    return all(_could_follow(scheme, *pair) for pair in pairs)


def _could_follow(scheme: str, before: str | None, after: str) -> bool:
    """Whether `after` may follow `before`, or begin a sentence, with some completion of unknown tags."""
    if before is None:
        return OPEN in after or may_follow(TABLE[scheme], None, split_tag(after))
    known = tags_in(scheme, {split_tag(tag)[1] for tag in (before, after)} - {OPEN} | {ANOTHER})
    return any(may_follow(TABLE[scheme], split_tag(one), split_tag(other))
               for one in completions(before, known) for other in completions(after, known))
