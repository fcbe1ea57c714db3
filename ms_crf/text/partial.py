"""Unknown tags: tags of unlabelled tokens, and tags with a known type or position only.

In files a mark, by default '?', stands for the unknown part. In memory the constant OPEN replaces the mark, because no
tag of a corpus can contain OPEN:

- '?' is OPEN: any tag;
- '?-PER' is OPEN-PER: a token of an entity of this type, at any position in the entity;
- 'B-?' is B-OPEN: a token with this position in an entity of any type; '?-?' is a token of any entity;
- NEXT: any tag that does not continue a span. The token after a span with a known end has this tag; files cannot have
  it;
- OPEN + 'B-PER' + OPEN + 'S-PER' + OPEN, or more tags: B-PER or S-PER. Conversion to another scheme creates such tags
  if the result depends on an unknown neighbour: B-PER in BIO is B-PER or S-PER in BIOES if the next tag is unknown.
"""

from collections.abc import Collection, Iterable, Sequence

from ms_crf.base.errors import CorpusError
from ms_crf.text import schemes
from ms_crf.text.schemes import (
    NEXT,
    OPEN,
    PLAIN,
    TABLE,
    PrefixAndType,
    completions,
    may_follow,
    spans_of,
    split_tag,
    tags_in,
)

MARK = '?'
_OUTSIDE = ('O', '')


def is_open(tags: Iterable[str]) -> bool:
    """Whether any of the tags is unknown or partly unknown."""
    return any(OPEN in tag for tag in tags)


def opened(tags: Sequence[str], mark: str = MARK) -> list[str]:
    """Tags of a file with OPEN in place of the mark; '' for no mark."""
    if not mark or not any(mark in tag for tag in tags):
        return list(tags)
    return [_opened(tag, mark) for tag in tags]


def _opened(tag: str, mark: str) -> str:
    if tag == mark:
        return OPEN
    if tag.startswith(f'{mark}-') and len(tag) > len(mark) + 1:
        kind = tag[len(mark) + 1:]
        return f'{OPEN}-{OPEN if kind == mark else kind}'
    prefix = tag.removesuffix(f'-{mark}')
    return f'{prefix}-{OPEN}' if prefix != tag and '-' not in prefix and schemes.is_span_tag(prefix) else tag


def marked(tag: str, mark: str = MARK) -> str:
    """A tag with the mark in place of OPEN. For several possible tags, the mark replaces everything that differs."""
    if tag.count(OPEN) > 2:
        parts = [split_tag(other) for other in completions(tag, ())]
        prefix, kind = ({part[index] for part in parts} for index in (0, 1))
        if 'O' in prefix or kind == {''}:
            return mark
        return f'{mark if len(prefix) > 1 else prefix.pop()}-{mark if len(kind) > 1 else kind.pop()}'
    return mark if tag == NEXT else tag.replace(OPEN, mark)


def as_json(tags: Iterable[str], mark: str = MARK) -> list[str | None]:
    """Tags for JSON: None for unknown tags, and also for partly unknown tags if there is no mark."""
    return [None if OPEN in tag and (not mark or marked(tag, mark) == mark) else marked(tag, mark) for tag in tags]


def check_tag(path: object, line: int, tag: str) -> str:
    """Returns a tag of a file after checking it; raises CorpusError if it contains OPEN."""
    if OPEN in tag:
        raise CorpusError(path, line, f'expected a tag or type without NUL characters, got {tag!r}')
    return tag


def one_of(tags: Collection[str], known: Sequence[str]) -> str:
    """The open tag that stands for several possible tags of the known tags; a single tag stands for itself."""
    if len(tags) == len(known):
        return OPEN
    return next(iter(tags)) if len(tags) == 1 else OPEN + OPEN.join(sorted(tags)) + OPEN


def converted(tags: Sequence[str], source: str, target: str, types: Iterable[str]) -> list[str]:
    """Converts tags to another scheme, some of which are unknown.

    The new tag depends on the neighbours of a tag. If a neighbour is unknown, the result stands for all tags that are
    possible with any value of the neighbour. A tag that fits no neighbour is read as `spans_of` reads it.

    Args:
        tags: the tags of a sentence.
        source: the scheme of the tags.
        target: the new scheme.
        types: the possible span types.
    """
    types = list(types)
    known, new_tags = tags_in(source, types), tags_in(target, types)
    options = [[_OUTSIDE], *([split_tag(one) for one in completions(tag, known)] for tag in tags), [_OUTSIDE]]
    result = []
    for tag, before, current, after in zip(tags, options, options[1:], options[2:]):
        possible = {'O'} if _OUTSIDE in current else set()
        for part in current if tag not in (OPEN, NEXT) else ():
            if part != _OUTSIDE:
                fit_before = [one for one in before if may_follow(TABLE[source], one, part)]
                fit_after = [one for one in after if may_follow(TABLE[source], part, one)]
                possible |= _in(target, part, fit_before or before, fit_after or after)
        result.append(one_of(possible, new_tags) if possible and tag not in (OPEN, NEXT) else tag)
    return result


