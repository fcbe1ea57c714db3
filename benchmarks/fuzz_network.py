"""Random BiLSTMs and character encoders: compares the C++ operators with float64 NumPy.

Gradients are tested with complex-step derivatives, which are exact and independent of the operators' own arithmetic.
"""

import numpy as np

STEP = 1e-30


def near(actual, expected, what, tolerance):
    scale = max(1.0, np.abs(expected).max(initial=0.0))
    assert np.abs(np.asarray(actual, np.float64) - expected).max(initial=0.0) <= tolerance * scale, what


def check_gradient(function, arrays, gradients, rng, what, tolerance=1e-5):
    """Compares gradients with complex-step derivatives of a function.

    Each array is moved in a random direction, and along one random coordinate.

    Args:
        function: maps float64 or complex arrays to one number.
        arrays, gradients: two lists of arrays with equal shapes.
        rng: a NumPy random generator.
        what: name of the gradient in error messages.
        tolerance: largest difference, relative to max(1, |direction| |gradient|).
    """
    for index, (array, gradient) in enumerate(zip(arrays, gradients)):
        one = np.zeros(array.size)
        one[rng.integers(array.size)] = 1.0
        for direction in (rng.normal(size=array.shape), one.reshape(array.shape)):
            moved = [other.astype(complex) for other in arrays]
            moved[index] = array + 1j * STEP * direction
            scale = max(1.0, np.sqrt((direction ** 2).sum() * (gradient.astype(float) ** 2).sum()))
            difference = function(moved).imag / STEP - (direction * gradient).sum()
            assert abs(difference) <= tolerance * scale, f'{what} {index} of {array.shape}: off by {difference}'


def lstm_states(inputs, lengths, weights):
    """States of a BiLSTM, (length, batch, 2 units), computed from the definition, one position at a time.

    Args:
        inputs: input vectors, (length, batch, width).
        lengths: lengths of the sentences, (batch,).
        weights: for each direction the weights of the input and of the previous state, and two biases.
    """
    units = weights[1].shape[1]
    states = np.zeros((*inputs.shape[:2], 2 * units), np.result_type(inputs, *weights))
    for direction, (by_input, by_state, bias, other) in enumerate((weights[:4], weights[4:])):
        for row, length in enumerate(lengths):
            state, cell = np.zeros(units), np.zeros(units)
            for position in range(length) if direction == 0 else range(length - 1, -1, -1):
                gates = by_input @ inputs[position, row] + by_state @ state + bias + other
                entering, kept, candidate, leaving = np.split(gates, 4)
                cell = cell / (1 + np.exp(-kept)) + np.tanh(candidate) / (1 + np.exp(-entering))
                state = np.tanh(cell) / (1 + np.exp(-leaving))
                states[position, row, direction * units:(direction + 1) * units] = state
    return states


def scores_of_forms(operators, inputs, given, weights, real, projection, rng):
    """Scores of the tags, (length, batch, tags), from the operators that read distinct word forms.

    The real positions are passed as forms in random order, followed by some unused forms.
    """
    length, batch, width = inputs.shape
    count = max(1, int(real.sum()))
    forms = np.full((count + int(rng.integers(3)), width), np.nan, np.float32)
    order = rng.permutation(int(real.sum()))
    forms[order] = inputs[real]
    places = np.full((length, batch), rng.choice([-1, 0, 10 ** 9]), np.int32)
    places[real] = order
    first, second = weights[:4], weights[4:]
    gates = operators.call('LstmGatesOfForms', [forms, np.array([count], np.int32), first[0], *first[2:], second[0],
                                                *second[2:]], len(forms) * 2 * len(first[0]))
    flat = operators.call('LstmScoresOfForms', [gates.reshape(len(forms), -1), given, first[1], second[1], places,
                                                *projection], length * batch * len(projection[1]))
    return flat.reshape(length, batch, -1)


