"""Cross-validation: splits a corpus into folds; each fold is the test file of one training."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ms_crf.base import files
from ms_crf.base.errors import CorpusError
from ms_crf.base.files import PathLike
from ms_crf.base.watchers import Watcher
from ms_crf.experiments.runner import Value
from ms_crf.formats import alignment
from ms_crf.formats.dataset import load
from ms_crf.formats.document import ReadOptions, discard
from ms_crf.formats.lines import check_readable
from ms_crf.formats.registry import columns_of, of_corpus, read_corpus
from ms_crf.runs.options import Options
from ms_crf.text.sentence import Sentence
from ms_crf.text.splitting import Deferred, Splitter
from ms_crf.training.watchers import lines_of

import numpy as np


class Fold(NamedTuple):
    """The train, dev and test sentences of one training of a cross-validation."""

    train: list[Sentence]
    dev: list[Sentence]
    test: list[Sentence]

    def write(self, folder: Path) -> None:
        """Creates a folder with the files train.jsonl, dev.jsonl and test.jsonl."""
        with files.faults_named(folder, ''):
            folder.mkdir(parents=True)
        for part, sentences in self._asdict().items():
            files.write_text(folder / f'{part}.jsonl', json_lines_of(sentences))


def read_folds(named: Mapping[str, Value], count: int, seed: int, watcher: Watcher) -> tuple[list[Fold], str | None]:
    """Reads a corpus and splits it into folds.

    Args:
        named: the options that the user names, with their values: `train`, optionally `dev`, and how to read them.
        count: number of folds.
        seed: seed of the shuffle.
        watcher: receives the sizes of the corpora and of the folds, and remarks on the files.

    Returns:
        The folds, and the name of the splitter of the corpus, or None if the corpus is tokenised.
    """
    reading_options = {name: value for name, value in named.items()
             if name in ('train', 'dev', 'columns', 'splitter', 'scheme', 'allow_any_tags')}
    options = Options(**reading_options)  # type: ignore[arg-type] # checked before
    if not os.path.isfile(options.train) and not os.path.isdir(options.train):
        check_readable(options.train)
        raise CorpusError(options.train, None, 'expected a file or a folder, which cross-validation reads twice, got '
                                               'another kind of input')
    pair = options.column_pair()
    corpora = load({part: getattr(options, part) for part in ('train', 'dev') if part in named}, options.scheme, pair,
                   options.splitter, any_tags=options.allow_any_tags)
    for line in lines_of(corpora):
        watcher.say(line)
    splitter = Deferred(corpora.splitter or options.splitter)
    documents = documents_of(options.train, pair, splitter)
    dev = read_corpus(options.dev, pair, splitter) if 'dev' in named else None
    folds = folds_of(options.train, documents, count, seed)
    sizes = sorted({len(fold) for fold in folds})
    whole = '' if len(documents) == sum(map(len, folds)) else f', from {len(documents):,} documents'
    watcher.say(f'{count} folds of {" to ".join(map(str, dict.fromkeys((sizes[0], sizes[-1]))))} sentences{whole}')
    return list(splits_of(folds, dev)), corpora.splitter


def documents_of(path: PathLike, pair: tuple[int, ...], splitter: Splitter) -> list[list[Sentence]]:
    """Returns the sentences of each document of a corpus.

    A document is a text of a JSON or brat file, or begins at a -DOCSTART- row or '# newdoc'. In a file without
    documents each sentence is a document.

    Args:
        path: a file, or a folder in brat format.
        pair: indices of the columns of token and tag.
        splitter: finds sentences and tokens in texts.
    """
    documents = of_corpus(path).read(path, ReadOptions(columns_of(path, pair)))
    by_document = [list(alignment.corpus_of([document], splitter, discard)) for document in documents]
    return [sentences for sentences in by_document if sentences]


def folds_of(path: PathLike, documents: Sequence[list[Sentence]], count: int, seed: int) -> list[list[Sentence]]:
    """Returns the sentences of each fold. Folds have similar sizes, and a document is never split.

    The documents are shuffled. Each document is then added to the fold with the fewest sentences, or to the first such
    fold. The documents of a fold are in the order of the file.

    Args:
        path: path of the corpus, for messages.
        documents: the result of `documents_of`.
        count: number of folds.
        seed: seed of the shuffle.

    Raises:
        CorpusError: there are fewer documents than folds.
    """
    if len(documents) < count:
        unit = 'sentences' if all(len(document) == 1 for document in documents) else 'documents, which are not split,'
        raise CorpusError(path, None, f'expected at least {count} {unit} for {count} folds, got {len(documents)}')
    members: list[list[int]] = [[] for _ in range(count)]
    sizes = [0] * count
    for index in np.random.default_rng(seed).permutation(len(documents)).tolist():
        smallest = sizes.index(min(sizes))
        members[smallest].append(index)
        sizes[smallest] += len(documents[index])
    return [[sentence for index in sorted(fold) for sentence in documents[index]] for fold in members]


def splits_of(folds: Sequence[list[Sentence]], dev: list[Sentence] | None) -> Iterator[Fold]:
    """Yields one split for each fold: this fold is test, `dev` or the next fold is dev, all other folds are train."""
    count = len(folds)
    for index_of_test, test in enumerate(folds):
        after = (index_of_test + 1) % count
        train = [fold for index, fold in enumerate(folds)
                 if index != index_of_test and (dev is not None or index != after)]
        yield Fold([sentence for fold in train for sentence in fold], folds[after] if dev is None else dev, test)


def json_lines_of(sentences: Sequence[Sentence]) -> str:
    """Returns sentences as JSON lines, a format that can represent every token."""
    return ''.join(json.dumps({'tokens': sentence.tokens, 'tags': sentence.tags}, ensure_ascii=False) + '\n'
                   for sentence in sentences)