def in_scheme(tags: Sequence[str], scheme: str, source: str = 'BIOES', types: Iterable[str] = ()) -> list[str]:
    """Converts the tags of a sentence to another scheme, with the same spans.

    Args:
        tags: the tags of a sentence; some may be unknown.
        scheme: the new scheme.
        source: the scheme of the tags. Only unknown tags need `source` and `types`.
        types: span types that unknown tags may stand for, in addition to the types in `tags`.
    """
    if is_open(tags):
        return converted(tags, source, scheme, sorted({*types, *types_in(tags)}))
    return schemes.tags_of(spans_of(tags), len(tags), scheme)


def scoring_scheme(scheme: str) -> str:
    """The scheme for scoring tags of files in this scheme: BIO for IOB1, otherwise the scheme itself."""
    return 'BIO' if scheme == 'IOB1' else scheme


def _in(scheme: str, part: PrefixAndType, before: Sequence[PrefixAndType], after: Sequence[PrefixAndType]) -> set[str]:
    """All tags that a tag of a span can become in another scheme, with any of the tags before and after it."""
    table, possible = TABLE[scheme], set()
    closes = {schemes.ends(part, *one) for one in after}
    for one in before:
        opens = schemes.begins(one, *part)
        again = table.again if opens and one[0] != 'O' and one[1] == part[1] else None
        for last in closes:
            prefix = (table.single if last else table.first) if opens else table.last if last else table.inside
            possible.add(f'{again or prefix}-{part[1]}' if part[1] else again or prefix)
    return possible


def fits(tags: Sequence[str], scheme: str) -> bool:
    """Whether the unknown tags can be completed so that the tag sequence is valid in a scheme."""
    known = tags_in(scheme, {*types_in(tags), schemes.ANOTHER})
    options: list[list[PrefixAndType | None]] = [[None]]
    options += [[split_tag(one) for one in completions(tag, known)] for tag in tags]
    options += [[None]]
    return all(any(may_follow(TABLE[scheme], one, other) for one in before for other in after)
               for before, after in zip(options, options[1:]))


def is_well_formed(tags: Sequence[str], scheme: str) -> bool:
    """Whether a tag sequence is valid in its scheme, or can be if tags are unknown; plain and known IOB1 tags are."""
    if scheme != PLAIN and is_open(tags):
        return fits(tags, scheme)
    return scheme in (PLAIN, 'IOB1') or spans_of(tags) == schemes.strict_spans_of(tags, scheme)


def types_in(tags: Iterable[str]) -> set[str]:
    """The span types in tags; '' is the type of tags without a type, such as 'B'."""
    named = [one for tag in tags if tag not in ('O', OPEN, NEXT)
             for one in (completions(tag, ()) if tag.count(OPEN) > 2 else (tag,)) if one != 'O']
    return {split_tag(one)[1] for one in named} - {OPEN}


# Scores

def certain(tags: Sequence[str], scheme: str) -> list[bool]:
    """For each token whether its tag and the ends of its span are known with certainty.

    Args:
        tags: the gold tags of a sentence.
        scheme: the scheme of the tags.
    """
    is_certain = [OPEN not in tag for tag in tags]
    if scheme == PLAIN or all(is_certain):
        return is_certain
    is_known = list(is_certain)
    for kind, first, last in spans_of(closed(tags)):
        known = tags_in(scheme, (kind, schemes.ANOTHER))
        one, other = split_tag(tags[first]), split_tag(tags[last])
        before = completions(tags[first - 1], known) if first and not is_known[first - 1] else ()
        after = completions(tags[last + 1], known) if last + 1 < len(tags) and not is_known[last + 1] else ()
        if not all(schemes.begins(split_tag(tag), *one) for tag in before) or not all(
                schemes.ends(other, *split_tag(tag)) for tag in after):
            is_certain[first:last + 1] = [False] * (last + 1 - first)
    return is_certain


def closed(tags: Sequence[str]) -> list[str]:
    """Tags with O in place of unknown tags."""
    return ['O' if OPEN in tag else tag for tag in tags]


def countable(spans: Iterable[schemes.SpanTuple], is_certain: Sequence[bool]) -> list[schemes.SpanTuple]:
    """The spans with certain tokens only."""
    return [span for span in spans if all(is_certain[span[1]:span[2] + 1])]