def check_lstm(operators, rng):
    """Checks states and gradients of a random layer, with some empty sentences and arbitrary values on padding."""
    length, batch = int(rng.choice([1, 2, 3, 7, 12])), int(rng.choice([1, 2, 3, 5, 8, 13, 33]))
    width, units = int(rng.choice([1, 2, 5, 16, 17, 40])), int(rng.choice([1, 3, 4, 8, 15, 16, 33]))
    scale = float(rng.choice([0.1, 0.3, 20.0]))
    if scale > 1:
        length = 1                                               # large weights would amplify rounding errors
    shapes = [(4 * units, width), (4 * units, units), (4 * units,), (4 * units,)] * 2
    weights = [(rng.normal(size=shape) * scale).astype(np.float32) for shape in shapes]
    inputs = rng.normal(size=(length, batch, width)).astype(np.float32)
    lengths = rng.integers(0, length + 1, batch)
    real = np.arange(length)[:, None] < lengths
    inputs[~real] = rng.choice([0.0, np.nan, np.inf, 1e30])
    given = lengths.astype(rng.choice([np.int32, np.int64, np.uint8]))
    arguments = [inputs, given, *weights]
    size = length * batch * units
    states = operators.call('LstmStates', arguments, 2 * size)
    kept = operators.call('LstmStatesAndKept', arguments, operators.size('LstmStatesAndKept', arguments))
    assert (kept[:2 * size] == states).all(), 'states differ from those that are kept'
    factors = (rng.normal(size=(length, batch, 2 * units)) * real[..., None]).astype(np.float32)
    flat = operators.call('LstmGradients', [*arguments, kept, factors.reshape(-1)],
                          2 * (inputs.size + 4 * units * (width + units + 1)))
    exact = [np.where(real[..., None], inputs, 0.0).astype(np.float64), *(part.astype(np.float64) for part in weights)]
    expected = lstm_states(exact[0], lengths, exact[1:])
    near(states.reshape(expected.shape), expected, 'states', 2e-6 * max(1.0, scale))
    tags = int(rng.choice([1, 2, 9, 33]))
    projection = [rng.normal(size=shape).astype(np.float32) for shape in ((tags, 2 * units), (tags,))]
    scores = scores_of_forms(operators, inputs, given, weights, real, projection, rng)
    near(scores, (expected @ projection[0].T.astype(float) + projection[1]) * real[..., None], 'scores of forms',
         5e-6 * max(1.0, scale))
    by_inputs, rest = flat[:inputs.size].reshape(inputs.shape), flat[inputs.size:]
    assert not by_inputs[~real].any(), 'a gradient by padding'
    gradients = [by_inputs]
    for _ in range(2):
        for shape in shapes[:3]:
            part, rest = np.split(rest, [int(np.prod(shape))])
            gradients.append(part.reshape(shape))
        gradients.append(gradients[-1])
    if scale < 1:
        check_gradient(lambda arrays: (lstm_states(arrays[0], lengths, arrays[1:]) * factors).sum(), exact, gradients,
                       rng, 'gradient of the LSTM')


def character_words(table, filters, spellings):
    """Vectors of words, (words, filters), computed from the definition, one window at a time.

    If several windows have the same maximum, the first window is used.
    """
    dim = table.shape[1]
    table = np.concatenate((np.zeros((1, dim)), table[1:]))
    words = np.zeros((len(spellings), len(filters)), table.dtype)
    for word, spelling in enumerate(spellings):
        vectors = [np.zeros(dim)] * 2 + [table[character] for character in spelling] + [np.zeros(dim)] * 2
        windows = np.array([np.concatenate(vectors[first:first + 3]) for first in range(len(spelling) + 2)])
        values = windows @ filters.T
        best = values.real.argmax(0)
        largest = values[best, np.arange(len(filters))]
        words[word] = np.where(largest.real > 0, largest, 0)
    return words


def check_characters(operators, rng):
    """Checks vectors and gradients of a random convolution, with empty words and words of full length."""
    count, dim, filters = int(rng.choice([2, 3, 30])), int(rng.choice([1, 3, 16, 30])), int(rng.choice([1, 4, 16, 50]))
    words, length = int(rng.choice([1, 2, 9, 150])), int(rng.choice([1, 2, 3, 8]))
    table = rng.normal(size=(count, dim)).astype(np.float32)
    weights = rng.normal(size=(filters, 3 * dim)).astype(np.float32)
    spellings = rng.integers(1, count, (words, length)).astype(np.int32)
    spellings[np.arange(length) >= rng.integers(0, length + 1, words)[:, None]] = 0
    inputs = [table, weights, spellings]
    actual = operators.call('CharactersWords', inputs, words * filters)
    exact = [table.astype(np.float64), weights.astype(np.float64)]
    near(actual.reshape(words, filters), character_words(*exact, spellings), 'words', 5e-6)
    factors = rng.normal(size=(words, filters)).astype(np.float32)
    flat = operators.call('CharactersGradients', [*inputs, factors.reshape(-1)], table.size + weights.size)
    gradients = [flat[:table.size].reshape(table.shape), flat[table.size:].reshape(weights.shape)]
    assert not gradients[0][0].any(), 'a gradient by padding'
    check_gradient(lambda arrays: (character_words(*arrays, spellings) * factors).sum(), exact, gradients, rng,
                   'gradient of the characters', 1e-4)           # sums of thousands of terms that partly cancel
