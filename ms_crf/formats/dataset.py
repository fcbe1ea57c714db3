"""Loads the corpora of a training, checks their tags, and converts the tags to the scheme of the training."""

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

NAMED = 5                      # kinds of unknown tags in a message
SHOWN = 3                      # examples in a message
LEAST_ROWS, LEAST_TAGS = 40, 30        # smaller corpora may have as many different tags as tokens
_NUMBER = re.compile(r'[-+]?[0-9]+(?:[.,:/][0-9]+)*(?:[eE][-+]?[0-9]+)?%?')
_FRACTION = re.compile(r'[-+]?[0-9]*[.,][0-9]+(?:[eE][-+]?[0-9]+)?%?')
Repaired = tuple[PathLike, int, int]              # file, number of sentences, line of the first sentence
Unknown = tuple[PathLike, int, str, Counter]      # file, line and tag of the first unseen tag, counts by tag or type


class Corpora(NamedTuple):
    """The corpora train, dev and test, with tags in the scheme of the training."""

    #: the sentences of 'train', 'dev' and, if it exists, 'test'; tags are in the scheme of the training, and may be
    #: unknown, see `ms_crf.text.partial`
    parts: dict[str, list[Sentence]]
    #: for the same parts the gold tags for scoring predictions, see `metrics.score_in`
    gold: dict[str, list[list[str]]]
    #: the scheme of the files
    file_scheme: str
    #: the scheme of the training
    scheme: str
    #: the scheme of the tags that the model returns
    written: str
    #: all tags of the model
    tags: list[str]
    #: files with tag sequences that are invalid in their scheme
    repaired: list[Repaired]
    #: files with tags that do not occur in train
    unknown: list[Unknown]
    #: messages about changed texts and spans, and about the number of unlabelled tokens
    remarks: Sequence[str] = ()
    #: the name of the splitter for texts with spans; None if no text was split and no splitter was named
    splitter: str | None = None
    #: the unconverted tags of 'dev' and 'test' if `gold` has converted tags; otherwise empty
    raw: Mapping[str, list[list[str]]] = {}


def load(paths: Mapping[str, PathLike], scheme: str = 'auto', columns: tuple[int, ...] = (0, -1),
         splitter: str = AUTO, mark: str = MARK, for_bio: str = 'BIO', any_tags: bool = False) -> Corpora:
    """Reads the files of a training.

    Args:
        paths: the files of 'train', 'dev' and optionally 'test'.
        scheme: the scheme of the training and of the returned tags, 'BIO', 'BIOES' or 'BMES'. 'auto' is the scheme of
            the files, or BIO for IOB1 files.
        columns: indices of the columns of token and tag, see `read_corpus`.
        splitter: name of the splitter for texts with spans; with `AUTO` the first text decides.
        mark: the mark of unknown tags; '' for no mark.
        for_bio: with 'auto', the scheme for training on BIO files. The model still returns BIO tags.
        any_tags: whether to accept tags that do not look like tags.

    Raises:
        CorpusError: a file cannot be read, its tags do not fit any scheme, or none of its tokens is annotated.
    """
    remarks_of = {part: Remarks(path) for part, path in paths.items()}
    deferred = Deferred(splitter)
    widths: dict[str, list[int]] = {part: [] for part in paths}
    files = {part: read_corpus(path, columns, deferred, remarks_of[part].add, mark, widths[part])
             for part, path in paths.items()}
    remarks = [line for part in remarks_of.values() for line in part.lines()]
    remarks += [line for part in files if (line := _unknown_tags(paths[part], files[part], mark, part))]
    for part in () if any_tags else files:
        check_tag_column(paths[part], files[part], widths[part])
    file_scheme = recognised([(paths[part], sentence) for part, read in files.items() for sentence in read])
    written = scoring_scheme(file_scheme) if scheme == 'auto' else scheme
    if PLAIN in (file_scheme, written) and written != file_scheme:
        raise CorpusError(paths['train'], None, f'expected tags of spans for the scheme {written}, '
                                                f'got {file_scheme} tags, which have no other scheme')
    repaired = [entry for part in files if (entry := _invalid(paths[part], files[part], file_scheme))]
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


def _unknown_tags(path: PathLike, sentences: Sequence[Sentence], mark: str, part: str) -> str | None:
    """A message with the number of unknown tags in a file; None if all tags are known.

    Raises:
        CorpusError: no tag is known.
    """
    check_annotated(path, sentences, part != 'train')
    counts = Counter(marked(tag, mark or MARK) for sentence in sentences for tag in sentence.tags if OPEN in tag)
    if not counts:
        return None
    tokens = sum(len(sentence.tags) for sentence in sentences)
    meaning = (f"{mark!r} marks unknown tags; if {mark!r} is a normal tag, name another mark, or '' for no mark"
               if mark else 'written as null')
    named = ', '.join(f'{tag} {count:,}' for tag, count in counts.most_common(NAMED))
    others = f' and {len(counts) - NAMED} others' if len(counts) > NAMED else ''
    return f'{path}: {sum(counts.values()):,} of {tokens:,} tokens are not annotated: {named}{others} ({meaning})'


