"""The corpora of one training: read, their scheme recognised, their tags brought into the scheme of training."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ms_crf.errors import CorpusError
from ms_crf.files import PathLike
from ms_crf.text.formats.document import Remarks
from ms_crf.text.metrics import Score, percent, score, table, total
from ms_crf.text.readers import Sentence, is_json, read_corpus
from ms_crf.text.schemes import (
    PLAIN,
    TABLE,
    SchemeError,
    is_span_tag,
    recognise_scheme,
    spans_of,
    split_tag,
    strict_spans_of,
    tags_of,
)
from ms_crf.text.splitting import AUTO, Deferred

Repaired = tuple[PathLike, int, int]              # file, number of sentences, line of the first
Unknown = tuple[PathLike, int, str, Counter]      # file, line and tag of the first, counts by tag or type


class Corpora(NamedTuple):
    """Train, dev and test under one scheme."""

    #: the sentences by part, 'train', 'dev' and, if there is one, 'test'; their tags are in the scheme of training
    parts: dict[str, list[Sentence]]
    #: for the same parts the tags that predictions are scored against, see `score_in`
    gold: dict[str, list[list[str]]]
    #: the scheme of the files
    file_scheme: str
    #: the scheme of training
    scheme: str
    #: all tags that the model is to know
    tags: list[str]
    #: where tags broke the scheme
    repaired: list[Repaired]
    #: where dev and test have tags that train lacks
    unknown: list[Unknown]
    #: what is not kept of texts and spans as the files have it, in lines
    remarks: Sequence[str] = ()
    #: the name of what has cut texts with spans; None if there were none, and none was named
    splitter: str | None = None


def load(paths: Mapping[str, PathLike], scheme: str = 'auto', columns: tuple[int, ...] = (0, -1),
         splitter: str = AUTO) -> Corpora:
    """Reads the files of a training.

    Args:
        paths: the names of the files of 'train', 'dev' and perhaps 'test'.
        scheme: the one to train in, 'BIO', 'BIOES' or 'BMES'; 'auto' for that of the files, BIO if that is IOB1.
        columns: indices of the columns of token and tag, see `read_corpus`.
        splitter: name of what finds sentences and tokens in texts with spans; `AUTO` for what suits the first text.

    Raises:
        CorpusError: a file can't be read, or its tags are of no scheme.
    """
    found = {part: Remarks(path) for part, path in paths.items()}
    deferred = Deferred(splitter)
    files = {part: read_corpus(path, columns, deferred, found[part].add) for part, path in paths.items()}
    remarks = [line for part in found.values() for line in part.lines()]
    file_scheme = _recognise(paths, files)
    target = home(file_scheme) if scheme == 'auto' else scheme
    if PLAIN in (file_scheme, target) and target != file_scheme:
        raise CorpusError(paths['train'], None, f'expected tags of spans for the scheme {target}, '
                                                f'got {file_scheme} tags, which have no other scheme')
    repaired = [entry for part in files if (entry := _ill_formed(paths[part], files[part], file_scheme))]
    if file_scheme == PLAIN:
        tags = sorted({tag for sentence in files['train'] for tag in sentence.tags})
        gold = {part: [sentence.tags for sentence in sentences] for part, sentences in files.items()}
        unknown = _unknown(paths, files, file_scheme, tags)
        return Corpora(files, gold, file_scheme, target, tags, repaired, unknown, remarks, deferred.used)
    parts = {part: [sentence._replace(tags=convert(sentence.tags, target)) for sentence in sentences]
             for part, sentences in files.items()}
    gold = {part: [sentence.tags if as_they_stand(file_scheme, target) else convert(sentence.tags, home(file_scheme))
                   for sentence in sentences] for part, sentences in files.items()}
    tags = _all_tags(files['train'], target)
    unknown = _unknown(paths, files, file_scheme, tags)
    return Corpora(parts, gold, file_scheme, target, tags, repaired, unknown, remarks, deferred.used)


def convert(tags: Sequence[str], scheme: str) -> list[str]:
    """Tags of the same spans in another scheme."""
    return tags_of(spans_of(tags), len(tags), scheme)


def as_they_stand(file_scheme: str, model_scheme: str) -> bool:
    """Whether predicted and gold tags are compared as they are, since both are in the same scheme.

    Otherwise both are converted to the scheme that `home` names before they are compared.

    Args:
        file_scheme: the scheme of the files.
        model_scheme: the scheme that the model was trained in.
    """
    return file_scheme == model_scheme


def score_in(file_scheme: str, gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]],
             model_scheme: str) -> Score:
    """The score of a model's predictions.

    Args:
        file_scheme: the scheme of the files that the model was trained on.
        gold: a list of tags for each sentence: in `file_scheme` if `as_they_stand`, otherwise in that of `home`.
        predicted: a list of tags for each sentence, in `model_scheme`.
        model_scheme: the scheme that the model was trained in.
    """
    return score(gold, _as_gold(file_scheme, predicted, model_scheme), home(file_scheme))


def _as_gold(file_scheme: str, predicted: Sequence[Sequence[str]], model_scheme: str) -> Sequence[Sequence[str]]:
    """Predicted tags in the scheme in which they are compared with gold ones."""
    if as_they_stand(file_scheme, model_scheme):
        return predicted
    return [convert(tags, home(file_scheme)) for tags in predicted]


class Scores:
    """Adds up the score of a model over sentences that come bit by bit.

    Args:
        file_scheme, model_scheme: the same as for `score_in`.
        path: the file that the gold tags are from, for messages.
    """

    def __init__(self, file_scheme: str, model_scheme: str, path: object) -> None:
        self.file_scheme, self.model_scheme, self.path = file_scheme, model_scheme, path
        self.result, self._otherwise = total([]), 0

    def add(self, lines: Sequence[int], gold: Sequence[list[str]], predicted: Sequence[list[str]]) -> None:
        """Adds sentences.

        Args:
            lines: the line on which each of them begins.
            gold: their tags in the file.
            predicted: the model's tags.
        """
        known = [self._gold(tags, line) for line, tags in zip(lines, gold)]
        self.result = total([self.result, score_in(self.file_scheme, known, predicted, self.model_scheme)])
        if self.file_scheme != PLAIN and as_they_stand(self.file_scheme, self.model_scheme):
            gold, predicted = ([convert(tags, home(self.file_scheme)) for tags in rows] for rows in (gold, predicted))
        self._otherwise += sum(one == other for row, others in zip(gold, predicted) for one, other in zip(row, others))

    def compared(self, lines: Sequence[int], gold: Sequence[list[str]],
                 predicted: Sequence[list[str]]) -> tuple[list[list[str]], list[list[str]]]:
        """The gold and the predicted tags of sentences, in the scheme in which `add` compares them."""
        known = [self._gold(tags, line) for line, tags in zip(lines, gold)]
        return known, list(map(list, _as_gold(self.file_scheme, predicted, self.model_scheme)))

    def _gold(self, tags: list[str], line: int) -> list[str]:
        """Gold tags, in any scheme of spans or plain, converted to the scheme in which `score_in` compares them.

        Raises:
            CorpusError: the model's tags are of spans, and these are not.
        """
        scheme = self.file_scheme
        if scheme == PLAIN:
            return tags
        odd = next((tag for tag in tags if not is_span_tag(tag) and tag != 'O'), None)
        if odd is not None:
            raise CorpusError(self.path, line, f"expected 'O' or tags of spans like {home(scheme)} has them, got "
                                               f'{odd!r} in the sentence that begins here')
        try:
            recognise_scheme([tags])
        except SchemeError as error:
            raise CorpusError(self.path, line, f'{error} in the sentence that begins here') from None
        return tags if as_they_stand(scheme, self.model_scheme) else convert(tags, home(scheme))

    def lines(self) -> list[str]:
        """The table of conlleval; then the accuracy with the tags in the other scheme, where it differs."""
        lines = table(self.result)
        if self._otherwise != self.result.correct_tokens:
            other = 'of the tags as they stand, in schemes of their own'
            if as_they_stand(self.file_scheme, self.model_scheme):
                other = f'of the same spans, all written in {home(self.file_scheme)}'
            lines.append(f'accuracy {other}: {percent(self._otherwise, self.result.tokens):.2f}%')
        return lines


def digest_of(sentences: Iterable[Sentence]) -> str:
    """SHA-256 of the tokens and tags of sentences."""
    digest = hashlib.sha256()
    for sentence in sentences:
        digest.update(json.dumps([sentence.tokens, sentence.tags]).encode() + b'\n')
    return digest.hexdigest()


def home(scheme: str) -> str:
    """The scheme in which the tags of files of this scheme are scored: the same, but BIO for IOB1."""
    return 'BIO' if scheme == 'IOB1' else scheme


def _recognise(paths: Mapping[str, PathLike], files: Mapping[str, list[Sentence]]) -> str:
    sentences = [(paths[part], sentence) for part, read in files.items() for sentence in read]
    try:
        return recognise_scheme([sentence.tags for _, sentence in sentences])
    except SchemeError as error:
        path, sentence = sentences[error.sentence]
        raise CorpusError(path, _line_of(path, sentence, error.position), str(error)) from None


def _line_of(path: PathLike, sentence: Sentence, position: int) -> int:
    """The line of a token; of JSON lines that of its sentence."""
    if is_json(path):
        return sentence.line
    return sentence.lines[position] if sentence.lines else sentence.line + position


def _unknown(paths: Mapping[str, PathLike], files: Mapping[str, list[Sentence]], scheme: str,
             tags: Iterable[str]) -> list[Unknown]:
    """The tags in dev and test that a model with these tags can never predict: the entries of `Corpora.unknown`."""
    known = {_kind(tag, scheme) for tag in tags}
    unknown = []
    for part, sentences in files.items():
        lacking = [(sentence, position, tag) for sentence in sentences for position, tag in enumerate(sentence.tags)
                   if _kind(tag, scheme) not in known]
        if lacking:
            sentence, position, tag = lacking[0]
            counts = Counter(_kind(tag, scheme)[1] or tag for _, _, tag in lacking)
            unknown.append((paths[part], _line_of(paths[part], sentence, position), tag, counts))
    return unknown


def _kind(tag: str, scheme: str) -> tuple[bool, str]:
    """What a model must have seen to predict a tag: a span's type, or that there are tokens outside; a plain tag."""
    return (True, tag) if scheme == PLAIN else (tag != 'O', split_tag(tag)[1])


def _ill_formed(path: PathLike, sentences: Sequence[Sentence], scheme: str) -> Repaired | None:
    """(path, number of sentences whose tags break the scheme, line of the first), or None."""
    if scheme in (PLAIN, 'IOB1'):
        return None
    lines = [sentence.line for sentence in sentences
             if spans_of(sentence.tags) != strict_spans_of(sentence.tags, scheme)]
    return (path, len(lines), lines[0]) if lines else None


def _all_tags(sentences: Sequence[Sentence], scheme: str) -> list[str]:
    kinds = sorted({split_tag(tag)[1] for sentence in sentences for tag in sentence.tags if tag != 'O'})
    prefixes, outside = TABLE[scheme].prefixes, scheme != 'BMES' or any('O' in sentence.tags for sentence in sentences)
    return ['O'] * outside + [f'{prefix}-{kind}' if kind else prefix for kind in kinds for prefix in prefixes]
