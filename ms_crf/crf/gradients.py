"""Log partition function and loss as a cell that computes its gradient with its value, and second derivatives.

Value and gradient leave the cell as one tensor, see `inference.pack`. MindSpore 2.10 cannot always compile a cell that
has its own `bprop` and returns several tensors, or whose `bprop` calls Python functions ("The func graph is empty").

Each `bprop` differentiates functions of plain operators instead of recursions. These functions compute posteriors in
the log domain, which has finite derivatives for all scores. They have no conditions on values: MindSpore 2.10 cannot
run the gradient of a condition together with other operators ("Invalid formal parameter").

Shapes: L length, B batch, K tags. The cells for C++ operators (`FlatCell`) take the chain in the form of the operators,
the other cells in the form of `inference.posteriors`.
"""

import sys
from types import FunctionType, ModuleType

from ms_crf.crf import log_domain, tensors
from ms_crf.crf.inference import losses, pack, posteriors, posteriors_of_path
from ms_crf.crf.inputs import in_range, prepare
from ms_crf.crf.mindspore_fixes import InFloat32
from ms_crf.crf.potentials import Masks, constrained
from ms_crf.crf.tensors import LEAST, clear_padding, largest_of, turned, zeros_like
from ms_crf.crf.validation import differ

import mindspore as ms
from mindspore import Tensor, nn, ops

IS_COPY = False                                                # True in the copy of this module
_copies: dict[str, ModuleType] = {}                            # by the name of the original module
_ONE, _ZERO = Tensor(1.0, ms.float32), Tensor(0.0, ms.float32)
_mark, _slice, _multiply, _reshape, _sum = ops.OneHot(), ops.Slice(), ops.Mul(), ops.Reshape(), ops.ReduceSum()
# In the module, because a cell with these operators cannot be copied. The second operator takes the gradient of the
# result as its last input.
_differentiate, differentiate = ops.GradOperation(get_all=True), ops.GradOperation(get_all=True, sens_param=True)


def copied(module: ModuleType) -> ModuleType:
    """Returns a copy of a module of this package and of the modules that it uses, with separate functions.

    MindSpore 2.10 compiles `bprop` late. By then it has emptied the functions with an `if` of constants that it
    compiled before ("The func graph is empty"), so `bprop` needs separate functions. MindSpore looks up the names in a
    function in the module that `function.__module__` names.
    """
    if module.__name__ not in _copies:
        copy = _copies[module.__name__] = ModuleType(f'{module.__name__}_copied')
        sys.modules[copy.__name__] = copy
        for name, value in vars(module).items():
            if name.startswith('__') and name != '__builtins__':
                continue
            if isinstance(value, ModuleType) and value.__name__.startswith('ms_crf.'):
                value = copied(value)
            elif isinstance(value, FunctionType) and value.__module__ == module.__name__:
                value = FunctionType(value.__code__, vars(copy), value.__name__, value.__defaults__)
                value.__module__ = copy.__name__
            elif isinstance(value, FunctionType) and value.__module__.startswith('ms_crf.'):
                value = getattr(copied(sys.modules[value.__module__]), value.__name__)
            setattr(copy, name, True if name == 'IS_COPY' else value)
    return _copies[module.__name__]


def _check(holds: bool, assumption: str) -> None:
    """Raises RuntimeError, with the assumption about MindSpore, unless it holds."""
    if not holds:
        raise RuntimeError(f'second derivatives of the chain need a MindSpore that {assumption}; MindSpore '
                           f'{ms.__version__} does not. Losses, first derivatives and decoding do not need this')


@ops.constexpr(check=False)
def check_is_copy(is_copy: bool) -> None:
    """Raises RuntimeError if a copied function uses objects of the original module."""
    _check(is_copy, 'looks up names in a function in the module that function.__module__ names')


@ops.constexpr(check=False)
def check_gradients(gradients: tuple, inputs: tuple) -> None:
    """Raises RuntimeError unless the first gradients have the shapes of the inputs in the same order."""
    _check(len(gradients) >= len(inputs) and not any(map(differ, gradients, inputs)),
           'gives the gradients by all inputs in the order of the inputs, from GradOperation(get_all=True)')


