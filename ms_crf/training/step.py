"""The compiled graphs of training: a step with its optimizer, and the running average of the weights.

Of a network's `row_table` only the rows of the batch are read and written: in a table of tens of thousands of words
the rest of the step costs less than touching them all would.
"""

import math
from collections.abc import Callable, Container
from typing import Any

import mindspore as ms
from mindspore import Parameter, nn, ops

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8


def _zeros_like(parameter: Any, prefix: str) -> Any:
    return Parameter(ops.zeros(parameter.shape, ms.float32), name=f'{prefix}.{parameter.name}', requires_grad=False)


class Optimizer(nn.Cell):
    """Updates the weights of a network.

    Args:
        network: the network, with a `head`; its `row_table`, if it has one, is updated row by row, and the weights that
            `pretrained_params()` returns, if it has that method, learn at a rate of their own.
        kind: 'adam', 'adamw' or 'sgd'.
        momentum: the momentum of SGD.
        weight_decay: AdamW subtracts it from the weights, SGD adds it to the gradients; of matrices and rows only.
        clip: the norm to which all gradients together are scaled down; 0 for no limit.
        crf_rate: multiplies the learning rate of the head's own weights.
        row_rate: multiplies the learning rate of the row table; 0 leaves it as it is, and it needs no gradient.
        encoder_rate: multiplies the learning rate of the pretrained weights.
        kept: names of weights that stay as they are; they need no gradient, and have none in the norm.
    """

    def __init__(self, network: Any, kind: str = 'adam', momentum: float = 0.9, weight_decay: float = 0.0,
                 clip: float = 5.0, crf_rate: float = 1.0, row_rate: float = 1.0, encoder_rate: float = 1.0,
                 kept: Container[str] = ()) -> None:
        super().__init__()
        self.kind, self.clip, self.momentum, self.weight_decay = kind, clip, momentum, weight_decay
        self.table = getattr(network, 'row_table', None)
        weights = [parameter for parameter in network.trainable_params()
                   if parameter is not self.table and parameter.name not in kept]
        pretrained = {parameter.name for parameter in network.pretrained_params()} if hasattr(
            network, 'pretrained_params') else set()
        head = {parameter.name for parameter in network.head.trainable_params()}
        self.rates = [crf_rate if parameter.name in head else encoder_rate if parameter.name in pretrained else 1.0
                      for parameter in weights]
        self.decays = [weight_decay if parameter.ndim > 1 and parameter.name not in head else 0.0
                       for parameter in weights]
        rows_move = self.table is not None and self.table.name not in kept
        self.row_rate = row_rate if rows_move else 0
        self.weights = ms.ParameterTuple(weights)
        self.first = ms.ParameterTuple([_zeros_like(weight, 'first') for weight in weights])
        self.row_state: list = []
        if rows_move:
            self.first_rows = _zeros_like(self.table, 'first')
            self.row_state.append(self.first_rows)
        if kind != 'sgd':
            self.second = ms.ParameterTuple([_zeros_like(weight, 'second') for weight in weights])
            if rows_move:
                self.second_rows = _zeros_like(self.table, 'second')
                self.row_state.append(self.second_rows)
        self.adam = ops.Adam()
        self.apply_momentum = ops.ApplyMomentum()
        self.half_of_squares = ops.L2Loss()      # on CPU in a fifth of the time of a product and its sum

    def state(self) -> list:
        """All Parameters that have to be saved for resuming, besides those of the network."""
        return [*self.first, *([] if self.kind == 'sgd' else self.second), *self.row_state]

    def rows(self, ids):
        """The rows of the table that these ids stand for."""
        return ops.gather(self.table, ids, 0)

    def construct(self, now, ids, rows, row_gradients, gradients):
        """One update.

        Args:
            now: (3,), the learning rate, BETA1 and BETA2 to the power of the number of steps.
            ids: (rows,) of rows of the table, distinct except for padding, whose gradients are 0; None without a table.
            rows: (rows, width), the rows of the table as they are; None without a table.
            row_gradients: (rows, width); None without a table, or with one that stays as it is.
            gradients: the gradients of `weights`, in their order.

        Returns:
            The norm of all gradients before clipping.
        """
        norm = self.norm_of(row_gradients, gradients)
        if self.clip > 0:
            scale = self.clip / ops.maximum(norm, self.clip)
        else:
            scale = ops.ones_like(norm)
        rate, power1, power2 = now[0], now[1], now[2]
        done = norm
        for index in range(len(gradients)):
            # Whatever is assigned waits for all gradients: what they are computed of must not change before.
            gradient = ops.depend(gradients[index] * scale, norm)
            done = ops.depend(done, self._update(index, rate * self.rates[index], power1, power2, gradient))
        if self.row_rate > 0:
            self._update_rows(rate * self.row_rate, power1, power2, ids, rows, row_gradients * scale)
        return done

    def norm_of(self, row_gradients, gradients):
        """The Euclidean norm of all gradients together, of the rows (or None) and of `weights`."""
        half = ops.zeros((), ms.float32) if row_gradients is None else self.half_of_squares(row_gradients)
        for gradient in gradients:
            half = half + self.half_of_squares(gradient)
        return ops.sqrt(2 * half)

    def _update(self, index, rate, power1, power2, gradient):
        weight, decay = self.weights[index], self.decays[index]
        if self.kind == 'sgd':
            if decay > 0:
                gradient = gradient + decay * weight
            return self.apply_momentum(weight, self.first[index], rate, gradient, self.momentum)
        if self.kind == 'adamw' and decay > 0:
            kept = ops.depend(1 - rate * decay, gradient)
            weight = ops.depend(weight, ops.assign(weight, weight * kept))
        return self.adam(weight, self.first[index], self.second[index], power1, power2, rate, BETA1, BETA2, EPSILON,
                         gradient)

    def _update_rows(self, rate, power1, power2, ids, rows, gradients):
        """Reads the table no second time and returns nothing: for either, MindSpore would copy the whole table."""
        first = ops.gather(self.first_rows, ids, 0)
        if self.kind == 'sgd':
            if self.weight_decay > 0:
                gradients = gradients + self.weight_decay * rows
            first = self.momentum * first + gradients
            rows = rows - rate * first
            ops.scatter_update(self.first_rows, ids, first)
            ops.scatter_update(self.table, ids, rows)
            return
        second = ops.gather(self.second_rows, ids, 0)
        first = BETA1 * first + (1 - BETA1) * gradients
        second = BETA2 * second + (1 - BETA2) * gradients * gradients
        if self.kind == 'adamw' and self.weight_decay > 0:
            rows = rows * (1 - rate * self.weight_decay)
        rate = rate * ops.sqrt(1 - power2) / (1 - power1)
        rows = rows - rate * first / (ops.sqrt(second) + EPSILON)
        ops.scatter_update(self.first_rows, ids, first)
        ops.scatter_update(self.second_rows, ids, second)
        ops.scatter_update(self.table, ids, rows)


_slice = ops.Slice()


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


def make_step(network: Any, optimizer: Optimizer, loss_scale: bool = False, together: bool = False) -> Callable:
    """The compiled function of one step.

    Args:
        network: gives the loss from the arrays of a batch and a tuple of what values are multiplied with. If it has a
            `row_table`, the first array of a batch holds ids of rows of that, and the network takes these rows in its
            place: so the gradient is that of these rows alone.
        optimizer: updates the network.
        loss_scale: whether the loss is multiplied, before its gradients are taken, with a number that comes last in
            `now`; for 16-bit floats. Where loss or gradients are not finite then, the step changes nothing.
        together: whether several workers train together. Then two more numbers follow in `now`: this worker's share of
            the sentences, and whether it has been asked to stop.

    Returns:
        step(now, *batch, *keep) to (loss, norm of the gradients), with others also how many of them have been asked to
        stop. `now` is the array that the optimizer takes; `batch`
        the arrays of a batch; `keep` one array for each of the network's `widths`, that the values there are multiplied
        with.
    """
    network.set_train()                                          # for what is fast in one graph and not in the other
    finish = _finish(optimizer, loss_scale)
    by_rows, rows_move, kept = optimizer.table is not None, optimizer.row_rate > 0, len(network.widths)
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