def check_annotated(path: PathLike, sentences: Sequence[Sentence], wholly: bool = True) -> None:
    """Raises CorpusError if no tag of a file is known; if `wholly`, partly known tags, such as B-?, do not count."""
    if all(OPEN in tag if wholly else tag in (OPEN, NEXT) for sentence in sentences for tag in sentence.tags):
        tokens = sum(len(sentence.tags) for sentence in sentences)
        raise CorpusError(path, None, f'expected tags, but none of {tokens:,} tokens is {"completely " * wholly}'
                                      'annotated; if the mark of unknown tags is a normal tag here, name another mark, '
                                      "or '' for no mark")


def _check_completions(path: PathLike, sentences: Sequence[Sentence]) -> None:
    """Raises CorpusError if a tag has an unknown type, such as B-?, but no tag of the file has a known type."""
    for sentence in sentences:
        for position, tag in enumerate(sentence.tags):
            if OPEN in tag and tag != OPEN:
                raise CorpusError(path, sentence.line_of(position), 'expected at least one known entity type in the '
                                                                    f'file, got {marked(tag)!r} and no known type')


def digest_of(sentences: Iterable[Sentence]) -> str:
    """The SHA-256 checksum of the tokens and tags of sentences, in hexadecimal."""
    digest = hashlib.sha256()
    for sentence in sentences:
        digest.update(json.dumps([sentence.tokens, sentence.tags]).encode() + b'\n')
    return digest.hexdigest()


def _unknown(paths: Mapping[str, PathLike], files: Mapping[str, list[Sentence]], scheme: str,
             tags: Iterable[str]) -> list[Unknown]:
    """Entries of `Corpora.unknown`: tags of dev and test that a model with the tags `tags` cannot predict."""
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
    """The part of a tag that a model must know to predict it: (is it inside a span?, type); for plain tags the tag."""
    return (True, tag) if scheme == PLAIN else (tag != 'O', split_tag(tag)[1])


def _invalid(path: PathLike, sentences: Sequence[Sentence], scheme: str) -> Repaired | None:
    """(path, number of sentences with invalid tag sequences, line of the first of these sentences), or None."""
    lines = [sentence.line for sentence in sentences if scheme != 'IOB1' and not is_well_formed(sentence.tags, scheme)]
    return (path, len(lines), lines[0]) if lines else None


# Checks for columns that do not hold tags

class UnlikelyTags(CorpusError):
    """The tag column of a file does not seem to contain tags.

    Attributes:
        fault: what was expected, and what the column contains.
    """

    def __init__(self, path: PathLike, fault: str) -> None:
        super().__init__(path, None, f'{fault}; name the columns of token and tag, or allow any tags')
        self.fault = fault


def check_tag_column(path: PathLike, sentences: Sequence[Sentence], widths: Sequence[int] = ()) -> None:
    """Raises UnlikelyTags if the tags of a file do not seem to be tags.

    Sets of hundreds of tags pass on a few sentences; docs/training_data.md describes the limits.

    Args:
        path: path of the file, for the message.
        sentences: the sentences of the file.
        widths: the number of columns of each row, in column files.
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
    """A description of rows of prose, which have varying numbers of words; None if the rows look regular."""
    uneven = sum(one != other for one, other in zip(widths, widths[1:]))
    is_uneven = len(widths) > 4 and 2 * uneven > len(widths)
    return 'rows with different numbers of columns, which end in words' if is_uneven else None


def _fault(tokens: Sequence[str], tags: Counter[str], equal: int) -> str | None:
    """A description of tags that do not seem to be tags; None if they may be tags.

    Args:
        tokens: all tokens.
        tags: the frequency of each tag.
        equal: the number of tokens that are equal to their tags.
    """
    count, once = len(tokens), sum(times == 1 for times in tags.values())
    if len(tags) >= 10 and all(map(_NUMBER.fullmatch, tags)) and (
            2 * sum(times for tag, times in tags.items() if _FRACTION.fullmatch(tag)) > count
            or 2 * sum(_FRACTION.fullmatch(token) is not None for token in tokens) > count):
        return 'numbers'
    various = f'{len(tags):,} different values in {count:,} rows'
    if count >= LEAST_ROWS and 2 * once > count:
        return various
    if len(tags) < LEAST_TAGS or 10 * once < len(tags):          # words have more rare values than tags
        return None
    if 10 * equal > 3 * count:
        return 'the tokens again'
    known = len(set(tokens))
    as_various = len(tags) > known or (count >= 400 and 5 * len(tags) > 4 * known and 2 * once > len(tags))
    return f'{various}, and {known:,} different tokens' if as_various else None
