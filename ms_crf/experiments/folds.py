"""Cross-validation: a corpus cut into folds, each of which is tested once by a model of the others."""

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
    """What one training of a cross-validation reads."""

    train: list[Sentence]
    dev: list[Sentence]
    test: list[Sentence]

    def write(self, folder: Path) -> None:
        """Writes train.jsonl, dev.jsonl and test.jsonl to a folder, which is created."""
        with files.faults_named(folder, ''):
            folder.mkdir(parents=True)
        for part, sentences in self._asdict().items():
            files.write_text(folder / f'{part}.jsonl', as_json(sentences))


def read_folds(named: Mapping[str, Value], count: int, seed: int, watcher: Watcher) -> tuple[list[Fold], str | None]:
    """Reads a corpus and cuts it into folds.

    Args:
        named: the options that were named, and their values: `train`, perhaps `dev`, and how they are read.
        count: number of folds.
        seed: of the shuffle.
        watcher: receives the sizes of the corpora and of the folds, and remarks on the files.

    Returns:
        The folds, and the name of the splitter of the corpus; None if the corpus is in tokens.
    """
    given = {name: value for name, value in named.items()
             if name in ('train', 'dev', 'columns', 'splitter', 'scheme', 'allow_any_tags')}
    options = Options(**given)  # type: ignore[arg-type] # checked before
    if not os.path.isfile(options.train) and not os.path.isdir(options.train):
        check_readable(options.train)
        raise CorpusError(options.train, None, 'expected a file or a folder, which are read twice for folds, got '
                                               'neither')
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
    return list(turns_of(folds, dev)), corpora.splitter


def documents_of(path: PathLike, pair: tuple[int, ...], splitter: Splitter) -> list[list[Sentence]]:
    """The sentences of a corpus by documents; where the file does not say where they begin, each sentence is one.

    Documents are the texts of JSON and brat, and what -DOCSTART- rows and '# newdoc' begin.

    Args:
        path: of the corpus, a file or a folder of brat.
        pair: indices of the columns of token and tag.
        splitter: finds sentences and tokens in texts.
    """
    documents = of_corpus(path).read(path, ReadOptions(columns_of(path, pair)))
    found = [list(alignment.corpus_of([document], splitter, discard)) for document in documents]
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
