"""The compiled graphs of training: a step, and the running average of the weights."""

from collections.abc import Callable
from typing import Any

from ms_crf.training.optimizer import Optimizer

import mindspore as ms
from mindspore import nn, ops


class Average(nn.Cell):
    """Moves the weights of one network a little way towards those of another.

    Args:
        network: that is trained.
        average: of the same architecture; its weights follow.
    """

    def __init__(self, network: nn.Cell, average: nn.Cell) -> None:
        super().__init__()
        self.source = ms.ParameterTuple(network.trainable_params())
        self.target = ms.ParameterTuple(average.trainable_params())

    def construct(self, share):
        """Moves them by a share of the way, 0 to 1; returns when all have moved."""
        done = share
        for index in range(len(self.source)):
            target = self.target[index]
            done = ops.depend(done, ops.assign(target, target + (self.source[index] - target) * share))
        return done


def make_step(network: Any, optimizer: Optimizer, loss_scale: bool = False) -> Callable:
    """The compiled function of one step of a network with a word table, of which only the rows of a batch are read.

    Args:
        network: gives the rows of word ids by `rows`, and the loss from rows, `form_words`, two arrays of spellings,
            `places`, lengths, tags and what values are multiplied with.
        optimizer: updates the network.
        loss_scale: whether the loss is multiplied, before its gradients are taken, with a number that comes last in
            `now`; for 16-bit floats. Where loss or gradients are not finite then, the step changes nothing.

    Returns:
        step(now, *batch, *keep) to (loss, norm of the gradients). `now` is the array that the optimizer takes; `batch`
        what the network takes, with word ids in place of rows; `keep` one array for each of the network's `widths`,
        that the values there are multiplied with. It comes last and apart, for MindSpore compiles anew for each tuple
        that it is given.
    """
    network.set_train()                                          # for what is fast in one graph and not in the other
    finish = _finish(optimizer, loss_scale)

    def scaled(rows, form_words, long_spellings, short_spellings, places, lengths, tags, keep, now):
        loss = network(rows, form_words, long_spellings, short_spellings, places, lengths, tags, keep)
        return loss * now[3] if loss_scale else loss

    table_moves = optimizer.word_rate > 0
    value_and_grad = ms.value_and_grad(scaled, 0 if table_moves else None, optimizer.weights)

    @ms.jit
    def step(now, words, form_words, long_spellings, short_spellings, places, lengths, tags, *keep):
        loss, gradients = value_and_grad(network.rows(words), form_words, long_spellings, short_spellings,
                                         places, lengths, tags, keep, now)
        rows, weights = gradients if table_moves else (None, gradients)
        return finish(now, words, loss, rows, weights)

    return step


def make_plain_step(network: Any, optimizer: Optimizer, loss_scale: bool = False) -> Callable:
    """The compiled function of one step of a network without word table.

    Args:
        network: gives the loss from the arrays of a batch and a tuple of what values are multiplied with.
        optimizer: updates the network.
        loss_scale: whether the loss is multiplied, before its gradients are taken, with a number that comes last in
            `now`; where loss or gradients are not finite then, the step changes nothing.

    Returns:
        step(now, *batch, *keep) to (loss, norm of the gradients). `now` is the array that the optimizer takes; `batch`
        what the network takes; `keep` one array for each of the network's `widths`, that the values there are
        multiplied with.
    """
    network.set_train()
    kept = len(network.widths)
    finish = _finish(optimizer, loss_scale)

    def scaled(batch, keep, now):
        loss = network(*batch, keep)
        return loss * now[3] if loss_scale else loss

    value_and_grad = ms.value_and_grad(scaled, None, optimizer.weights)

    @ms.jit
    def step(now, *arrays):
        loss, weights = value_and_grad(arrays[:-kept], arrays[-kept:], now)
        return finish(now, None, loss, None, weights)

    return step


def _finish(optimizer: Optimizer, loss_scale: bool) -> Callable:
    """The end of a step: from the loss and its gradients, of rows and weights, to (loss, norm of the gradients)."""

    def update(now, words, loss, rows, weights):
        return loss, optimizer(now, words, rows, weights)

    def update_if_finite(now, words, loss, rows, weights):
        loss = loss / now[3]
        rows = None if rows is None else rows / now[3]
        weights = [weight / now[3] for weight in weights]
        norm = optimizer.norm_of(rows, weights)
        if ops.logical_and(ops.isfinite(loss), ops.isfinite(norm)):
            norm = ops.depend(norm, optimizer(now, words, rows, weights))
        return loss, norm

    return update_if_finite if loss_scale else update


def make_average(network: nn.Cell, average: nn.Cell) -> Callable:
    """The compiled function that moves the weights of `average` by a share of the way to those of `network`, 0 to 1."""
    cell = Average(network, average)

    @ms.jit
    def follow(share):
        return cell(share)

    return follow
