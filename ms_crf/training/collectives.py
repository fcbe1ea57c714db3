"""What the workers of a training compute together: where they meet, the sums over all of them, their checks."""

import functools
import json
import math
import zlib
from typing import Any

from ms_crf.base.errors import OptionError
from ms_crf.models.base import StepLearner
from ms_crf.training.workers import ALONE, Workers, is_scheduler

import mindspore as ms
from mindspore import nn, ops

_slice = ops.Slice()


@functools.cache
def meet() -> Workers:
    """Waits for the others when it is first called; the scheduler's call returns when they are done."""
    from mindspore import communication
    communication.init()
    if is_scheduler():
        return ALONE
    return Workers(communication.get_rank(), communication.get_group_size())


class Sum(nn.Cell):
    """Adds up tensors over all workers: as one flat tensor, sent at once."""

    def __init__(self):
        super().__init__()
        self.reduce = ops.AllReduce()

    def construct(self, tensors):
        """The sums of float32 tensors, in their shapes."""
        flat = self.reduce(ops.concat([ops.reshape(tensor, (-1,)) for tensor in tensors]))
        sums, begin = [], 0
        for tensor in tensors:
            size = math.prod(tensor.shape)
            sums.append(ops.reshape(_slice(flat, (begin,), (size,)), tensor.shape))
            begin += size
        return sums


def tell(workers: Workers, number: float = 0.0) -> float:
    """A number of the worker that leads, for all of them; none goes on before all have come here."""
    return _added_up(workers, number if workers.leads else 0.0)


def _added_up(workers: Workers, number: float) -> float:
    """The sum of the numbers of all workers."""
    if workers == ALONE:
        return number
    [added] = _compiled_sum()(ms.Tensor([float(number)], ms.float32))
    return float(added.asnumpy()[0])


def check_together(workers: Workers, learner: StepLearner) -> None:
    """Raises OptionError in all workers unless they can train together what each `StepLearner` has made of the files.

    None goes on before all have come here.
    """
    if workers == ALONE:
        return
    check_mean(learner.network().head)
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
def _compiled_sum() -> Any:
    add_up = Sum()

    @ms.jit
    def added_up(tensor):
        return add_up((tensor,))
    return added_up
