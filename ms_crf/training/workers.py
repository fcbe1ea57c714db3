"""Several processes that train one model together: who they are, and what each takes of a batch.

MindSpore's `msrun` starts them, together with a scheduler that they meet at. Each plans the same batches and takes its
share of the sentences of each; the gradients are added up over all of them, so that every worker makes the same update.
"""

import os
from dataclasses import dataclass
from typing import Any

from ms_crf.models.base import StepLearner

import numpy as np


@dataclass(frozen=True)
class Workers:
    """This process among those that train together."""

    rank: int = 0
    count: int = 1

    @property
    def leads(self) -> bool:
        """Whether this is the one that writes, scores and shows."""
        return self.rank == 0

    @property
    def rows(self) -> slice:
        """The rows of a batch that this one takes."""
        return slice(self.rank, None, self.count)

    def rows_of(self, rows: int) -> slice:
        """The rows of a batch of so many that this one takes; where none is left for it the first, which does not
        count: its `share` is 0."""
        return self.rows if self.rank < rows else slice(1)

    def own(self, array: np.ndarray) -> np.ndarray:
        """What this one takes of an array (length, rows, ...)."""
        return np.ascontiguousarray(array[:, self.rows_of(array.shape[1])])

    def share(self, sentences: int) -> float:
        """Of so many sentences in a batch the part that this one takes."""
        return len(range(sentences)[self.rows]) / sentences


ALONE = Workers()


def is_scheduler() -> bool:
    """Whether this process only lets the others meet."""
    return os.environ.get('MS_ROLE') == 'MS_SCHED'


def share_of_batch(learner: StepLearner, shape: Any, indices: np.ndarray, workers: Workers) -> tuple[np.ndarray, ...]:
    """The arrays of a step, of the sentences that a worker takes of a batch.

    Args:
        learner: makes batches; if its network has a `row_table`, `share` makes them, so that all workers name the same
            rows of it.
        shape, indices: of the whole batch.
        workers: those that train.
    """
    if workers == ALONE:
        return tuple(learner.batch(shape, indices))
    if hasattr(learner, 'share'):
        return tuple(learner.share(shape, indices, workers.rows_of(shape.rows)))
    own = indices[workers.rows]
    if not len(own):                             # what it computes in place of nothing does not count, see `share`
        own = indices[:1]
    return tuple(learner.batch(shape._replace(rows=len(range(shape.rows)[workers.rows_of(shape.rows)])), own))
