"""The tables of a hidden Markov model of words from counts: of tags that are known, and of those that may stand.

Where only some tags are known, counts are expected ones: the tables of what is known give each state at each token a
probability, among those that may stand there; from these come new tables, a few times over.

Shapes: N tokens of all sentences, S states, V words.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from ms_crf.crf.host import SequenceBatch
from ms_crf.models.hmm.baum_welch import Tables
from ms_crf.models.hmm.symbols import WordCounts

import numpy as np

# More of them fit the words better and the tags worse: with half of the tags of wikigold, F1 on dev was 37.3 after
# none, 46.4 after 1, 46.1 after 3, 46.6 after 5, 43.6 after 10 and 41.4 after 20.
STEPS = 3


class Counts(NamedTuple):
    """How often, as numbers or as expected ones."""

    start: np.ndarray          # (S,) each state is first
    end: np.ndarray            # (S,) it is last
    transition: np.ndarray     # (S, S) it follows each
    words: np.ndarray          # (S, V) it gives each word


class Counted(Protocol):
    """A model of words whose tables can be exchanged; `HMM` is one."""

    def set_tables(self, tables: Tables) -> None:
        """Gives it other tables."""

    def batches(self, sequences: list, mask: np.ndarray | None = None
                ) -> Iterator[tuple[np.ndarray, SequenceBatch, np.ndarray]]:
        """Indices of sequences, a batch of them, and the columns of their words one after the other."""


def tables_of(counts: Counts, words: WordCounts, add: float) -> Tables:
    """The tables that follow from counts, with `add` added to each; raises ValueError if that is too little.

    With `add` 0 each probability is a relative frequency, and may be 0.
    """
    start, end, transition = counts.start + add, counts.end + add, counts.transition + add
    with np.errstate(all='ignore'):
        # From each state the sentence ends or goes on.
        leaving = transition.sum(1) + end
        tables = Tables(np.log(start / start.sum()), np.log(transition / leaving[:, None]),
                        words.table(counts.words, add), np.log(end / leaving))
    if not all((np.isfinite(array) | (np.isneginf(array) & (add == 0))).all() for array in tables):
        raise ValueError(f'add must leave every probability above 0, in 64 bits, got {add}')
    return tables


def counts_of(paths: Sequence[np.ndarray], words: WordCounts, states: int) -> Counts:
    """Counts of what is known.

    Args:
        paths: for each sentence the state of each token, -1 where it is not known; none of them empty.
        words: of the sentences.
        states: how many.
    """
    path = np.concatenate(paths)
    steps = [row[:-1] * states + row[1:] for row in paths]
    both = [np.minimum(row[:-1], row[1:]) >= 0 for row in paths]
    steps_known = np.concatenate([row[known] for row, known in zip(steps, both)])
    start, end = (np.array([row[place] for row in paths]) for place in (0, -1))
    known = np.zeros((states, words.size))
    np.add.at(known, (path[path >= 0], words.columns[path >= 0]), 1)
    return Counts(np.bincount(start[start >= 0], minlength=states), np.bincount(end[end >= 0], minlength=states),
                  np.bincount(steps_known, minlength=states * states).reshape(states, states), known)


def learn(model: Counted, sentences: list, sets: Sequence[np.ndarray], words: WordCounts, add: float,
          steps: int = STEPS) -> None:
    """Gives a model of words the tables of sentences of which only some tags are known.

    Args:
        model: whose words and states are those of the sentences.
        sentences: lists of tokens, none of them empty.
        sets: for each sentence (tokens, S) bool, the states that each token may have.
        words: of the sentences.
        add: added to every count.
        steps: how many times expected counts make new tables.
    """
    states = sets[0].shape[1]
    paths = [np.where(own.sum(1) == 1, own.argmax(1), -1) for own in sets]
    counts = counts_of(paths, words, states)
    mask = np.where(np.concatenate(sets), 0.0, -np.inf)
    for _ in range(steps):
        model.set_tables(tables_of(counts, words, add))
        counts = _expected(model, sentences, mask, words.size)
    model.set_tables(tables_of(counts, words, add))


def _expected(model: Counted, sentences: list, mask: np.ndarray, size: int) -> Counts:
    states = mask.shape[1]
    start, end, transition = np.zeros(states), np.zeros(states), np.zeros((states, states))
    words = np.zeros((states, size))
    with np.errstate(over='ignore', invalid='ignore'):
        for _, batch, observed in model.batches(sentences, mask):
            weights = batch.posteriors()                                            # (L, B, S)
            start += weights[0].sum(0)
            end += weights[batch.lengths - 1, np.arange(len(batch.lengths))].sum(0)
            transition += batch.pair_counts()
            flat = weights.swapaxes(0, 1)[batch.live.T]                             # (positions, S)
            words += np.stack([np.bincount(observed, flat[:, state], size) for state in range(states)])
    return Counts(start, end, transition, words)
