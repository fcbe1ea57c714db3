"""Several processes that train one model together: who they are, and what each takes of a batch.

MindSpore's `msrun` starts them, together with a scheduler that they meet at. Each plans the same batches and takes its
share of the sentences of each; the gradients are added up over all of them, so that every worker makes the same update.
"""

import functools
import json
import os
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from ms_crf.base.errors import OptionError
from ms_crf.models.base import Learner, StepLearner

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


def share_of_batch(learner: StepLearner, batch: tuple[Any, ...], workers: Workers) -> tuple[np.ndarray, ...]:
    """The arrays of a step, of the sentences that a worker takes of a batch.

    Args:
        learner: makes batches; if its network has a `row_table`, `share` makes them, so that all workers name the same
            rows of it.
        batch: the whole batch, as `plan` returned it: shape, indices, and whatever else makes it.
        workers: those that train.
    """
    if workers == ALONE:
        return tuple(learner.batch(*batch))
    shape, indices, *others = batch
    if hasattr(learner, 'share'):
        return tuple(learner.share(workers.rows_of(shape.rows), *batch))
    own = indices[workers.rows]
    if not len(own):                             # what it computes in place of nothing does not count, see `share`
        own = indices[:1]
    return tuple(learner.batch(shape._replace(rows=len(range(shape.rows)[workers.rows_of(shape.rows)])), own,
                               *others))


@functools.cache
def meet() -> Workers:
    """Waits for the others when it is first called; the scheduler's call returns when they are done."""
    from mindspore import communication
    communication.init()
    if is_scheduler():
        return ALONE
    return Workers(communication.get_rank(), communication.get_group_size())


def tell(workers: Workers, number: float = 0.0) -> float:
    """A number of the worker that leads, for all of them; none goes on before all have come here."""
    return _added_up(workers, number if workers.leads else 0.0)


def _added_up(workers: Workers, number: float) -> float:
    """The sum of the numbers of all workers."""
    if workers == ALONE:
        return number
    import mindspore as ms
    return float(compiled_sum()(ms.Tensor([float(number)], ms.float32)).asnumpy()[0])


def check_together(workers: Workers, learner: Learner) -> None:
    """Raises OptionError in all workers unless they can train together what each `StepLearner` has made of the files.

    None goes on before all have come here.
    """
    if workers == ALONE:
        return
    check_mean(cast(StepLearner, learner).network().head)
    made = json.dumps([learner.record(), learner.vocabulary.to_json()], sort_keys=True)
    mark = zlib.crc32(made.encode()) >> 8                        # 24 bits, which a float32 holds
    differs = tell(workers, mark) != mark
    if _added_up(workers, differs):
        raise OptionError('the workers have made different vocabularies of the files, or read different '
                          'files; what a model knows must not depend on the order of a set')


def check_mean(head: Any) -> None:
    """Raises OptionError if a head's loss is no mean of the sentences, which those of the workers would add up to."""
    reduction = getattr(head, 'reduction', 'mean')
    if reduction != 'mean':
        raise OptionError("several workers need a loss that is the mean of the sentences, reduction='mean' of the "
                          f'head, got reduction={reduction!r}')


@functools.cache
def compiled_sum() -> Callable:
    """The compiled function that adds up a tensor over all workers."""
    import mindspore as ms
    reduce = ms.ops.AllReduce()

    @ms.jit
    def added_up(tensor: Any) -> Any:
        return reduce(tensor)
    return added_up
