"""The compiled graphs of training: the step with its optimizer, and the average of the weights.

A network can have a `row_table`, for example a table of word vectors. A step reads and updates only the rows of the
words in its batch, because updating tens of thousands of rows would take longer than the rest of the step.
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
        network: network with a `head`. An optional `row_table` is updated row by row. The weights of an optional
            method `pretrained_params()` use the learning rate factor `encoder_rate`.
        kind: 'adam', 'adamw' or 'sgd'.
        momentum: momentum of SGD.
        weight_decay: weight decay of matrices and rows: AdamW decays the weights, SGD adds it to the gradients.
        clip: gradient clipping: the largest norm of all gradients together; 0 for no limit.
        crf_rate: learning rate factor of the weights of the head.
        row_rate: learning rate factor of the row table; 0 freezes the table, which then needs no gradients.
        encoder_rate: learning rate factor of the pretrained weights.
        frozen: names of weights that are not trained; they have no gradients and do not count in the norm.
    """

    def __init__(self, network: Any, kind: str = 'adam', momentum: float = 0.9, weight_decay: float = 0.0,
                 clip: float = 5.0, crf_rate: float = 1.0, row_rate: float = 1.0, encoder_rate: float = 1.0,
                 frozen: Container[str] = ()) -> None:
        super().__init__()
        self.kind, self.clip, self.momentum, self.weight_decay = kind, clip, momentum, weight_decay
        self.table = getattr(network, 'row_table', None)
        weights = [parameter for parameter in network.trainable_params()
                   if parameter is not self.table and parameter.name not in frozen]
        pretrained = {parameter.name for parameter in network.pretrained_params()} if hasattr(
            network, 'pretrained_params') else set()
        head = {parameter.name for parameter in network.head.trainable_params()}
        self.rates = [crf_rate if parameter.name in head else encoder_rate if parameter.name in pretrained else 1.0
                      for parameter in weights]
        self.decays = [weight_decay if parameter.ndim > 1 and parameter.name not in head else 0.0
                       for parameter in weights]
        rows_move = self.table is not None and self.table.name not in frozen
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
        self.half_of_squares = ops.L2Loss()      # on CPU five times as fast as a product and a sum

    def state(self) -> list:
        """Returns the Parameters of the optimizer that must be saved for resuming."""
        return [*self.first, *([] if self.kind == 'sgd' else self.second), *self.row_state]

    def rows(self, ids):
        """Returns the rows of the row table with these ids, (rows, width)."""
        return ops.gather(self.table, ids, 0)

    def construct(self, now, ids, rows, row_gradients, gradients):
        """Updates the weights once.

        Args:
            now: (3,): the learning rate, and BETA1 and BETA2 to the power of the number of steps.
            ids: (rows,): ids of table rows, distinct except for padding, with gradients of 0; None without a table.
            rows: (rows, width): the current rows of the table; None without a table.
            row_gradients: (rows, width): the gradients of `rows`; None without a table, or if the table is frozen.
            gradients: the gradients of `weights`, in the same order.

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
            # Each assignment waits for all gradients, because gradients are computed from the old weights.
            gradient = ops.depend(gradients[index] * scale, norm)
            done = ops.depend(done, self._update(index, rate * self.rates[index], power1, power2, gradient))
        if self.row_rate > 0:
            self._update_rows(rate * self.row_rate, power1, power2, ids, rows, row_gradients * scale)
        return done

    def norm_of(self, row_gradients, gradients):
        """Returns the Euclidean norm of all gradients together; `row_gradients` may be None."""
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
        """Updates the rows with these ids.

        Do not read the table again here, and do not return a value: in both cases MindSpore copies the whole table.
        """
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
    """Sums tensors over all workers, in one message for all tensors."""

    def __init__(self):
        super().__init__()
        self.reduce = ops.AllReduce()

    def construct(self, tensors):
        """Returns the sums of a list of float32 tensors, in the same shapes."""
        flat = self.reduce(ops.concat([ops.reshape(tensor, (-1,)) for tensor in tensors]))
        sums, begin = [], 0
        for tensor in tensors:
            size = math.prod(tensor.shape)
            sums.append(ops.reshape(_slice(flat, (begin,), (size,)), tensor.shape))
            begin += size
        return sums


class Average(nn.Cell):
    """Updates the averaged weights: moves the weights of `average` towards the weights of `network`.

    Args:
        network: the network that is trained.
        average: network of the same architecture, with the averaged weights.
        frozen: names of the weights of `network` that are not trained, so that their averages need no update.
    """

    def __init__(self, network: nn.Cell, average: nn.Cell, frozen: Container[str] = ()) -> None:
        super().__init__()
        pairs = [(source, target) for source, target in zip(network.trainable_params(), average.trainable_params())
                 if source.name not in frozen]
        self.source = ms.ParameterTuple([source for source, _ in pairs])
        self.target = ms.ParameterTuple([target for _, target in pairs])

    def construct(self, share):
        """Moves each averaged weight by `share`, 0 to 1, of the difference; returns `share` after the last update."""
        done = share
        for index in range(len(self.source)):
            target = self.target[index]
            done = ops.depend(done, ops.assign(target, target + (self.source[index] - target) * share))
        return done


def make_step(network: Any, optimizer: Optimizer, loss_scale: bool = False, together: bool = False) -> Callable:
    """Returns the compiled function of one training step.

    Args:
        network: computes the loss from the arrays of a batch and the dropout masks. With a `row_table` the first array
            of a batch has ids of table rows, and the network receives the rows themselves in place of the ids. So
            gradients are computed for these rows only.
        optimizer: updates the network.
        loss_scale: whether to use loss scaling, for 16-bit floats. `now` then has the scale as its fourth number. If
            the loss or a gradient is not finite, the step changes nothing.
        together: whether several workers train together. `now` then ends with two more numbers: the worker's share of
            the sentences, and 1 if the worker has received a stop request.

    Returns:
        `step(now, *batch, *keep)`, which returns the loss and the norm of the gradients, and with several workers also
        the number of stop requests. `now` is the array of `Optimizer.construct`, `batch` has the arrays of a batch, and
        `keep` has one dropout mask for each of the network's `widths`.
    """
    network.set_train()                                          # networks can choose other operators for training
    finish = _finish(optimizer, loss_scale)
    by_rows, rows_move, masks = optimizer.table is not None, optimizer.row_rate > 0, len(network.widths)
    add_up: Any = Sum() if together else None         # created after the workers have joined

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
        loss, gradients = value_and_grad(rows, arrays[:-masks], arrays[-masks:], now)
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
    """Returns the function for the end of a step: it updates the weights and returns loss and norm of the gradients."""

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


def make_average(network: nn.Cell, average: nn.Cell, frozen: Container[str] = ()) -> Callable:
    """Returns the compiled function `follow(share)`, which updates the averaged weights; see `Average`."""
    cell = Average(network, average, frozen)

    @ms.jit
    def follow(share):
        return cell(share)

    return follow
