"""The compiled graphs of training: a step, and the running average of the weights."""

from collections.abc import Callable, Container
from typing import Any

from ms_crf.training.collectives import Sum
from ms_crf.training.optimizer import Optimizer
from ms_crf.training.workers import ALONE, Workers

import mindspore as ms
from mindspore import nn, ops


class Average(nn.Cell):
    """Moves the weights of one network a little towards those of another.

    Args:
        network: the network that is trained.
        average: one of the same architecture, whose weights are moved.
        kept: names of the weights of `network` that never change, so that there is nothing to move.
    """

    def __init__(self, network: nn.Cell, average: nn.Cell, kept: Container[str] = ()) -> None:
        super().__init__()
        pairs = [(source, target) for source, target in zip(network.trainable_params(), average.trainable_params())
                 if source.name not in kept]
        self.source = ms.ParameterTuple([source for source, _ in pairs])
        self.target = ms.ParameterTuple([target for _, target in pairs])

    def construct(self, share):
        """Moves each weight by a share, 0 to 1, of the difference; returns the share, when all have moved."""
        done = share
        for index in range(len(self.source)):
            target = self.target[index]
            done = ops.depend(done, ops.assign(target, target + (self.source[index] - target) * share))
        return done


def make_step(network: Any, optimizer: Optimizer, loss_scale: bool = False, workers: Workers = ALONE) -> Callable:
    """The compiled function of one step.

    Args:
        network: gives the loss from the arrays of a batch and a tuple of what values are multiplied with. If it has a
            `row_table`, the first array of a batch holds ids of rows of that, and the network takes these rows in its
            place: so the gradient is that of these rows alone.
        optimizer: updates the network.
        loss_scale: whether the loss is multiplied, before its gradients are taken, with a number that comes last in
            `now`; for 16-bit floats. Where loss or gradients are not finite then, the step changes nothing.
        workers: those that train together. If there are others, two numbers stand behind all others in `now`: this
            one's share of the sentences, and whether it has been asked to stop.

    Returns:
        step(now, *batch, *keep) to (loss, norm of the gradients), with others also how many of them have been asked to
        stop. `now` is the array that the optimizer takes; `batch`
        the arrays of a batch; `keep` one array for each of the network's `widths`, that the values there are multiplied
        with.
    """
    network.set_train()                                          # for what is fast in one graph and not in the other
    finish = _finish(optimizer, loss_scale)
    by_rows, rows_move, kept = optimizer.table is not None, optimizer.row_rate > 0, len(network.widths)
    together = workers.count > 1
    add_up: Any = Sum() if together else None         # which may need that processes have met

    def scaled(rows, batch, keep, now):
        loss = network(rows, *batch, keep) if by_rows else network(*batch, keep)
        if together:
            loss = loss * now[-2]
        return loss * now[3] if loss_scale else loss

    value_and_grad = ms.value_and_grad(scaled, 0 if rows_move else None, optimizer.weights)

    @ms.jit
    def step(now, *arrays):
        ids, rows, row_gradients = None, None, None
        if by_rows:
            ids, arrays = arrays[0], arrays[1:]
            rows = optimizer.rows(ids)
        loss, gradients = value_and_grad(rows, arrays[:-kept], arrays[-kept:], now)
        if rows_move:
            row_gradients, gradients = gradients
        if not together:
            return finish(now, ids, rows, loss, row_gradients, gradients)
        of_rows = (row_gradients,) if rows_move else ()
        sums = add_up((loss, now[-1], *of_rows, *gradients))
        loss, stops, gradients = sums[0], sums[1], sums[2:]
        if rows_move:
            row_gradients, gradients = gradients[0], gradients[1:]
        return *finish(now, ids, rows, loss, row_gradients, gradients), stops

    return step


def _finish(optimizer: Optimizer, loss_scale: bool) -> Callable:
    """The end of a step: updates the network by the gradients, and returns the loss and the norm of the gradients."""

    def update(now, ids, rows, loss, by_rows, by_weights):
        return loss, optimizer(now, ids, rows, by_rows, by_weights)

    def update_if_finite(now, ids, rows, loss, by_rows, by_weights):
        loss = loss / now[3]
        by_rows = None if by_rows is None else by_rows / now[3]
        by_weights = [gradient / now[3] for gradient in by_weights]
        norm = optimizer.norm_of(by_rows, by_weights)
        if ops.logical_and(ops.isfinite(loss), ops.isfinite(norm)):
            norm = ops.depend(norm, optimizer(now, ids, rows, by_rows, by_weights))
        return loss, norm

    return update_if_finite if loss_scale else update


def make_average(network: nn.Cell, average: nn.Cell, kept: Container[str] = ()) -> Callable:
    """The compiled function that moves the weights of `average` by a share, 0 to 1, towards those of `network`; but
    for those of `network` whose names are kept.
    """
    cell = Average(network, average, kept)

    @ms.jit
    def follow(share):
        return cell(share)

    return follow
