"""Cross-validation: a corpus cut into folds, each of which is tested once by what was learned from the others."""

import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ms_crf.base.errors import CorpusError
from ms_crf.base.files import PathLike
from ms_crf.formats import alignment
from ms_crf.formats.document import Reading, nowhere
from ms_crf.formats.registry import columns_of, of_corpus
from ms_crf.text.sentence import Sentence
from ms_crf.text.splitting import Splitter

import numpy as np

LEAST = 3                      # folds, of which one is for dev and one for test


class Fold(NamedTuple):
    """What one training of a cross-validation reads."""

    train: list[Sentence]
    dev: list[Sentence]
    test: list[Sentence]


def documents_of(path: PathLike, pair: tuple[int, ...], splitter: Splitter) -> list[list[Sentence]]:
    """The sentences of a corpus by documents; where the file does not say where they begin, each sentence is one.

    Documents are the texts of JSON and brat, and what -DOCSTART- rows and '# newdoc' begin.

    Args:
        path: of the corpus, a file or a folder of brat.
        pair: indices of the columns of token and tag.
        splitter: finds sentences and tokens in texts.
    """
    documents = of_corpus(path).read(path, Reading(columns_of(path, pair)))
    found = [list(alignment.corpus_of([document], splitter, nowhere)) for document in documents]
    return [sentences for sentences in found if sentences]


def folds_of(path: PathLike, documents: Sequence[list[Sentence]], count: int, seed: int) -> list[list[Sentence]]:
    """Documents dealt out to folds of about as many sentences each; a document stays whole.

    They are shuffled; each goes to the fold with the fewest sentences, of several to the first. In a fold they stand
    as they do in the file.

    Args:
        path: of the corpus, for messages.
        documents: what `documents_of` gave.
        count: how many folds.
        seed: of the shuffle.

    Raises:
        CorpusError: there are fewer documents than folds.
    """
    if len(documents) < count:
        what = 'sentences' if all(len(document) == 1 for document in documents) else 'documents, which stay whole,'
        raise CorpusError(path, None, f'expected at least {count} {what} for as many folds, got {len(documents)}')
    members: list[list[int]] = [[] for _ in range(count)]
    sizes = [0] * count
    for index in np.random.default_rng(seed).permutation(len(documents)).tolist():
        smallest = sizes.index(min(sizes))
        members[smallest].append(index)
        sizes[smallest] += len(documents[index])
    return [[sentence for index in sorted(fold) for sentence in documents[index]] for fold in members]


def turns_of(folds: Sequence[list[Sentence]], dev: list[Sentence] | None) -> Iterator[Fold]:
    """Each fold as test, the next one as dev unless there are dev sentences for all, and the others as train."""
    count = len(folds)
    for turn, test in enumerate(folds):
        after = (turn + 1) % count
        left = [fold for index, fold in enumerate(folds) if index != turn and (dev is not None or index != after)]
        yield Fold([sentence for fold in left for sentence in fold], folds[after] if dev is None else dev, test)


def as_json(sentences: Sequence[Sentence]) -> str:
    """Sentences as JSON lines, which hold any token."""
    return ''.join(json.dumps({'tokens': sentence.tokens, 'tags': sentence.tags}, ensure_ascii=False) + '\n'
                   for sentence in sentences)
