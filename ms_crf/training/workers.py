"""Data-parallel training: the workers of a training, and the rows of a batch that each worker takes.

MindSpore's `msrun` starts the workers and a scheduler that connects them. All workers plan the same batches, and each
takes its share of the sentences of a batch. Gradients are summed over all workers, so all make the same update.
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
    """The rank of this process, and the number of workers that train together."""

    rank: int = 0
    count: int = 1

    @property
    def leads(self) -> bool:
        """Whether this worker is the first one, which saves, scores and reports."""
        return self.rank == 0

    @property
    def rows(self) -> slice:
        """The rows of a batch that this worker takes."""
        return slice(self.rank, None, self.count)

    def rows_of(self, rows: int) -> slice:
        """Returns this worker's rows of a batch with `rows` rows.

        A worker without rows gets the first row, which does not count because the `share` of the worker is 0.
        """
        return self.rows if self.rank < rows else slice(1)

    def rows_of_array(self, array: np.ndarray) -> np.ndarray:
        """Returns this worker's rows of an array (length, rows, ...)."""
        return np.ascontiguousarray(array[:, self.rows_of(array.shape[1])])

    def share(self, sentences: int) -> float:
        """Returns this worker's share, 0 to 1, of a batch with `sentences` sentences."""
        return len(range(sentences)[self.rows]) / sentences


ALONE = Workers()


def is_scheduler() -> bool:
    """Returns whether this process is the scheduler, which connects the workers and does not train."""
    return os.environ.get('MS_ROLE') == 'MS_SCHED'


def share_of_batch(learner: StepLearner, batch: tuple[Any, ...], workers: Workers) -> tuple[np.ndarray, ...]:
    """Returns the arrays of a step for this worker's sentences of a batch.

    Args:
        learner: creates batches. If its network has a `row_table`, its method `share` creates the arrays, so that all
            workers use the same rows of the table.
        batch: the whole batch as `plan` returned it: shape, indices, and further arguments of `learner.batch`.
        workers: the position of this process among the workers.
    """
    if workers == ALONE:
        return tuple(learner.batch(*batch))
    shape, indices, *others = batch
    if hasattr(learner, 'share'):
        return tuple(learner.share(workers.rows_of(shape.rows), *batch))
    own = indices[workers.rows]
    if not len(own):                             # the result of this row does not count, see `Workers.share`
        own = indices[:1]
    return tuple(learner.batch(shape._replace(rows=len(range(shape.rows)[workers.rows_of(shape.rows)])), own,
                               *others))


@functools.cache
def join() -> Workers:
    """Connects this process with all workers, and returns its rank; in the scheduler it returns when all have ended."""
    from mindspore import communication
    communication.init()
    if is_scheduler():
        return ALONE
    return Workers(communication.get_rank(), communication.get_group_size())


def broadcast(workers: Workers, number: float = 0.0) -> float:
    """Returns the number of the first worker in all workers, after all workers have called this function."""
    return _sum_of_workers(workers, number if workers.leads else 0.0)


def _sum_of_workers(workers: Workers, number: float) -> float:
    """Returns the sum of the numbers of all workers, in all workers."""
    if workers == ALONE:
        return number
    import mindspore as ms
    return float(compiled_sum()(ms.Tensor([float(number)], ms.float32)).asnumpy()[0])


def check_workers_agree(workers: Workers, learner: Learner) -> None:
    """Raises OptionError in all workers unless all have the same vocabulary and a loss that can be summed.

    Waits until all workers have called this function.
    """
    if workers == ALONE:
        return
    check_mean(cast(StepLearner, learner).network().head)
    record = json.dumps([learner.record(), learner.vocabulary.to_json()], sort_keys=True)
    checksum = zlib.crc32(record.encode()) >> 8                  # 24 bits, which fit into a float32
    differs = broadcast(workers, checksum) != checksum
    if _sum_of_workers(workers, differs):
        raise OptionError('the workers have read different files, or built different vocabularies from the same files; '
                          'a vocabulary must not depend on the order of a set')


def check_mean(head: Any) -> None:
    """Raises OptionError unless the loss of a head is the mean over sentences, which can be summed over workers."""
    reduction = getattr(head, 'reduction', 'mean')
    if reduction != 'mean':
        raise OptionError("several workers need a head with reduction='mean', the mean loss of the sentences, "
                          f'got reduction={reduction!r}')


@functools.cache
def compiled_sum() -> Callable:
    """Returns the compiled function that sums a tensor over all workers."""
    import mindspore as ms
    reduce = ms.ops.AllReduce()

    @ms.jit
    def added_up(tensor: Any) -> Any:
        return reduce(tensor)
    return added_up