def gradient_product(factors: Tensor, emissions: Tensor, tags: Tensor | None, lengths: Tensor, transitions: Tensor,
                     start: Tensor, end: Tensor) -> Tensor:
    """Sum of the packed gradients times factors, a scalar. The packed values are ignored.

    The derivative of this sum is the second derivative of log partition function or loss, applied to the factors.
    Counts of known tags do not depend on the scores and are left out.

    Args:
        factors: (2 + L + K, B, K), in the layout of `inference.pack`.
        emissions, lengths, transitions, start, end: as in `inference.posteriors`.
        tags: (L, B) int32, negative where unknown; None for the log partition function.
    """
    check_is_copy(IS_COPY)
    emissions = emissions - largest_of(emissions)
    value, marginals, pairs, _ = log_domain.forward_backward(emissions, lengths, transitions, start, end)
    nothing = ops.stop_gradient(zeros_like(value))
    total = (pack(nothing, marginals, pairs, lengths) * factors).sum()
    if tags is not None:
        length, _, num_tags = emissions.shape
        live = tensors.real(lengths, length).astype(ms.float32)                # (L, B)
        unknown = live * (tags < 0).astype(ms.float32)
        if largest_of(unknown.reshape(-1)) > 0.0:
            # Subtract the sum over the paths through the known tags, as `inference.losses` does.
            free = ops.maximum(unknown.expand_dims(-1), _mark(tags, num_tags, _ONE, _ZERO))  # (L, B, K)
            restricted = tensors.restricted(emissions, free > 0.0, lengths)
            _, marginals, pairs, _ = log_domain.forward_backward(restricted, lengths, transitions, start, end)
            total = total - (pack(nothing, marginals, pairs, lengths) * factors).sum()
    return total


