"""The compiled graphs of training: a step, and the running average of the weights."""

import mindspore as ms
from mindspore import nn, ops


class Average(nn.Cell):
    """Moves the weights of one network a little way towards those of another.

    Args:
        network: that is trained.
        average: of the same architecture; its weights follow.
    """

    def __init__(self, network, average):
        super().__init__()
        self.source = ms.ParameterTuple(network.trainable_params())
        self.target = ms.ParameterTuple(average.trainable_params())

    def construct(self, share):
        """share: how much of the way, 0 to 1."""
        done = share
        for index in range(len(self.source)):
            target = self.target[index]
            done = ops.depend(done, ops.assign(target, target + (self.source[index] - target) * share))
        return done


def make_step(network, optimizer, loss_scale=False):
    """The compiled function of one step.

    Args:
        network: a `TaggerNetwork`.
        optimizer: an `Optimizer` of it.
        loss_scale: whether the loss is multiplied, before its gradients are taken, with a number that comes last in
            `now`; for 16-bit floats. Where loss or gradients are not finite then, the step changes nothing.

    Returns:
        step(now, *batch, *keep) to (loss, norm of the gradients). `batch` is what `TaggerNetwork` takes,
        word ids in place of rows, and the rest what `Optimizer` and `TaggerNetwork.emissions` take.
        `keep` comes last and apart, for MindSpore compiles anew for each tuple that it is given.
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
        loss, found = value_and_grad(network.rows(words), form_words, long_spellings, short_spellings,
                                     places, lengths, tags, keep, now)
        rows, weights = found if table_moves else (None, found)
        return finish(now, words, loss, rows, weights)

    return step


def make_plain_step(network, optimizer, loss_scale=False):
    """The compiled function of one step of a network without word table.

    Args:
        network: a `PieceTagger` or an `EncodedTagger`.
        optimizer: an `Optimizer` of it.
        loss_scale: as in `make_step`.

    Returns:
        step(now, *batch, *keep) as of `make_step`; `batch` is what the network takes.
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


def _finish(optimizer, loss_scale):
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


def make_average(network, average):
    """The compiled function that moves weights towards those of `network`: average(share) as `Average`."""
    cell = Average(network, average)

    @ms.jit
    def follow(share):
        return cell(share)

    return follow
