"""Fuzzing of the layer, the cells and their C++ operators for benchmarks/fuzz.py, with valid and invalid arguments.

Arguments of a wrong type, rank or size must be rejected; any values are allowed. A row with nan, +inf or an
impossible length must get nan, and all other rows must agree with float64 NumPy.
"""

import functools

from ms_crf import CRF, allowed_transitions
from ms_crf.crf.operators import operators as chain_operators
from ms_crf.nn.bilstm import BiLSTM
from ms_crf.nn.characters import CharacterCNN
from ms_crf.nn.operators import operators as network_operators

import mindspore as ms
import numpy as np
from fuzz_chain import Chain, near
from fuzz_material import Failure, check
from mutations import value_of

METHODS = ['loss', 'log_prob', 'normalizer', 'marginals', 'decode', 'nbest', 'viterbi', 'path_posteriors']
VALUES = [np.nan, np.inf, -np.inf, 3e38, -3e38, 1e30, -1e25, 0.0, 1e-40]
LENGTHS = [-1, -2**31, 2**31 - 1, 2**40, 0]
REFUSED = ValueError, TypeError


def numbers(rng, *shape):
    return np.random.default_rng(rng.getrandbits(64)).normal(size=shape).astype(np.float32)


def misshapen(rng, array):
    """A copy of an array with a wrong rank, a wrong size of one axis, or a wrong type."""
    kind, axis = rng.randrange(5), rng.randrange(array.ndim)
    if kind == 0:
        return array[None]
    if kind == 1:
        return np.asarray(array[0])
    if kind == 2:
        return np.concatenate([array, array.take([0], axis)], axis)
    if kind == 3:
        return array.take(range(array.shape[axis] - 1), axis)
    return array.astype(np.complex64 if array.dtype.kind == 'f' else np.float32)


@functools.cache
def layer_of(tags, batch_first, constrained):
    """A CRF layer and its constraints, which may be None."""
    constraints = allowed_transitions('BIO', ['O', 'B', 'I', 'B-X', 'I-X'][:tags]) if constrained else None
    return CRF(tags, batch_first, 'none', constraints), constraints


@functools.cache
def network(of_characters):
    return CharacterCNN(5, 3, 4) if of_characters else BiLSTM(3, 4)


def tensor(value):
    return ms.Tensor(value) if isinstance(value, np.ndarray) else value