def graph_chain(emissions: Tensor, lengths: Tensor, transitions: Tensor, start: Tensor, end: Tensor, masks: Masks,
                batch_first: bool) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Emissions (L, B, K), 0 on padding, lengths, transitions, start and end, in the form of the recursions of graphs.

    The arguments are inputs of a C++ operator, the constraints as `potentials.masks_of` returns them, and the layout.
    """
    check_is_copy(IS_COPY)
    emissions, lengths, _ = prepare(emissions, lengths, start.shape[0], batch_first)
    return clear_padding(emissions, lengths), lengths, *constrained(transitions, start, end, masks)


def flat_gradient_product(factors: Tensor, emissions: Tensor, tags: Tensor | None, lengths: Tensor, transitions: Tensor,
                          start: Tensor, end: Tensor, masks: Masks, batch_first: bool) -> Tensor:
    """Sum of the gradients in the flat result of a C++ operator times factors, a scalar.

    Args:
        factors: flat, in the layout of the result.
        emissions, lengths, transitions, start, end, tags: inputs of the operator; for the log partition function, tags
        are
            None.
        masks, batch_first: constraints, as `potentials.masks_of` returns them; layout of emissions and tags.
    """
    shape = emissions.shape
    emissions, lengths, transitions, start, end = graph_chain(emissions, lengths, transitions, start, end, masks,
                                                           batch_first)
    length, batch, num_tags = emissions.shape
    count = length * batch * num_tags
    by_emissions = turned(factors[batch:batch + count].reshape(shape), batch_first)
    rows = ops.concat((ops.zeros((2, batch, num_tags), ms.float32), by_emissions,
                       factors[batch + count:].reshape(num_tags, batch, num_tags)), 0)
    if tags is not None:
        tags = turned(in_range(tags, -1, num_tags), batch_first)
    return gradient_product(rows, emissions, tags, lengths, transitions, start, end)


def gradients(packed: Tensor, factors: Tensor, emissions: Tensor, lengths: Tensor, transitions: Tensor, start: Tensor,
              end: Tensor, masks: Masks, batch_first: bool) -> Tensor:
    """The result of `operators.gradients`, computed by plain operators.

    Args:
        packed, factors: flat result of the operator for loss or log partition function, and a factor for each row (B,).
        The
            result is linear in both.
        emissions, lengths, transitions, start, end: inputs of the operator.
        masks, batch_first: constraints, as `potentials.masks_of` returns them; layout of emissions.
    """
    shape, num_tags, batch = emissions.shape, start.shape[0], factors.shape[0]
    _, lengths, transitions, start, end = graph_chain(emissions, lengths, transitions, start, end, masks, batch_first)
    count = shape[0] * shape[1] * num_tags
    by_emissions = packed[batch:batch + count].reshape(shape)
    by_emissions = by_emissions * factors.reshape((batch, 1, 1) if batch_first else (1, batch, 1))
    by_time = turned(by_emissions, batch_first)
    by_emissions = ops.select(emissions < LEAST, zeros_like(by_emissions), by_emissions)
    by_steps = (packed[batch + count:].reshape(batch, num_tags * num_tags) * factors.reshape(batch, 1)).sum(0)
    by_ends = ops.concat((by_steps, by_time[0].sum(0), tensors.at_last(by_time, lengths).sum(0)), 0)
    scores = ops.concat((transitions.reshape(-1), start, end), 0)
    by_ends = ops.select(scores < LEAST, zeros_like(by_ends), by_ends)
    return ops.concat((by_emissions.reshape(-1), by_ends), 0)


def marginals(emissions: Tensor, lengths: Tensor, transitions: Tensor, start: Tensor, end: Tensor, masks: Masks,
              batch_first: bool) -> Tensor:
    """Posteriors in the layout of the emissions, computed by plain operators from the inputs of a C++ operator."""
    emissions, lengths, transitions, start, end = graph_chain(emissions, lengths, transitions, start, end, masks,
                                                           batch_first)
    _, result, _, _ = log_domain.forward_backward(emissions - largest_of(emissions), lengths, transitions, start, end)
    return turned(result, batch_first)


def path_posteriors(emissions: Tensor, lengths: Tensor, transitions: Tensor, start: Tensor, end: Tensor,
                    paths: Tensor, masks: Masks, batch_first: bool) -> Tensor:
    """Posteriors of paths in the flat layout of the C++ operator, computed by plain operators.

    They are the posteriors of the tags of the paths (B, L), then of every tag given the previous tag of the path (B, L,
    K).
    """
    chain = graph_chain(emissions, lengths, transitions, start, end, masks, batch_first)
    chosen, conditional = posteriors_of_path(turned(paths), *chain, None, True)
    return ops.concat((turned(chosen).reshape(-1), turned(conditional).reshape(-1)), 0)


_functions = copied(sys.modules[__name__])


class GradientProduct(InFloat32, nn.Cell):
    """`gradient_product` as a cell: of the loss if `with_tags`, otherwise of the log partition function."""

    def __init__(self, with_tags: bool) -> None:
        super().__init__()
        self.with_tags = with_tags

    def construct(self, emissions, transitions, start, end, factors, tags, lengths):
        known = ops.stop_gradient(tags) if self.with_tags else None
        return _functions.gradient_product(factors, emissions, known, ops.stop_gradient(lengths), transitions, start,
                                           end)


class FlatCell(InFloat32, nn.Cell):
    """Base class of cells that compute the same as a C++ operator by plain operators.

    Args:
        batch_first, masks: layout of emissions and tags; constraints, as `potentials.masks_of` returns them.
        with_tags: whether the last input are tags or paths. Otherwise it may be any integers and is ignored.
    """

    def __init__(self, batch_first: bool, masks: Masks, with_tags: bool = False) -> None:
        super().__init__()
        self.batch_first, self.masks, self.with_tags = batch_first, masks, with_tags


class FlatGradientProduct(FlatCell):
    """`flat_gradient_product` as a cell."""

    def construct(self, emissions, transitions, start, end, factors, tags, lengths):
        known = ops.stop_gradient(tags) if self.with_tags else None
        return _functions.flat_gradient_product(factors, emissions, known, ops.stop_gradient(lengths), transitions,
                                                start, end, self.masks, self.batch_first)


class FlatGradients(FlatCell):
    """`gradients` as a cell that has derivatives only by the packed result and the factors."""

    def construct(self, packed, factors, emissions, lengths, transitions, start, end):
        return _functions.gradients(packed, factors, ops.stop_gradient(emissions), ops.stop_gradient(lengths),
                                    ops.stop_gradient(transitions), ops.stop_gradient(start), ops.stop_gradient(end),
                                    self.masks, self.batch_first)


class FlatPosteriors(FlatCell):
    """`path_posteriors` if `with_tags`, otherwise `marginals`, as a cell."""

    def construct(self, emissions, transitions, start, end, lengths, paths):
        if self.with_tags:
            return _functions.path_posteriors(emissions, ops.stop_gradient(lengths), transitions, start, end,
                                              ops.stop_gradient(paths), self.masks, self.batch_first)
        return _functions.marginals(emissions, ops.stop_gradient(lengths), transitions, start, end, self.masks,
                                    self.batch_first)


class WithSecondDerivative(InFloat32, nn.Cell):
    """Returns a packed gradient unchanged, and defines its derivative.

    The derivative is one more pass through the recursions, forward and backward. It is compiled and computed only where
    a gradient is differentiated. A graph refuses to compile a third derivative.

    Args:
        product: a `GradientProduct` or a `FlatGradientProduct`.
    """

    def __init__(self, product: nn.Cell) -> None:
        super().__init__()
        self.product = product

    def construct(self, emissions, lengths, transitions, start, end, tags, packed):
        return packed

    def bprop(self, emissions, lengths, transitions, start, end, tags, packed, out, dout):
        gradients = _differentiate(self.product)(emissions, transitions, start, end, dout, tags, lengths)
        # Graphs return no gradients for integers, PyNative mode does. In both, these four come first.
        check_gradients((gradients[0].shape, gradients[1].shape, gradients[2].shape, gradients[3].shape),
                        (emissions.shape, transitions.shape, start.shape, end.shape))
        return (gradients[0], zeros_like(lengths), gradients[1], gradients[2], gradients[3], zeros_like(tags),
                zeros_like(packed))


class PackedSum(InFloat32, nn.Cell):
    """Log partition function, or with tags negative log probability of the known tags; packed with its gradient.

    Args:
        with_tags: True for the loss, False for the log partition function.
        usable: (K,) bool tensor, True for tags that occur in some allowed path; None if all tags do.
    """

    def __init__(self, with_tags: bool, usable: Tensor | None = None) -> None:
        super().__init__()
        self.with_tags, self.usable = with_tags, usable
        self.with_second_derivative = WithSecondDerivative(GradientProduct(with_tags))

    def construct(self, emissions, lengths, transitions, start, end, tags):
        """Returns value and gradient as `inference.pack` does; `value_of` extracts the value.

        Args:
            emissions, lengths: (L, B, K) float32, 0 on padding; (B,) int32.
            transitions: (K, K) float32, entry (i, j) scores tag j after tag i; or (L, B, K, K), entry t for the
                step from position t to t + 1, 0 on padding.
            start, end: (K,) float32.
            tags: (L, B) int32, negative where unknown; without `with_tags` any integers.
        """
        if self.with_tags:
            value, by_emissions, by_transitions = losses(emissions, tags, lengths, transitions, start, end, self.usable)
        else:
            value, by_emissions, by_transitions = posteriors(emissions, lengths, transitions, start, end, self.usable)
        return pack(value, by_emissions, by_transitions, lengths)

    def bprop(self, emissions, lengths, transitions, start, end, tags, out, dout):
        packed = self.with_second_derivative(emissions, lengths, transitions, start, end, tags, out)
        length, batch, num_tags = emissions.shape
        weight = _slice(dout, (0, 0, 0), (1, batch, 1))
        by_emissions = _multiply(_slice(packed, (2, 0, 0), (length, batch, num_tags)), weight)
        pairs = _slice(packed, (2 + length, 0, 0), (packed.shape[0] - 2 - length, batch, num_tags))
        if len(transitions.shape) == 2:
            by_transitions = _multiply(_reshape(pairs, (batch, num_tags, num_tags)), _reshape(weight, (batch, 1, 1)))
            by_transitions = _sum(by_transitions, 0)
        else:
            by_transitions = _multiply(_reshape(pairs, (length, batch, num_tags, num_tags)),
                                       _reshape(weight, (1, batch, 1, 1)))
        by_start = _sum(_slice(by_emissions, (0, 0, 0), (1, batch, num_tags)), (0, 1))
        by_end = _sum(_multiply(_slice(packed, (1, 0, 0), (1, batch, num_tags)), weight), (0, 1))
        return by_emissions, zeros_like(lengths), by_transitions, by_start, by_end, zeros_like(tags)


def value_of(packed: Tensor) -> Tensor:
    """The value (B,) in the packed result of `PackedSum`."""
    return packed[0, :, 0]
