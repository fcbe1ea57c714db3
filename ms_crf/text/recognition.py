"""Recognises the tag scheme that a corpus is in."""

from collections.abc import Container, Sequence

from ms_crf.text.schemes import (
    ANOTHER,
    NEXT,
    OPEN,
    PLAIN,
    TABLE,
    completions,
    is_span_tag,
    may_follow,
    split_tag,
    tags_in,
)


class SchemeError(ValueError):
    """Tags that fit no scheme; `sentence` and `position` are the indices of the first of them."""

    def __init__(self, message: str, sentence: int, position: int) -> None:
        super().__init__(message)
        self.sentence, self.position = sentence, position


def recognise_scheme(sentences: Sequence[Sequence[str]]) -> str:
    """The name of the scheme that tag sequences are in: one of `TABLE`, or 'plain' for tags such as parts of speech.

    Args:
        sentences: lists of tags, of which some may be open.

    Raises:
        SchemeError: some tags are of spans and others are not, such as 'B-PER' and 'NOUN', or no scheme has them all.
    """
    tags = {tag for sentence in sentences for tag in sentence} - {OPEN, NEXT}
    typed = {tag for tag in tags if (is_span_tag(tag) or OPEN in tag) and '-' in tag}
    odd = {tag for tag in tags if tag != 'O' and not is_span_tag(tag) and OPEN not in tag}
    if odd and not typed:
        return PLAIN
    if odd:
        raise _fault(sentences, odd, f"expected 'O' or one of B, I, E, M, S with a type like "
                                     f"{_readable(min(typed, key=_known_first))!r}")
    prefixes = {split_tag(tag)[0] for tag in tags} - {'O', OPEN}
    fitting = [name for name, scheme in TABLE.items() if prefixes <= set(scheme.prefixes)]
    if not fitting:                              # I and M are the inside of spans in different schemes
        inside = {tag for tag in tags if split_tag(tag)[0] == 'I'}
        raise _fault(sentences, inside, 'expected M inside of spans as elsewhere in the corpus')
    if 'IOB1' in fitting:
        return 'IOB1' if _keeps_to('IOB1', sentences) and not _keeps_to('BIO', sentences) else 'BIO'
    # Without I and M both schemes that mark the ends of spans fit; Chinese words leave nothing outside.
    return fitting[0] if len(fitting) == 1 or 'O' in tags else fitting[-1]


def _fault(sentences: Sequence[Sequence[str]], wrong: Container[str], expected: str) -> SchemeError:
    """The error for the first tag that is among the wrong ones."""
    return next(SchemeError(f'{expected}, got {_readable(tag)!r}', index, position)
                for index, sentence in enumerate(sentences) for position, tag in enumerate(sentence) if tag in wrong)


def _known_first(tag: str) -> tuple[bool, str]:
    return OPEN in tag, tag


def _readable(tag: str) -> str:
    """A tag for a message."""
    return tag.replace(OPEN, '?')


def _keeps_to(scheme: str, sentences: Sequence[Sequence[str]]) -> bool:
    """Whether all transitions between tags are allowed by the scheme; the ends of sentences are not looked at."""
    known: dict[tuple[str | None, str], bool] = {}
    for sentence in sentences:
        before: str | None = None
        for tag in sentence:
            allowed = known.get((before, tag))
            if allowed is None:
                allowed = _could_follow(scheme, before, tag)
                known[before, tag] = allowed
            if not allowed:
                return False
            before = tag
    return True


def _could_follow(scheme: str, before: str | None, after: str) -> bool:
    """Whether one tag may follow another, or a sentence's beginning, whatever is open in either of them."""
    if before is None:
        return may_follow(TABLE[scheme], None, split_tag(after)) if OPEN not in after else True
    if OPEN not in before + after:
        return may_follow(TABLE[scheme], split_tag(before), split_tag(after))
    types = {split_tag(tag)[1] for tag in (before, after)} - {OPEN} | {ANOTHER}
    known = tags_in(scheme, types)
    return any(may_follow(TABLE[scheme], split_tag(one), split_tag(other))
               for one in completions(before, known) for other in completions(after, known))
