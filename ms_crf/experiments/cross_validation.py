"""What the trainings of a cross-validation read: the folds of one corpus."""

import os
import sys
from collections.abc import Mapping
from typing import Any

from ms_crf.base.errors import CorpusError, OptionError
from ms_crf.cli import console
from ms_crf.cli.train import Watcher, with_options
from ms_crf.experiments.folds import LEAST, Fold, documents_of, folds_of, turns_of
from ms_crf.formats.dataset import load
from ms_crf.formats.lines import check_readable
from ms_crf.formats.readers import read_corpus
from ms_crf.formats.tag_columns import UnlikelyTags
from ms_crf.runs.options import Options
from ms_crf.text.splitting import Deferred

MOST = 1000


def check(folds: int, named: Mapping[str, Any], with_seeds: bool) -> None:
    """Raises OptionError if --folds can't be, or another option can't be beside it.

    Args:
        folds: how many.
        named: the options that were named, and their values.
        with_seeds: whether --seeds was named.
    """
    least, without = (LEAST - 1, '') if 'dev' in named else (LEAST, ' without --dev')
    if not least <= folds <= MOST:
        raise OptionError(f'--folds must be from {least} to {MOST:,}{without}, got {folds}')
    for name, given, why in (('seeds', with_seeds, 'each of which is trained with the seed of --seed'),
                             ('test', 'test' in named, 'each of which is the test of the others')):
        if given:
            raise OptionError(f'--{name} means nothing with --folds, {why}; leave it away')


def read(named: Mapping[str, Any], count: int, seed: int) -> tuple[list[Fold], str | None]:
    """The folds of a corpus, and the name of the splitter that has cut it; None if it came in tokens.

    What is to be said of the corpus is said on standard error, and its faults with their lines.

    Args:
        named: the options that were named, and their values: `train`, perhaps `dev`, and how they are read.
        count: how many folds.
        seed: of the shuffle.
    """
    path = named['train']
    if not os.path.isfile(path) and not os.path.isdir(path):
        check_readable(path)
        raise CorpusError(path, None, 'expected a file or a folder, which are read twice for folds, got neither')
    options = Options(**{name: named[name] for name in ('columns', 'splitter', 'scheme', 'allow_any_tags')
                         if name in named})
    pair = options.column_pair()
    try:
        corpora = load({part: named[part] for part in ('train', 'dev') if part in named}, options.scheme, pair,
                       options.splitter, any_tags=options.allow_any_tags)
    except UnlikelyTags as error:
        raise with_options(error) from None
    Watcher(sys.stderr).corpora(corpora)
    splitter = Deferred(corpora.splitter or options.splitter)
    documents = documents_of(path, pair, splitter)
    dev = read_corpus(named['dev'], pair, splitter) if 'dev' in named else None
    folds = folds_of(path, documents, count, seed)
    sizes = sorted({len(fold) for fold in folds})
    whole = '' if len(documents) == sum(map(len, folds)) else f', from {len(documents):,} documents'
    console.say(f'{count} folds of {" to ".join(map(str, dict.fromkeys((sizes[0], sizes[-1]))))} sentences{whole}')
    return list(turns_of(folds, dev)), corpora.splitter
