"""The corpora of one training: read, their tags checked and brought into the scheme of training."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ms_crf.base.errors import CorpusError, brief
from ms_crf.base.files import PathLike
from ms_crf.formats.alignment import recognised
from ms_crf.formats.document import Remarks
from ms_crf.formats.registry import read_corpus
from ms_crf.text.partial import MARK, in_scheme, is_well_formed, marked, scoring_scheme, types_in
from ms_crf.text.schemes import NEXT, OPEN, PLAIN, is_span_tag, split_tag, tags_in
from ms_crf.text.sentence import Sentence
from ms_crf.text.splitting import AUTO, Deferred

NAMED = 5                                         # so many kinds of what is not judged are named in a line
SHOWN = 3                      # examples in a message
LEAST_ROWS, LEAST_TAGS = 40, 30        # a smaller corpus may have as many tags as tokens
_NUMBER = re.compile(r'[-+]?[0-9]+(?:[.,:/][0-9]+)*(?:[eE][-+]?[0-9]+)?%?')
_FRACTION = re.compile(r'[-+]?[0-9]*[.,][0-9]+(?:[eE][-+]?[0-9]+)?%?')
Repaired = tuple[PathLike, int, int]              # file, number of sentences, line of the first
Unknown = tuple[PathLike, int, str, Counter]      # file, line and tag of the first, counts by tag or type


class Corpora(NamedTuple):
    """Train, dev and test under one scheme."""

    #: the sentences by part, 'train', 'dev' and, if there is one, 'test'; their tags are in the scheme of training,
    #: and may be open, see `ms_crf.text.partial`
    parts: dict[str, list[Sentence]]
    #: for the same parts the tags that predictions are scored against, see `metrics.score_in`
    gold: dict[str, list[list[str]]]
    #: the scheme of the files
    file_scheme: str
    #: the scheme of training
    scheme: str
    #: the scheme of the tags that the model gives, for each of its own spans those of that scheme
    written: str
    #: all tags that the model is to know
    tags: list[str]
    #: where tags broke the scheme
    repaired: list[Repaired]
    #: where dev and test have tags that train lacks
    unknown: list[Unknown]
    #: what is not kept of texts and spans as the files have it, and how many tokens nobody has judged, in lines
    remarks: Sequence[str] = ()
    #: the name of what has cut texts with spans; None if there were none, and none was named
    splitter: str | None = None
    #: for 'dev' and 'test' the tags of the files, if `gold` has them in another scheme; otherwise it is empty
    raw: Mapping[str, list[list[str]]] = {}


def load(paths: Mapping[str, PathLike], scheme: str = 'auto', columns: tuple[int, ...] = (0, -1),
         splitter: str = AUTO, mark: str = MARK, for_bio: str = 'BIO', any_tags: bool = False) -> Corpora:
    """Reads the files of a training.

    Args:
        paths: the names of the files of 'train', 'dev' and perhaps 'test'.
        scheme: the one to train in, 'BIO', 'BIOES' or 'BMES', in which the model gives tags as well; 'auto' for that of
            the files, BIO if that is IOB1.
        columns: indices of the columns of token and tag, see `read_corpus`.
        splitter: name of what finds sentences and tokens in texts with spans; `AUTO` for what suits the first text.
        mark: what stands in place of a tag that nobody has judged; '' for nothing.
        for_bio: with 'auto' the scheme to train in where BIO is found, which the model gives its tags in all the same.
        any_tags: whether tags may be anything; otherwise those that can hardly be tags are refused.

    Raises:
        CorpusError: a file can't be read, its tags are of no scheme, or nobody has judged any of its tokens.
    """
    found = {part: Remarks(path) for part, path in paths.items()}
    deferred = Deferred(splitter)
    widths: dict[str, list[int]] = {part: [] for part in paths}
    files = {part: read_corpus(path, columns, deferred, found[part].add, mark, widths[part])
             for part, path in paths.items()}
    remarks = [line for part in found.values() for line in part.lines()]
    remarks += [line for part in files if (line := _not_judged(paths[part], files[part], mark, part))]
    for part in () if any_tags else files:
        check_tag_column(paths[part], files[part], widths[part])
    file_scheme = recognised([(paths[part], sentence) for part, read in files.items() for sentence in read])
    written = scoring_scheme(file_scheme) if scheme == 'auto' else scheme
    if PLAIN in (file_scheme, written) and written != file_scheme:
        raise CorpusError(paths['train'], None, f'expected tags of spans for the scheme {written}, '
                                                f'got {file_scheme} tags, which have no other scheme')
    repaired = [entry for part in files if (entry := _ill_formed(paths[part], files[part], file_scheme))]
    target = for_bio if (scheme, written) == ('auto', 'BIO') else written
    in_train, parts = {tag for sentence in files['train'] for tag in sentence.tags}, files
    if file_scheme == PLAIN:
        tags, types = sorted(in_train - {OPEN}), set()
    else:
        types = types_in(in_train)
        tags = tags_in(target, sorted(types))[target == 'BMES' and 'O' not in in_train:]
        if not types:
            _check_completions(paths['train'], files['train'])
        parts = {part: [sentence.replace(tags=in_scheme(sentence.tags, target, file_scheme, types))
                        for sentence in sentences] for part, sentences in files.items()}
    gold = {part: [sentence.tags if file_scheme == written else
                   in_scheme(sentence.tags, scoring_scheme(file_scheme), file_scheme, types) for sentence in sentences]
            for part, sentences in files.items()}
    raw = {} if file_scheme == written else {
        part: [sentence.tags for sentence in files[part]] for part in files if part != 'train'}
    unknown = _unknown(paths, files, file_scheme, tags)
    return Corpora(parts, gold, file_scheme, target, written, tags, repaired, unknown, remarks, deferred.used, raw)


def _not_judged(path: PathLike, sentences: Sequence[Sentence], mark: str, part: str) -> str | None:
    """A line about the tokens of a file that nobody has judged; None if there are none.

    Raises:
        CorpusError: there are no others.
    """
    check_judged(path, sentences, part != 'train')
    counts = Counter(marked(tag, mark or MARK) for sentence in sentences for tag in sentence.tags if OPEN in tag)
    if not counts:
        return None
    tokens = sum(len(sentence.tags) for sentence in sentences)
    meaning = (f"{mark!r} is the unknown tag; name another one, or '' for none, if it is a tag of its own" if mark else
               'null stands there')
    named = ', '.join(f'{tag} {count:,}' for tag, count in counts.most_common(NAMED))
    others = f' and {len(counts) - NAMED} others' if len(counts) > NAMED else ''
    return f'{path}: {sum(counts.values()):,} of {tokens:,} tokens are not judged: {named}{others} ({meaning})'


def check_judged(path: PathLike, sentences: Sequence[Sentence], wholly: bool = True) -> None:
    """Raises CorpusError if nobody has judged any token of a file, or none of them wholly, as scores need it."""
    if all(OPEN in tag if wholly else tag in (OPEN, NEXT) for sentence in sentences for tag in sentence.tags):
        tokens = sum(len(sentence.tags) for sentence in sentences)
        raise CorpusError(path, None, f'expected tags, got {tokens:,} tokens that nobody has judged'
                                      f'{" wholly" * wholly}; if the unknown tag is a tag of its own here, name '
                                      "another one, or '' for none")


def _check_completions(path: PathLike, sentences: Sequence[Sentence]) -> None:
    """Raises CorpusError for a tag of an open type, of sentences without any type that it could have."""
    for sentence in sentences:
        for position, tag in enumerate(sentence.tags):
            if OPEN in tag and tag != OPEN:
                raise CorpusError(path, sentence.line_of(position), 'expected a type of entities somewhere, '
                                                                            f'got {marked(tag)!r} and no type at all')


def digest_of(sentences: Iterable[Sentence]) -> str:
    """SHA-256 of the tokens and tags of sentences."""
    digest = hashlib.sha256()
    for sentence in sentences:
        digest.update(json.dumps([sentence.tokens, sentence.tags]).encode() + b'\n')
    return digest.hexdigest()


def _unknown(paths: Mapping[str, PathLike], files: Mapping[str, list[Sentence]], scheme: str,
             tags: Iterable[str]) -> list[Unknown]:
    """The tags in dev and test that a model with these tags can never predict: the entries of `Corpora.unknown`."""
    known = {_kind(tag, scheme) for tag in tags}
    unknown = []
    for part, sentences in files.items():
        lacking = [(sentence, position, tag) for sentence in sentences for position, tag in enumerate(sentence.tags)
                   if OPEN not in tag and _kind(tag, scheme) not in known]
        if lacking:
            sentence, position, tag = lacking[0]
            counts = Counter(_kind(tag, scheme)[1] or tag for _, _, tag in lacking)
            unknown.append((paths[part], sentence.line_of(position), tag, counts))
    return unknown


def _kind(tag: str, scheme: str) -> tuple[bool, str]:
    """What a model must have seen to predict a tag: a span's type, or that there are tokens outside; a plain tag."""
    return (True, tag) if scheme == PLAIN else (tag != 'O', split_tag(tag)[1])


def _ill_formed(path: PathLike, sentences: Sequence[Sentence], scheme: str) -> Repaired | None:
    """(path, number of sentences whose tags break the scheme, line of the first), or None."""
    lines = [sentence.line for sentence in sentences if scheme != 'IOB1' and not is_well_formed(sentence.tags, scheme)]
    return (path, len(lines), lines[0]) if lines else None


# Whether tags can be tags

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

    The limits let tag sets of hundreds of types pass on a few sentences; see docs/training_data.md.

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
