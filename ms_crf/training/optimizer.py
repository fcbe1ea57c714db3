"""Adam, AdamW and SGD with momentum over MindSpore's fused kernels, as one cell for the compiled step.

Of a network's `row_table` only the rows of the batch are read and written: in a table of tens of thousands of words
the rest of the step costs less than touching them all would.
"""

from collections.abc import Container
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
