"""Oracles in float64 NumPy, independent of other libraries: an LSTM, a BERT, word pieces and optimizers.

The functions also take complex numbers, so that `derivative` is exact: it takes one step along the imaginary axis.
"""

import numpy as np
from scipy.special import erf

STEP = 1e-30
LSTM_WEIGHTS = ('weight_ih', 'weight_hh', 'bias_ih', 'bias_hh')


def derivative(function, arrays, name, direction):
    """Derivative of a real function of a dict of arrays, by the array `name`, in a direction."""
    return function({**arrays, name: arrays[name] + 1j * STEP * direction}).imag / STEP


def lstm_weights(cell):
    """The weights (4H, D), (4H, H), (4H,), (4H,) of one direction of a MindSpore LSTM, as arguments of `lstm`."""
    found = [[parameter.asnumpy().astype(float) for parameter in cell.trainable_params() if name in parameter.name]
             for name in LSTM_WEIGHTS]
    return [weight for weight, in found]


def lstm(inputs, by_input, by_state, input_bias, state_bias):
    """States (n, H) of a sequence (n, D) in one direction; the gates are input, forget, cell and output."""
    width = by_state.shape[1]
    state = memory = np.zeros(width)
    states = []
    for vector in inputs:
        gates = (by_input @ vector + input_bias + by_state @ state + state_bias).reshape(4, width)
        keep = 1 / (1 + np.exp(-gates))
        memory = keep[1] * memory + keep[0] * np.tanh(gates[2])
        state = keep[3] * np.tanh(memory)
        states.append(state)
    return np.array(states).reshape(len(inputs), width)


def bilstm(inputs, forward, backward):
    """States (n, 2H) of a sequence (n, D) in both directions."""
    return np.concatenate([lstm(inputs, *forward), lstm(inputs[::-1], *backward)[::-1]], 1)


def gelu(values):
    return values / 2 * (1 + erf(values / np.sqrt(2)))


def gelu_by_tanh(values):
    return values / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (values + 0.044715 * values ** 3)))


def relu(values):
    return np.where(values.real > 0, values, 0)


ACTIVATIONS = {'gelu': gelu, 'gelu_new': gelu_by_tanh, 'relu': relu}


def bert(config, weights, ids, prefix='', first_position=0):
    """Vectors (n, width) of one sequence of pieces, without padding.

    Args:
        config: the dict of config.json.
        weights: dict of arrays, with the names of the Hugging Face hub.
        ids: ids (n,) of the pieces, including special pieces.
        prefix: prefix of the names in `weights`.
        first_position: index of the first position embedding; 2 for RoBERTa.
    """
    def normalized(values, name):
        centred = values - values.mean(-1, keepdims=True)
        deviation = np.sqrt((centred ** 2).mean(-1, keepdims=True) + config['layer_norm_eps'])
        return centred / deviation * weights[f'{prefix}{name}.weight'] + weights[f'{prefix}{name}.bias']

    def dense(values, name):
        return values @ weights[f'{prefix}{name}.weight'].T + weights[f'{prefix}{name}.bias']

    words, positions, types = (weights[f'{prefix}embeddings.{name}_embeddings.weight']
                               for name in ('word', 'position', 'token_type'))
    hidden = words[ids] + positions[first_position:first_position + len(ids)] + types[0]
    hidden, heads = normalized(hidden, 'embeddings.LayerNorm'), config['num_attention_heads']
    for layer in (f'encoder.layer.{number}' for number in range(config['num_hidden_layers'])):
        query, key, value = (np.stack(np.split(dense(hidden, f'{layer}.attention.self.{name}'), heads, -1))
                             for name in ('query', 'key', 'value'))
        scores = query @ np.swapaxes(key, 1, 2) / np.sqrt(query.shape[-1])
        shares = np.exp(scores - scores.real.max(-1, keepdims=True))
        context = np.concatenate(shares / shares.sum(-1, keepdims=True) @ value, -1)
        hidden = normalized(hidden + dense(context, f'{layer}.attention.output.dense'),
                            f'{layer}.attention.output.LayerNorm')
        inner = ACTIVATIONS[config['hidden_act']](dense(hidden, f'{layer}.intermediate.dense'))
        hidden = normalized(hidden + dense(inner, f'{layer}.output.dense'), f'{layer}.output.LayerNorm')
    return hidden


def word_pieces(word, pieces):
    """The ids of the pieces of a word: each time the longest piece that matches; [UNK] if no piece matches."""
    found, rest, mark = [], ''.join(letter for letter in word if letter.isprintable()), ''
    while rest:
        size = next((size for size in range(len(rest), 0, -1) if mark + rest[:size] in pieces), None)
        if size is None:
            return [pieces.index('[UNK]')]
        found.append(pieces.index(mark + rest[:size]))
        rest, mark = rest[size:], '##'
    return found


class Steps:
    """Updates of weights by Adam, AdamW and SGD with momentum 0.9, as defined in torch.optim.

    Args:
        kind: 'adam', 'adamw' or 'sgd'.
        rate: the learning rate.
        decay: the weight decay of each weight.
    """

    def __init__(self, kind, rate, decay):
        self.kind, self.rate, self.decay, self.count = kind, rate, decay, 0
        self.first, self.second = {}, {}

    def step(self, weights, gradients):
        """The new weights, from the lists of weights and gradients."""
        self.count += 1
        updated = []
        for index, (weight, gradient) in enumerate(zip(weights, gradients)):
            decay = self.decay[index]
            if self.kind == 'adamw':
                weight = weight * (1 - self.rate * decay)
            else:
                gradient = gradient + decay * weight
            first, second = self.first.get(index, 0), self.second.get(index, 0)
            if self.kind == 'sgd':
                first = step = 0.9 * first + gradient
            else:
                first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient ** 2
                step = (first / (1 - 0.9 ** self.count)) / (np.sqrt(second / (1 - 0.999 ** self.count)) + 1e-8)
            self.first[index], self.second[index] = first, second
            updated.append(weight - self.rate * step)
        return updated