class Inputs:
    """Cases of calls with valid and invalid arguments."""

    refusals = REFUSED

    def __init__(self, _):
        ms.set_context(mode=ms.PYNATIVE_MODE)
        self.cases = [self.call_layer, self.call_layer, self.call_layer_wrongly, self.call_layer_wrongly,
                      self.call_changed_layer, self.call_operator, self.call_network]

    def arguments(self, rng):
        """Random emissions (length, batch, tags), tags (length, batch) and lengths (batch,)."""
        length, batch, tags = rng.choice([1, 2, 3, 5]), rng.choice([1, 2, 3]), rng.choice([1, 2, 3, 5])
        values = np.random.default_rng(rng.getrandbits(64))
        emissions, lengths = numbers(rng, length, batch, tags), values.integers(0, length + 1, batch)
        known = values.integers(-1, tags, (length, batch))
        if rng.random() < 0.5:
            emissions.flat[values.integers(0, emissions.size, 2)] = rng.choice(VALUES)
        if rng.random() < 0.3:
            lengths[rng.randrange(batch)] = rng.choice(LENGTHS)
        if rng.random() < 0.3:
            known.flat[rng.randrange(known.size)] = rng.choice([tags, -5, 10**12])
        return emissions, known, lengths.astype(np.int64)

    def _call(self, layer, method, emissions, known, lengths, **others):
        """Calls a method of a layer; returns its result as arrays, length first.

        Arguments are length first; they are transposed for a layer with `batch_first`.
        """
        if layer.batch_first:
            emissions, known = (array.swapaxes(0, 1) if isinstance(array, np.ndarray) and array.ndim > 1 else array
                                for array in (emissions, known))
        emissions, known, lengths = map(tensor, (emissions, known, lengths))
        if method in ('loss', 'log_prob'):
            result = getattr(layer, method)(emissions, known, lengths, **others)
        elif method == 'nbest':
            result = layer.nbest(emissions, others.pop('n', 2), lengths, **others)
        elif method == 'path_posteriors':
            paths = known if layer.batch_first or not isinstance(known, ms.Tensor) or known.ndim != 2 else known.T
            result = layer.path_posteriors(emissions, paths, lengths, **others)
        else:
            result = getattr(layer, method)(emissions, lengths, **others)
        parts = result if isinstance(result, tuple) else (result,)
        return [part.asnumpy() for part in parts if isinstance(part, ms.Tensor)]

    def call_layer(self, rng):
        """Calls the layer with arguments of valid types and shapes, but with any values."""
        emissions, known, lengths = self.arguments(rng)
        layer, constraints = layer_of(emissions.shape[2], rng.random() < 0.5, rng.random() < 0.3)
        method = rng.choice(METHODS)
        others = {'temperature': 1.0} if method in ('normalizer', 'marginals') and rng.random() < 0.1 else {}
        parts = self._call(layer, method, emissions, known, lengths, **others)
        if method in ('normalizer', 'decode'):
            scores = [part.asnumpy().astype(float) for part in
                      (layer.transitions, layer.start_transitions, layer.end_transitions)]
            self._compare(method, parts, emissions, lengths, scores, constraints)
        return method

    @staticmethod
    def _compare(method, parts, emissions, lengths, scores, allowed):
        length = len(emissions)
        faulty = np.isnan(emissions) | (emissions == np.inf)
        real = np.arange(length)[:, None] < lengths
        void = (lengths < 0) | (lengths > length) | (faulty.any(2) & real).any(0)
        forbidden = np.where(emissions < -1e24, -np.inf, emissions.astype(float))
        chain = Chain(np.where(faulty, 0.0, forbidden), np.full(emissions.shape[:2], -1), lengths.clip(0, length),
                      *scores, allowed)
        values = parts[-1]
        check((np.isnan(values) == void).all(), f'{method}: {values} where rows {void} are void')
        for row in np.flatnonzero(~void & (lengths > 0)):
            expected = chain.sums(row)[0] if method == 'normalizer' else chain.best_score(row)
            if abs(expected) < 1e38 and expected > -1e20:      # within float32, and not forbidden
                try:
                    near(values[row], expected, method, 1e-5)
                except AssertionError as error:
                    raise Failure(str(error)) from None

    def call_layer_wrongly(self, rng):
        """Calls the layer with one argument of a wrong rank, size or type, which must be rejected."""
        arrays = list(self.arguments(rng))
        layer, _ = layer_of(arrays[0].shape[2], rng.random() < 0.5, rng.random() < 0.3)
        method, others = rng.choice(METHODS), {}
        which = rng.randrange(5)
        if which < 3:
            if which == 1 and method not in ('loss', 'log_prob', 'path_posteriors'):
                which = 0
            right = arrays[which]
            arrays[which] = misshapen(rng, right) if rng.random() < 0.8 else value_of(rng)
            if (arrays[which] is None and which) or getattr(arrays[which], 'shape', (0,))[1:] == right.shape[1:] != ():
                return 'right after all'                 # the change is valid: no lengths, or longer emissions
        elif which == 3:
            length, batch, tags = arrays[0].shape
            axes = (batch, length) if layer.batch_first else (length, batch)     # one position too many
            others = {'pair_emissions': tensor(numbers(rng, *axes, tags, tags))}
        elif rng.random() < 0.5:
            method, others = 'nbest', {'n': rng.choice([0, -1, 2.0, 10**12, '1', None, True])}
        else:
            method = rng.choice(['normalizer', 'marginals', 'log_prob'])
            others = {'temperature': rng.choice([0, -1.0, float('nan'), 'a', ms.Tensor([1.0]), ms.Tensor(1)])}
        self._call(layer, method, *arrays, **others)
        raise Failure(f'{method} took {[getattr(array, "shape", array) for array in arrays]}, {others}; num_tags '
                      f'{layer.num_tags}, batch_first {layer.batch_first}')

    def call_changed_layer(self, rng):
        """Calls a layer whose attributes or parameters were changed after its creation."""
        emissions, known, lengths = self.arguments(rng)
        layer = CRF(emissions.shape[2], rng.random() < 0.5, 'none')
        name = rng.choice(['batch_first', 'num_tags', 'transitions', 'start_transitions', 'end_transitions'])
        value = getattr(layer, name)
        if name == 'batch_first':
            value = not value
        elif name == 'num_tags':
            value = rng.choice([value + 1, max(1, value - 1)])
        else:
            value = ms.Parameter(ms.Tensor(misshapen(rng, value.asnumpy())), name=name)

        def call():
            setattr(layer, name, value)
            self._call(layer, rng.choice(METHODS), emissions, known, lengths)
        return self._without_crash(call)

    @staticmethod
    def _without_crash(call):
        """Calls a function; any exception is allowed, because MindSpore itself may refuse the arguments."""
        try:
            call()
        except Exception:
            return 'refused'

    def call_operator(self, rng):
        """Calls the operators with one or two inputs of a wrong shape; the process must not crash."""
        if rng.random() < 0.6:
            module, (name, inputs) = chain_operators, self._chain_inputs(rng)
        else:
            module, (name, inputs) = network_operators, self._network_inputs(rng)
        for _ in range(rng.choice([0, 1, 1, 2])):
            index = rng.randrange(len(inputs))
            if inputs[index].size and inputs[index].ndim:
                inputs[index] = misshapen(rng, inputs[index])
        if rng.random() < 0.1:
            inputs = inputs[:-1]
        return self._without_crash(lambda: getattr(module, name)(*map(tensor, inputs)).asnumpy())

    def _chain_inputs(self, rng):
        emissions, known, lengths = self.arguments(rng)
        length, batch, tags = emissions.shape
        shared = [emissions, lengths, numbers(rng, tags, tags), numbers(rng, tags), numbers(rng, tags),
                  np.ones(rng.choice([1, tags * tags + 2 * tags]), bool), np.zeros(1, np.int32)]
        count = emissions.size
        own = {'normalizer': [], 'loss': [known], 'marginals': [], 'decode': [], 'viterbi': [],
               'n_best': [np.zeros(3, np.int32)], 'path_posteriors': [known.T],
               'gradients': [numbers(rng, batch + count + batch * tags * tags), numbers(rng, batch)],
               'path_gradients': [1e9 * numbers(rng, batch + batch * length), numbers(rng, batch)],
               'viterbi_gradients': [1e9 * numbers(rng, count), numbers(rng, batch * tags)]}
        name = rng.choice(list(own))
        return name, [*shared, *own[name]]

    def _network_inputs(self, rng):
        length, batch, width, units, tags = (rng.choice([1, 2, 5]) for _ in range(5))
        lengths = np.array([rng.choice([0, 1, length, *LENGTHS]) for _ in range(batch)], np.int64)
        by_input, by_state, bias = (numbers(rng, 4 * units, size) for size in (width, units, 1))
        bias, inputs = bias[:, 0], numbers(rng, length, batch, width)
        both = [by_input, by_state, bias, bias] * 2
        spellings = np.array(rng.choices([0, 1, 4, 5, -1, 10**9], k=batch * length), np.int32).reshape(batch, length)
        forms = numbers(rng, 3, width)
        states = 2 * length * batch * units
        own = {'states': [inputs, lengths, *both], 'states_and_kept': [inputs, lengths, *both],
               'gates_of_forms': [forms, np.array([rng.choice([0, 3, 4, -1])], np.int32), *[by_input, bias, bias] * 2],
               'scores_of_forms': [numbers(rng, 3, 8 * units), lengths, by_state, by_state,
                                   np.full((length, batch), rng.choice([0, 2, 3, -1, 10**9]), np.int32),
                                   numbers(rng, tags, 2 * units), numbers(rng, tags)],
               'lstm_gradients': [inputs, lengths, *both, numbers(rng, states), numbers(rng, states)],
               'words_of_characters': [numbers(rng, 5, width), numbers(rng, 4, 3 * width), spellings],
               'character_gradients': [numbers(rng, 5, width), numbers(rng, 4, 3 * width), spellings,
                                       numbers(rng, 4 * batch)]}
        name = rng.choice(list(own))
        return name, own[name]

    def call_network(self, rng):
        """Calls cells of the tagger with arguments of wrong ranks, sizes and types."""
        if rng.random() < 0.5:
            spellings = np.array(rng.choices([0, 1, 4, 5, -1, 10**9], k=6)).reshape(2, 3)
            arguments = [misshapen(rng, spellings) if rng.random() < 0.7 else spellings]
        else:
            arguments = [numbers(rng, 4, 2, 3), np.array([rng.choice([4, 0, *LENGTHS]), 1])]
            index = rng.randrange(2)
            arguments[index] = misshapen(rng, arguments[index])
        cell = network(len(arguments) == 1)
        return self._without_crash(lambda: cell(*map(tensor, arguments)).asnumpy())
