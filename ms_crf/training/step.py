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


def make_step(network, optimizer, loss_scale=1.0):
    """The compiled function of one step.

    Args:
        network: a `TaggerNetwork`.
        optimizer: an `Optimizer` of it.
        loss_scale: the loss is multiplied with it before its gradients are taken; for 16-bit floats.

    Returns:
        step(now, *batch, *keep) to (loss, norm of the gradients). `batch` is what `TaggerNetwork` takes,
        word ids in place of rows, and the rest what `Optimizer` and `TaggerNetwork.emissions` take.
        `keep` comes last and apart, for MindSpore compiles anew for each tuple that it is given.
    """
    network.set_train()                                          # for what is fast in one graph and not in the other

    def scaled(rows, form_words, long_spellings, short_spellings, places, lengths, tags, keep):
        return network(rows, form_words, long_spellings, short_spellings, places, lengths, tags, keep) * loss_scale

    value_and_grad = ms.value_and_grad(scaled, 0, optimizer.weights)

    @ms.jit
    def step(now, words, form_words, long_spellings, short_spellings, places, lengths, tags, *keep):
        loss, (rows, weights) = value_and_grad(network.rows(words), form_words, long_spellings, short_spellings,
                                               places, lengths, tags, keep)
        if loss_scale != 1.0:
            rows = rows / loss_scale
            weights = [weight / loss_scale for weight in weights]
            loss = loss / loss_scale
        return loss, optimizer(now, words, rows, weights)

    return step


def make_plain_step(network, optimizer, loss_scale=1.0):
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

    def scaled(batch, keep):
        return network(*batch, keep) * loss_scale

    value_and_grad = ms.value_and_grad(scaled, None, optimizer.weights)

    @ms.jit
    def step(now, *arrays):
        loss, weights = value_and_grad(arrays[:-kept], arrays[-kept:])
        if loss_scale != 1.0:
            weights = [weight / loss_scale for weight in weights]
            loss = loss / loss_scale
        return loss, optimizer(now, None, None, weights)

    return step


def make_average(network, average):
    """The compiled function that moves weights towards those of `network`: average(share) as `Average`."""
    cell = Average(network, average)

    @ms.jit
    def follow(share):
        return cell(share)

    return follow
