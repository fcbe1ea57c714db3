"""Whether the tags of a corpus can be tags: prose, numbers and swapped columns are refused before they are learned."""

import re
from collections import Counter
from collections.abc import Sequence

from ms_crf.base.errors import CorpusError, brief
from ms_crf.base.files import PathLike
from ms_crf.text.schemes import OPEN, is_span_tag
from ms_crf.text.sentence import Sentence

SHOWN = 3                      # examples in a message
LEAST_ROWS, LEAST_TAGS = 40, 30        # a smaller corpus may have as many tags as tokens
_NUMBER = re.compile(r'[-+]?[0-9]+(?:[.,:/][0-9]+)*(?:[eE][-+]?[0-9]+)?%?')
_FRACTION = re.compile(r'[-+]?[0-9]*[.,][0-9]+(?:[eE][-+]?[0-9]+)?%?')


class UnlikelyTags(CorpusError):
    """What a file has for tags can hardly be tags.

    Attributes:
        fault: what was expected, and what is there.
    """

    def __init__(self, path: PathLike, fault: str) -> None:
        super().__init__(path, None, f'{fault}; name the columns of token and tag, or allow any tags')
        self.fault = fault


def check_tag_column(path: PathLike, sentences: Sequence[Sentence], widths: Sequence[int] = ()) -> None:
    """Raises UnlikelyTags if the tags of a file can hardly be tags.

    The limits let tag sets of hundreds of types pass on a few sentences; see docs/training.md.

    Args:
        path: of the file, for the message.
        sentences: its sentences.
        widths: the number of columns of each row, if it has columns.
    """
    pairs = [(token, tag) for sentence in sentences for token, tag in zip(sentence.tokens, sentence.tags)
             if OPEN not in tag]
    if 2 * sum(tag == 'O' or is_span_tag(tag) for _, tag in pairs) > len(pairs):
        return
    equal = sum(token.lower() == tag.lower() for token, tag in pairs)
    why = _uneven(widths) or _fault([token for token, _ in pairs], Counter(tag for _, tag in pairs), equal)
    if why is None:
        return
    examples = ', '.join(brief(tag) for tag in list(dict.fromkeys(tag for _, tag in pairs))[:SHOWN])
    raise UnlikelyTags(path, f'expected a tag for each token, got {why}, such as {examples}')


def _uneven(widths: Sequence[int]) -> str | None:
    """The fault of rows of prose, which have now more, now fewer words."""
    uneven = sum(one != other for one, other in zip(widths, widths[1:]))
    found = len(widths) > 4 and 2 * uneven > len(widths)
    return 'rows with different numbers of columns, which end in words' if found else None


def _fault(tokens: Sequence[str], tags: Counter[str], equal: int) -> str | None:
    """What the tags are, if they are no tags.

    Args:
        tokens: all of them.
        tags: how often each tag occurs.
        equal: how many tokens are their own tags.
    """
    count, once = len(tokens), sum(times == 1 for times in tags.values())
    if len(tags) >= 10 and all(map(_NUMBER.fullmatch, tags)) and (
            2 * sum(times for tag, times in tags.items() if _FRACTION.fullmatch(tag)) > count
            or 2 * sum(_FRACTION.fullmatch(token) is not None for token in tokens) > count):
        return 'numbers'
    various = f'{len(tags):,} different values in {count:,} rows'
    if count >= LEAST_ROWS and 2 * once > count:
        return various
    if len(tags) < LEAST_TAGS or 10 * once < len(tags):          # words are rare more often than tags
        return None
    if 10 * equal > 3 * count:
        return 'the tokens once more'
    known = len(set(tokens))
    as_various = len(tags) > known or (count >= 400 and 5 * len(tags) > 4 * known and 2 * once > len(tags))
    return f'{various}, and {known:,} different tokens' if as_various else None
